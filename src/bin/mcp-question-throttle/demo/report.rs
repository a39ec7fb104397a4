//! What the demo says before and after its runs.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use mcp_question_throttle::limits::{LimitName, ProtoSettings};
use serde_json::{Value, json};

use super::{flood::Era, run::Run};
use crate::style::{ERROR, FAINT, GOOD, HEADER};

/// Says what is about to happen.
pub(super) fn introduce(out: &mut impl Write, questions: u32) -> io::Result<()> {
    writeln!(
        out,
        "A client with the default limits meets an MCP server that asks {questions} questions\n\
         as fast as it can, started as a child process, four times over: with requests\n\
         during a call (2025-11-25), and with rounds that a call returns (2026-07-28).\n"
    )
}

/// All runs as one object.
pub(super) fn json(runs: &[Run], ok: bool) -> Value {
    json!({"ok": ok, "runs": runs})
}

/// The table of all runs, which limit refused, and a refusal in full.
pub(super) fn print(out: &mut impl Write, limits: &ProtoSettings, runs: &[Run]) -> io::Result<()> {
    table(out, limits, runs)?;
    refused_by(out, limits, runs)?;
    if let Some((run, refusal)) = first_refusal(runs) {
        let receiver = match run.era {
            Era::Requests => "server",
            Era::Rounds => "caller",
        };
        writeln!(
            out,
            "\n{HEADER}The first refusal, as the {receiver} got it{HEADER:#}"
        )?;
        writeln!(out, "{refusal:#}")?;
    }
    if runs.iter().all(|run| run.differences(limits).is_empty()) {
        writeln!(out, "\n{GOOD}Every count is what the limits allow.{GOOD:#}")?;
    }
    Ok(())
}

fn table(out: &mut impl Write, limits: &ProtoSettings, runs: &[Run]) -> io::Result<()> {
    writeln!(
        out,
        "\n{FAINT}counted by the           server throttle        handler  server{FAINT:#}"
    )?;
    writeln!(
        out,
        "{HEADER}era         kind         asked  admitted  refused   saw  answers  refusals{HEADER:#}"
    )?;
    for run in runs {
        let mark = if run.differences(limits).is_empty() {
            format!("{GOOD}ok{GOOD:#}")
        } else {
            format!("{ERROR}wrong{ERROR:#}")
        };
        writeln!(
            out,
            "{}  {:<11}  {:>5}  {:>8}  {:>7}  {:>4}  {:>7}  {:>8}  {mark}",
            run.era,
            run.kind.as_str(),
            run.asked,
            run.admitted,
            run.refused,
            run.handler_saw,
            run.server_saw_answers,
            run.server_saw_refusals,
        )?;
    }
    if runs
        .iter()
        .any(|run| run.era == Era::Rounds && run.refused > 0)
    {
        writeln!(
            out,
            "{FAINT}In 2026-07-28 a refused round ends the call, and the server is sent nothing.{FAINT:#}"
        )?;
    }
    Ok(())
}

fn refused_by(out: &mut impl Write, limits: &ProtoSettings, runs: &[Run]) -> io::Result<()> {
    let mut total = BTreeMap::<_, u32>::new();
    for (by, refused) in runs.iter().flat_map(|run| &run.refused_by) {
        *total.entry(*by).or_default() += refused;
    }
    if total.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEADER}Refused by{HEADER:#}")?;
    let width = total.keys().map(|by| by.len()).max().unwrap_or(0);
    for (by, refused) in total {
        let limit = LimitName::WINDOWS
            .into_iter()
            .find(|limit| limit.as_str() == by);
        let allows = limit
            .and_then(|limit| Some((limit, limits.window_limit(limit)?)))
            .map(|(limit, max)| {
                format!(
                    "allows {} per minute per {}",
                    max.get(),
                    limit.scope().as_str()
                )
            })
            .unwrap_or_default();
        writeln!(out, "{refused:>5}  {by:<width$}  {FAINT}{allows}{FAINT:#}")?;
    }
    Ok(())
}

fn first_refusal(runs: &[Run]) -> Option<(&Run, &Value)> {
    runs.iter()
        .find_map(|run| Some((run, run.first_refusal.as_ref()?)))
}
