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

/// Who bounds what, at a glance.
pub(super) fn clients(sources: &Sources, rows: &Rows<'_>) -> Result<String, String> {
    let mut text = String::from(
        "## Who bounds questions\n\n\
         | client | version | sampling | elicitation | rounds in a call | what it offers |\n\
         |---|---|---|---|---|---|\n",
    );
    for (place, entry) in sources.clients.iter().enumerate() {
        let bound = |id| -> Result<_, String> {
            Ok(match cell(rows, id, place)?.verdict {
                Verdict::Met => "bounded",
                Verdict::NotMet => "**not bounded**",
                other => other.word(),
            })
        };
        let rounds = match cell(rows, "rounds-per-call", place)?.verdict {
            Verdict::Met => format!("at most {}", entry.limits.ask_rounds),
            Verdict::NotMet => "not as expected: [see there](#rounds-per-call)".to_owned(),
            Verdict::NotPlayed => "has none".to_owned(),
            other => other.word().to_owned(),
        };
        line(
            &mut text,
            format_args!(
                "| {} | {} | {} | {} | {rounds} | {} |",
                entry.name,
                versions(entry)?,
                bound("sampling-bounded")?,
                bound("elicitation-bounded")?,
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
        let (mut here, mut elsewhere, mut others) = (Vec::new(), Vec::new(), 0);
        for (place, entry) in sources.clients.iter().enumerate() {
            let lacking = lacks(place)?;
            if entry.throttled {
                let (name, named) = (&entry.short, named(&entry.limits, gap.limits));
                here.push(match &lacking[..] {
                    [] => format!("{name}: implemented, by {named}"),
                    lacking => format!("{name}: all but {}", lacking.join(", ")),
                });
            } else {
                others += 1;
                elsewhere.extend(lacking.is_empty().then_some(entry.short.as_str()));
            }
        }
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
