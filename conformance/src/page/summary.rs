//! What a reader sees first: who bounds questions, and which gaps of the field are filled.

use super::{
    Sources,
    judge::Verdict,
    text::{Rows, cell, code_list, line},
};
use crate::{
    clients::Entry,
    limits::{self, Limits},
    locks::Version,
    protocol::{Kind, Scope},
};

/// What the field lacks.
#[derive(Debug)]
struct Gap {
    what: &'static str,
    /// Who meets these has filled it.
    requirements: &'static [&'static str],
    /// The limits that fill it here.
    limits: &'static [(Kind, Scope)],
}

const GAPS: [Gap; 2] = [
    Gap {
        what: "Sampling without a limit per server or per session",
        requirements: &[
            "sampling-bounded",
            "sampling-per-server",
            "sampling-per-session",
        ],
        limits: &[
            (Kind::Sampling, Scope::Server),
            (Kind::Sampling, Scope::Session),
        ],
    },
    Gap {
        what: "Elicitation without a limit per server",
        requirements: &["elicitation-bounded", "elicitation-per-server"],
        limits: &[(Kind::Elicitation, Scope::Server)],
    },
];

/// Who bounds what, at a glance: first the clients as they come, then those with the throttle.
pub(super) fn glance(sources: &Sources, rows: &Rows<'_>) -> Result<String, String> {
    let of = |throttled| -> Vec<(usize, &Entry)> {
        let all = sources.clients.iter().enumerate();
        all.filter(|(_, entry)| entry.throttled == throttled)
            .collect()
    };
    let (bare, throttled) = (of(false), of(true));
    let mut text = String::from("## Who bounds questions\n\n");
    line(
        &mut text,
        format_args!(
            "**Of {} clients as they come, {}. Of {} with this throttle, in the client or before it, {}.**\n",
            bare.len(),
            count(rows, &bare)?,
            throttled.len(),
            count(rows, &throttled)?,
        ),
    );
    for (title, entries) in [("As they come", bare), ("With this throttle", throttled)] {
        line(
            &mut text,
            format_args!(
                "### {title}\n\n| client | sampling bounded? | elicitation bounded? | rounds in a call |\n|---|---|---|---|"
            ),
        );
        for (place, entry) in entries {
            line(
                &mut text,
                format_args!(
                    "| {} | {} | {} | {} |",
                    entry.name,
                    bound(rows, "sampling-bounded", place)?,
                    bound(rows, "elicitation-bounded", place)?,
                    rounds(rows, entry, place)?,
                ),
            );
        }
        text.push('\n');
    }
    Ok(text)
}

/// How many of these clients bound either kind, as part of a sentence.
fn count(rows: &Rows<'_>, entries: &[(usize, &Entry)]) -> Result<String, String> {
    let mut counts = Vec::new();
    for (kind, id) in [
        ("sampling", "sampling-bounded"),
        ("elicitation", "elicitation-bounded"),
    ] {
        let mut bounding = 0;
        for &(place, _) in entries {
            bounding += usize::from(is_bounded(cell(rows, id, place)?.verdict));
        }
        counts.push(match bounding {
            0 => format!("none bounds {kind}"),
            all if all == entries.len() => format!("all bound {kind}"),
            some => format!("{some} bound{} {kind}", if some == 1 { "s" } else { "" }),
        });
    }
    Ok(counts.join(" and "))
}

/// What is judged to be a bound: also one that not every way of asking could be tried at.
const fn is_bounded(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Met | Verdict::InPart | Verdict::ByProcess)
}

