//! What differs between the results that are written down and those that were found.

use std::collections::BTreeSet;

use super::{Finding, Place, Played, Results};

/// What to do about a difference that is meant.
const WRITE: &str = "if that is right, write it down: cargo run -p conformance -- results";

/// Compares outcomes, in both directions; what is said about an outcome may differ, since replies
/// and times do. `planned` is all that can be played: what is written down beyond that is wrong.
pub(super) fn differences(
    expected: &Results,
    found: &[(Place, Played)],
    planned: &[Place],
) -> Vec<String> {
    let mut differences = Vec::new();
    for (place, found) in found {
        let at = format!("{}, {}, {}", place.client, place.way(), place.scenario);
        let Some(expected) = expected.get(place) else {
            differences.push(format!("{at}: was never written down; {WRITE}"));
            continue;
        };
        let names: BTreeSet<&String> = expected.checks.keys().chain(found.checks.keys()).collect();
        for name in names {
            let (before, now) = (expected.checks.get(name), found.checks.get(name));
            if before.map(Finding::word) != now.map(Finding::word) {
                differences.push(format!("{at}: {name} {}", told(before, now)));
            }
        }
        match (&expected.client_failed, &found.client_failed) {
            (None, Some(why)) => differences.push(format!("{at}: the client failed: {why}")),
            (Some(why), None) => differences.push(format!(
                "{at}: the client ended well, where it was expected to fail ({why}); {WRITE}"
            )),
            _ => {}
        }
    }
    let planned: BTreeSet<_> = planned
        .iter()
        .map(|place| (place.client.clone(), place.way(), place.scenario.clone()))
        .collect();
    for (client, way, scenario) in expected.places() {
        let place = (client.to_owned(), way.to_owned(), scenario.to_owned());
        if !planned.contains(&place) {
            differences.push(format!(
                "{client}, {way}, {scenario}: is written down, and can be played no more; {WRITE}"
            ));
        }
    }
    differences
}

fn told(before: Option<&Finding>, now: Option<&Finding>) -> String {
    match (before, now) {
        (Some(before), None) => {
            format!("was {}, and is checked no more; {WRITE}", before.word())
        }
        (None, Some(now)) => format!("is new, and {}; {WRITE}", now.word()),
        (Some(before), Some(now)) => {
            let why = now.why().map(|why| format!(": {why}")).unwrap_or_default();
            let hint = match now {
                Finding::Met | Finding::MetBut(_) => format!("; {WRITE}"),
                Finding::ByProcess(_) | Finding::Unmet(_) | Finding::NotTestable(_) => {
                    String::new()
                }
            };
            format!(
                "is {}, where {} was expected{why}{hint}",
                now.word(),
                before.word()
            )
        }
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Revision, Transport};

    fn place(client: &str) -> Place {
        Place {
            client: client.to_owned(),
            revision: Revision::Requests,
            transport: Transport::Stdio,
            scenario: "burst".to_owned(),
        }
    }

    fn played(checks: &[(&str, Finding)]) -> Played {
        Played {
            client_failed: None,
            checks: checks
                .iter()
                .map(|(name, finding)| ((*name).to_owned(), finding.clone()))
                .collect(),
        }
    }

    fn compare(before: &[(&str, Finding)], now: &[(&str, Finding)]) -> Vec<String> {
        let mut expected = Results::default();
        expected.set(&place("a"), played(before));
        let found = [(place("a"), played(now))];
        differences(&expected, &found, &[place("a")])
    }

    fn unmet(why: &str) -> Finding {
        Finding::Unmet(why.to_owned())
    }

    #[test]
    fn a_pass_that_was_not_expected_is_as_wrong_as_a_failure() {
        assert_eq!(
            compare(&[("exact", unmet("48 of 48"))], &[("exact", Finding::Met)]),
            [format!(
                "a, 2025-11-25 over stdio, burst: exact is met, where not met was expected; {WRITE}"
            )]
        );
        assert_eq!(
            compare(&[("exact", Finding::Met)], &[("exact", unmet("48 of 48"))]),
            ["a, 2025-11-25 over stdio, burst: exact is not met, where met was expected: 48 of 48"]
        );
    }

    #[test]
    fn checks_that_come_or_go_are_differences_and_other_words_are_none() {
        assert_eq!(compare(&[("a", unmet("1"))], &[("a", unmet("2"))]), [""; 0]);
        assert_eq!(compare(&[], &[("a", Finding::Met)]).len(), 1);
        assert_eq!(compare(&[("a", Finding::Met)], &[]).len(), 1);
        let mut failed = played(&[]);
        failed.client_failed = Some("it hung".to_owned());
        let mut expected = Results::default();
        expected.set(&place("a"), played(&[]));
        let both = |expected: &Results, found| {
            differences(expected, &[(place("a"), found)], &[place("a")]).len()
        };
        assert_eq!(both(&expected, failed.clone()), 1);
        expected.set(&place("a"), failed.clone());
        assert_eq!(both(&expected, played(&[])), 1);
        assert_eq!(both(&expected, failed), 0);
    }

    #[test]
    fn a_client_that_is_missing_on_either_side_is_a_difference() {
        let mut expected = Results::default();
        let found = [(place("a"), played(&[]))];
        let planned = [place("a")];
        assert_eq!(differences(&expected, &found, &planned).len(), 1);
        expected.set(&place("a"), played(&[]));
        expected.set(&place("gone"), played(&[]));
        let only = differences(&expected, &found, &planned);
        assert_eq!(only.len(), 1);
        assert!(only[0].starts_with("gone, "), "{only:?}");
    }
}
