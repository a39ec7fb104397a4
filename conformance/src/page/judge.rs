//! Whether a client meets a requirement: worked out from the checks that cite it.

use super::Sources;
use crate::{
    clients::Entry,
    protocol::Transport,
    register::{BOUNDS, Requirement},
    results::{self, Finding},
};

/// What the page says about a client and a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// By every check.
    Met,
    /// By some checks, while others could not be made.
    InPart,
    /// By each process of a relay, whose windows end with it.
    ByProcess,
    /// A check is not met.
    NotMet,
    /// No check could be made.
    NotTestable,
    /// It is about how questions are bounded, and the client bounds none.
    NoLimit,
    /// It is asked of clients alone, or of relays alone.
    AnotherRule,
    /// The client speaks no revision in which it is checked.
    NotPlayed,
}

impl Verdict {
    pub(crate) const ALL: [Self; 8] = [
        Self::Met,
        Self::InPart,
        Self::ByProcess,
        Self::NotMet,
        Self::NotTestable,
        Self::NoLimit,
        Self::AnotherRule,
        Self::NotPlayed,
    ];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::InPart => "met in part",
            Self::ByProcess => "by process",
            Self::NotMet => "**not met**",
            Self::NotTestable => "not testable",
            Self::NoLimit => "no limit",
            Self::AnotherRule => "another rule",
            Self::NotPlayed => "not played",
        }
    }

    pub(crate) const fn means(self) -> &'static str {
        match self {
            Self::Met => "every check of it is met",
            Self::InPart => "some checks are met, and the client gave no occasion for the others",
            Self::ByProcess => {
                "each process of the relay holds it as far as it lives, and knows nothing of those before it: \
                 a server that is started again starts with full windows, so that over its sessions \
                 it is not held"
            }
            Self::NotMet => "a check of it is not met",
            Self::NotTestable => "the client gave no occasion for any check of it",
            Self::NoLimit => {
                "it says how questions are bounded, and this client bounds none: there is nothing to judge"
            }
            Self::AnotherRule => {
                "a client decides by what it can read, and a relay before it cannot know what that is: \
                 of either, something of its own is required"
            }
            Self::NotPlayed => "the client speaks no revision in which it is checked",
        }
    }
}

/// What one check found, in one transport.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    pub(crate) scenario: &'a str,
    pub(crate) check: &'a str,
    pub(crate) transport: Transport,
    pub(crate) finding: &'a Finding,
}

/// A verdict, and what it rests on.
#[derive(Clone, Debug)]
pub(crate) struct Cell<'a> {
    pub(crate) verdict: Verdict,
    pub(crate) found: Vec<Found<'a>>,
}

/// Judges a client by a requirement.
pub(crate) fn cell<'a>(
    sources: &'a Sources,
    entry: &Entry,
    (id, requirement): (&str, &Requirement),
) -> Cell<'a> {
    let found = found(sources, entry, id);
    let verdict = if requirement.of.is_some_and(|of| of != entry.counter()) {
        Verdict::AnotherRule
    } else if requirement.presumes_limit && !bounds_questions(sources, entry) {
        Verdict::NoLimit
    } else {
        verdict(found.iter().map(|found| found.finding))
    };
    Cell { verdict, found }
}

/// Whether any check found a bound on a kind of questions.
fn bounds_questions(sources: &Sources, entry: &Entry) -> bool {
    let mut found = BOUNDS.iter().flat_map(|id| found(sources, entry, id));
    found.any(|found| is_met(found.finding))
}

const fn is_met(finding: &Finding) -> bool {
    matches!(finding, Finding::Met | Finding::MetBut(_))
}

fn verdict<'a>(findings: impl Iterator<Item = &'a Finding>) -> Verdict {
    let (mut met, mut by_process, mut unmet, mut untestable) = (false, false, false, false);
    for finding in findings {
        match finding {
            Finding::Met | Finding::MetBut(_) => met = true,
            Finding::ByProcess(_) => by_process = true,
            Finding::Unmet(_) => unmet = true,
            Finding::NotTestable(_) => untestable = true,
        }
    }
    match (met, unmet, untestable) {
        (_, true, _) => Verdict::NotMet,
        _ if by_process => Verdict::ByProcess,
        (true, false, true) => Verdict::InPart,
        (true, false, false) => Verdict::Met,
        (false, false, true) => Verdict::NotTestable,
        (false, false, false) => Verdict::NotPlayed,
    }
}

/// What the checks that cite a requirement found.
fn found<'a>(sources: &'a Sources, entry: &Entry, id: &str) -> Vec<Found<'a>> {
    let mut all = Vec::new();
    for place in results::plan(entry, &sources.scenarios) {
        let scenario = sources
            .scenarios
            .iter()
            .find(|one| one.name == place.scenario);
        let played = sources.results.get(&place);
        let (Some(scenario), Some(played)) = (scenario, played) else {
            continue;
        };
        let citing = scenario.checks.iter();
        for check in citing.filter(|check| check.requires.iter().any(|one| one == id)) {
            all.extend(played.checks.get(&check.name).map(|finding| Found {
                scenario: &scenario.name,
                check: &check.name,
                transport: place.transport,
                finding,
            }));
        }
    }
    all.sort_by_key(|found| (found.scenario, found.check));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::all_met_but;

    fn verdict_of(sources: &Sources, wanted: &str) -> Verdict {
        let mut all = sources.register.iter();
        let (id, requirement) = all.find(|(id, _)| *id == wanted).unwrap();
        cell(sources, &sources.clients[0], (id, requirement)).verdict
    }

    #[test]
    fn who_bounds_nothing_meets_nothing_that_says_how() {
        let bounded = all_met_but(&[]);
        let elicitation_alone = all_met_but(&["sampling-bounded"]);
        let unbounded = all_met_but(&BOUNDS);
        for (id, without) in [
            ("malformed-counts", Verdict::NoLimit),
            ("servers-apart", Verdict::NoLimit),
            ("sampling-bounded", Verdict::NotMet),
            ("state-untouched", Verdict::Met),
        ] {
            assert_eq!(verdict_of(&bounded, id), Verdict::Met, "{id}");
            assert_eq!(verdict_of(&unbounded, id), without, "{id}");
        }
        let one_kind = verdict_of(&elicitation_alone, "servers-apart");
        assert_eq!(one_kind, Verdict::Met, "one kind is enough to judge by");
    }

    #[test]
    fn one_check_that_fails_is_enough_and_what_cannot_be_made_is_no_pass() {
        let (met, by_process, unmet, not) = (
            Finding::Met,
            Finding::ByProcess(String::new()),
            Finding::Unmet(String::new()),
            Finding::NotTestable(String::new()),
        );
        let cases: [(&[&Finding], Verdict); 8] = [
            (&[&met, &by_process, &not], Verdict::ByProcess),
            (&[&met, &by_process, &unmet], Verdict::NotMet),
            (&[], Verdict::NotPlayed),
            (&[&met, &met], Verdict::Met),
            (&[&met, &not], Verdict::InPart),
            (&[&not], Verdict::NotTestable),
            (&[&met, &unmet, &not], Verdict::NotMet),
            (&[&unmet], Verdict::NotMet),
        ];
        for (findings, wanted) in cases {
            assert_eq!(verdict(findings.iter().copied()), wanted, "{findings:?}");
        }
    }
}