fn bound(rows: &Rows<'_>, id: &str, place: usize) -> Result<&'static str, String> {
    Ok(match cell(rows, id, place)?.verdict {
        Verdict::Met => "✔ yes",
        Verdict::InPart => "✔ yes, in all ways in which it could be asked",
        Verdict::ByProcess => "✔ yes, in each process of the relay",
        Verdict::NotMet => "✘ **no**",
        other => other.word(),
    })
}

fn rounds(rows: &Rows<'_>, entry: &Entry, place: usize) -> Result<String, String> {
    Ok(match cell(rows, "rounds-per-call", place)?.verdict {
        Verdict::Met => format!("at most {}", entry.limits.ask_rounds),
        Verdict::NotMet => {
            format!(
                "at most {}, but [not always](#rounds-per-call)",
                entry.limits.ask_rounds
            )
        }
        Verdict::NotPlayed => "its revision has none".to_owned(),
        other => other.word().to_owned(),
    })
}

/// What was played to, and what it does about questions besides.
pub(super) fn clients(sources: &Sources) -> Result<String, String> {
    let mut text = String::from(
        "## The clients\n\n\
         | here called | client | version | what it does about questions |\n\
         |---|---|---|---|\n",
    );
    for entry in &sources.clients {
        line(
            &mut text,
            format_args!(
                "| {} | {} | {} | {} |",
                entry.short,
                entry.name,
                versions(entry)?,
                entry.offers,
            ),
        );
    }
    text.push('\n');
    Ok(text)
}

fn versions(entry: &Entry) -> Result<String, String> {
    let read = |version: &Version| -> Result<_, String> {
        Ok(format!("{} {}", version.of, version.read()?))
    };
    let all: Vec<String> = entry.versions.iter().map(read).collect::<Result<_, _>>()?;
    Ok(all.join(", "))
}

/// Which gaps of the field are filled, by whom.
pub(super) fn gaps(sources: &Sources, rows: &Rows<'_>) -> Result<String, String> {
    let mut text = String::from(
        "## Two gaps of the field\n\n\
         | gap | with this throttle | other clients that fill it |\n\
         |---|---|---|\n",
    );
    for gap in GAPS {
        let lacks = |place: usize| -> Result<Vec<String>, String> {
            let mut lacking = Vec::new();
            for &id in gap.requirements {
                match cell(rows, id, place)?.verdict {
                    Verdict::Met => {}
                    other => lacking.push(format!("`{id}` ({})", other.word())),
                }
            }
            Ok(lacking)
        };
        // Clients of which the same can be said share it.
        let mut here: Vec<(String, Vec<&str>)> = Vec::new();
        let (mut elsewhere, mut others) = (Vec::new(), 0);
        for (place, entry) in sources.clients.iter().enumerate() {
            let lacking = lacks(place)?;
            if entry.throttled {
                let said = match &lacking[..] {
                    [] => format!("implemented, by {}", named(&entry.limits, gap.limits)),
                    lacking => format!("all but {}", lacking.join(", ")),
                };
                match here.iter_mut().find(|(one, _)| *one == said) {
                    Some((_, names)) => names.push(&entry.short),
                    None => here.push((said, vec![&entry.short])),
                }
            } else {
                others += 1;
                elsewhere.extend(lacking.is_empty().then_some(entry.short.as_str()));
            }
        }
        let here: Vec<String> = here
            .iter()
            .map(|(said, names)| format!("{}: {said}", names.join(", ")))
            .collect();
        let elsewhere = if elsewhere.is_empty() {
            format!("none of {others}")
        } else {
            elsewhere.join(", ")
        };
        line(
            &mut text,
            format_args!(
                "| {} ({}) | {} | {elsewhere} |",
                gap.what,
                code_list(gap.requirements),
                here.join(". ")
            ),
        );
    }
    text.push('\n');
    Ok(text)
}

fn named(limits: &Limits, bounds: &[(Kind, Scope)]) -> String {
    let all: Vec<String> = bounds
        .iter()
        .map(|&(kind, scope)| {
            let size = limits.get(kind, scope).map_or("off".to_owned(), |size| {
                format!("{size} a minute by default")
            });
            format!("`{}` ({size})", limits::name(kind, scope))
        })
        .collect();
    all.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{tests::all_met_but, text};

    #[test]
    fn the_first_sentence_counts_who_bounds_with_the_throttle_and_without() {
        for (unmet, wanted) in [
            (
                &[][..],
                "**Of 7 clients as they come, none bounds sampling and none bounds elicitation. \
                 Of 4 with this throttle, in the client or before it, 1 bounds sampling and 1 bounds elicitation.**",
            ),
            (
                // One check of this is one of elicitation alone.
                &["kinds-apart"],
                "in the client or before it, 1 bounds sampling and none bounds elicitation.**",
            ),
        ] {
            let sources = all_met_but(unmet);
            let text = glance(&sources, &text::rows(&sources)).unwrap();
            assert!(text.contains(wanted), "{text}");
        }
    }
}
