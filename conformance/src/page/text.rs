//! The page's text.

use std::{collections::BTreeMap, fmt::Write};

use super::{
    Sources,
    judge::{self, Cell, Found, Verdict},
    overview, summary,
};
use crate::{model::Counter, protocol::Transport, results::Finding};

/// Requirements by id, and the cells of all clients in their order.
pub(super) type Rows<'a> = Vec<(&'a str, Vec<Cell<'a>>)>;

/// All requirements, judged for all clients.
pub(super) fn rows(sources: &Sources) -> Rows<'_> {
    let of_all = |(id, requirement)| {
        let of = |entry| judge::cell(sources, entry, (id, requirement));
        sources.clients.iter().map(of).collect()
    };
    let all = sources.register.iter();
    all.map(|(id, requirement)| (id.as_str(), of_all((id, requirement))))
        .collect()
}

/// The whole page.
///
/// # Errors
///
/// A version that cannot be looked up, or a requirement that the page needs and does not find.
pub(super) fn page(sources: &Sources) -> Result<String, String> {
    let rows = rows(sources);
    let mut page = String::from(HEAD);
    page += &summary::glance(sources, &rows)?;
    page += &summary::gaps(sources, &rows)?;
    page += &summary::clients(sources)?;
    page += &overview::tables(sources, &rows);
    page += &details(sources, &rows);
    page += &played(sources);
    Ok(page)
}

const HEAD: &str = "\
<!-- Written by `cargo run -p conformance -- page` from requirements.toml, clients.toml, results.json
and the lock files. Don't edit: CI writes it again and compares. -->

# Which clients bound the questions of their servers

An MCP server can ask its client questions: for a model (sampling) and for a person (elicitation). A client
bounds them if, beyond so many a minute, it refuses the rest before anyone sees them. For this page scripted
servers asked each client too much, and named checks counted what got through. Nothing is typed by hand:
`conformance results` plays all of it again.

Whoever does not bound questions breaks no rule. The specification says \"SHOULD\", and no client that was
read for this project (November 2026) has such a limit.

";

fn details(sources: &Sources, rows: &Rows<'_>) -> String {
    let mut text = String::from("## Each requirement, and what it was judged by\n\n");
    for ((id, requirement), (_, cells)) in sources.register.iter().zip(rows) {
        line(
            &mut text,
            format_args!(
                "### {id}\n\n{} Source: {}. Ways to ask: {}.\n\n| outcome | clients | checks |\n|---|---|---|",
                requirement.says,
                requirement.source.trim_end_matches('.'),
                requirement.doors.join(", ")
            ),
        );
        // Clients of which the same can be said share a line.
        let mut lines: BTreeMap<(Verdict, String), Vec<&str>> = BTreeMap::new();
        for (entry, cell) in sources.clients.iter().zip(cells) {
            let key = (cell.verdict, basis(cell));
            lines.entry(key).or_default().push(&entry.short);
        }
        for ((verdict, basis), clients) in lines {
            line(
                &mut text,
                format_args!("| {} | {} | {basis} |", verdict.word(), clients.join(", ")),
            );
        }
        text.push('\n');
    }
    text
}

/// What a verdict rests on.
fn basis(cell: &Cell<'_>) -> String {
    let is_met = |finding: &Finding| matches!(finding, Finding::Met | Finding::MetBut(_));
    match cell.verdict {
        Verdict::Met => checks(cell, is_met),
        Verdict::ByProcess => checks(cell, |finding| matches!(finding, Finding::ByProcess(_))),
        Verdict::NotMet => checks(cell, |finding| matches!(finding, Finding::Unmet(_))),
        Verdict::NotTestable => checks(cell, |_| true),
        Verdict::InPart => format!(
            "met: {}; not testable: {}",
            checks(cell, is_met),
            checks(cell, |finding| !is_met(finding))
        ),
        Verdict::NoLimit | Verdict::AnotherRule | Verdict::NotPlayed => String::new(),
    }
}

/// The checks whose findings are of one kind, by scenario, with the first thing to say about them.
fn checks(cell: &Cell<'_>, is_meant: impl Fn(&Finding) -> bool) -> String {
    let mut scenarios: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut why = None;
    for of_check in cell
        .found
        .chunk_by(|a, b| (a.scenario, a.check) == (b.scenario, b.check))
    {
        let meant: Vec<&Found<'_>> = of_check
            .iter()
            .filter(|found| is_meant(found.finding))
            .collect();
        let [first, ..] = &meant[..] else { continue };
        let mut name = first.check.to_owned();
        if meant.len() < of_check.len() {
            let over: Vec<&str> = meant.iter().map(|found| found.transport.as_str()).collect();
            name += &format!(" (over {} alone)", over.join(", "));
        }
        scenarios.entry(first.scenario).or_default().push(name);
        why = why.or(first.finding.why());
    }
    let scenarios: Vec<String> = scenarios
        .iter()
        .map(|(scenario, checks)| format!("`{scenario}`: {}", checks.join(", ")))
        .collect();
    let mut text = scenarios.join("; ");
    if let Some(why) = why {
        text += &format!(". The first: {}", escaped(why));
    }
    text
}

fn played(sources: &Sources) -> String {
    let mut text = String::from(
        "## What was played\n\n| scenario | revision | over | what happens |\n|---|---|---|---|\n",
    );
    for scenario in &sources.scenarios {
        let over: Vec<String> = Transport::ALL
            .into_iter()
            .filter_map(|transport| {
                let is_played = |counter| scenario.is_played_over(transport, counter);
                let over = transport.as_str();
                match (is_played(Counter::Client), is_played(Counter::Relay)) {
                    (true, true) => Some(over.to_owned()),
                    (true, false) => Some(format!("{over} (without a relay)")),
                    (false, true) => Some(format!("{over} (behind a relay)")),
                    (false, false) => None,
                }
            })
            .collect();
        line(
            &mut text,
            format_args!(
                "| `{}` | {} | {} | {} |",
                scenario.name,
                scenario.revision,
                over.join(", "),
                escaped(&scenario.title)
            ),
        );
    }
    text
}

pub(super) fn cell<'a, 'b>(
    rows: &'b Rows<'a>,
    id: &str,
    place: usize,
) -> Result<&'b Cell<'a>, String> {
    rows.iter()
        .find(|(one, _)| *one == id)
        .and_then(|(_, cells)| cells.get(place))
        .ok_or_else(|| {
            format!("the page needs the requirement {id:?}, which the register does not have")
        })
}

pub(super) fn code_list(words: &[&str]) -> String {
    let all: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    all.join(", ")
}

/// As part of a cell of a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
        .replace('\n', " ")
        .replace('<', "&lt;")
}

pub(super) fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}
