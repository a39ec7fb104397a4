//! The page's text.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use super::{
    Sources,
    judge::{self, Cell, Found, Verdict},
    summary,
};
use crate::{model::Counter, protocol::Transport, results::Finding};

/// Requirements by id, and the cells of all clients in their order.
pub(super) type Rows<'a> = Vec<(&'a str, Vec<Cell<'a>>)>;

/// The whole page.
///
/// # Errors
///
/// A version that cannot be looked up, or a requirement that the page needs and does not find.
pub(super) fn page(sources: &Sources) -> Result<String, String> {
    let rows: Rows<'_> = sources
        .register
        .iter()
        .map(|(id, requirement)| {
            let of = |entry| judge::cell(sources, entry, (id, requirement));
            (id.as_str(), sources.clients.iter().map(of).collect())
        })
        .collect();
    let mut page = String::from(HEAD);
    page += &summary::clients(sources, &rows)?;
    page += &summary::gaps(sources, &rows)?;
    page += &overview(sources, &rows);
    page += &details(sources, &rows);
    page += &played(sources);
    Ok(page)
}

const HEAD: &str = "\
<!-- Written by `cargo run -p conformance -- page` from requirements.toml, clients.toml, results.json
and the lock files. Don't edit: CI writes it again and compares. -->

# Which clients bound the questions of their servers

An MCP server can ask its client for a model (sampling) and for a person (elicitation). This page says
who bounds how often. Scripted servers ask too much, and every verdict here is what named checks found
when they were last played; none is typed by hand. Whoever is shown as not bounding questions breaks no
rule: the specification says \"SHOULD\", and no client that was read for this project (November 2026) has
such a limit. What a client does instead stands beside it. The sources D1 to D13, \"the doors\" and \"the
refusal\" are in [DECISIONS.md](DECISIONS.md).

Rows with a relay are the same client with a program between it and its servers that counts in its place.
It knows less: it cannot tell what the client will reject, and counts it. Where that makes a difference, a
requirement is for clients alone, and another says what is asked of relays. `wrap` is a process for each
process of a server, so that its windows end when the server does; `serve` is one process for all sessions.

";

fn overview(sources: &Sources, rows: &Rows<'_>) -> String {
    let mut text = String::from("## All requirements\n\n");
    let used: BTreeSet<Verdict> = rows
        .iter()
        .flat_map(|(_, cells)| cells.iter().map(|cell| cell.verdict))
        .collect();
    for verdict in Verdict::ALL
        .into_iter()
        .filter(|verdict| used.contains(verdict))
    {
        line(
            &mut text,
            format_args!("- {}: {}.", verdict.word(), verdict.means()),
        );
    }
    let shorts: Vec<&str> = sources
        .clients
        .iter()
        .map(|entry| entry.short.as_str())
        .collect();
    line(
        &mut text,
        format_args!(
            "\n| requirement | {} |\n|---{}|",
            shorts.join(" | "),
            "|---".repeat(shorts.len())
        ),
    );
    for (id, cells) in rows {
        let words: Vec<&str> = cells.iter().map(|cell| cell.verdict.word()).collect();
        line(
            &mut text,
            format_args!("| [{id}](#{id}) | {} |", words.join(" | ")),
        );
    }
    text.push('\n');
    text
}

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
