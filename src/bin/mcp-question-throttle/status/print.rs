//! A status as text.

use std::io::{self, Write};

use serde_json::Value;

use crate::style::{FAINT, GOOD, HEADER, STRONG, WARNING};

/// How wide a bar is.
const BAR: u64 = 20;
/// Clears a terminal and goes to its beginning; anstream leaves it out where there is none.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// Prints a status, over the one before if it is watched.
pub(super) fn status(
    out: &mut impl Write,
    status: &Value,
    recent: usize,
    again: bool,
) -> io::Result<()> {
    if again {
        write!(out, "{CLEAR}")?;
    }
    let servers = status["servers"].as_array().map_or(&[][..], Vec::as_slice);
    for (nth, server) in servers.iter().enumerate() {
        if nth > 0 {
            writeln!(out)?;
        }
        write_server(out, server, recent)?;
    }
    if servers.is_empty() {
        writeln!(out, "no servers")?;
    }
    Ok(())
}

fn write_server(out: &mut impl Write, server: &Value, recent: usize) -> io::Result<()> {
    write!(out, "{HEADER}{}{HEADER:#}", text(&server["server"]))?;
    if server["muted"] == true {
        write!(out, "  {WARNING}muted{WARNING:#}")?;
    }
    if server["mode"] == "observe" {
        write!(out, "  {WARNING}observed only{WARNING:#}")?;
    }
    writeln!(out)?;
    for kind in ["sampling", "elicitation"] {
        write_kind(out, kind, &server[kind], &server["usage"][kind])?;
    }
    for count in list(&server["usage"]["counts"]) {
        if count["verdict"] != "admitted" {
            writeln!(
                out,
                "  {:>9} {} {}, {}, {}",
                count["questions"],
                text(&count["verdict"]).replace('_', " "),
                text(&count["kind"]),
                reason(count),
                text(&count["origin"]).replace('_', " "),
            )?;
        }
    }
    for used in list(&server["usage"]["recent"]).iter().take(recent) {
        write_use(out, used)?;
    }
    Ok(())
}

fn write_kind(out: &mut impl Write, kind: &str, counts: &Value, endings: &Value) -> io::Result<()> {
    let window = &counts["window"];
    let used = number(&window["used"]);
    write!(out, "  {kind:<11} ")?;
    match window["limit"].as_u64() {
        Some(limit) => {
            let full = (used * BAR).div_ceil(limit.max(1)).min(BAR);
            let style = if used >= limit { WARNING } else { GOOD };
            let (done, left) = ("#".repeat(full as usize), ".".repeat((BAR - full) as usize));
            write!(
                out,
                "{style}{done}{style:#}{FAINT}{left}{FAINT:#} {STRONG}{used} of {limit}{STRONG:#}"
            )?;
        }
        None => write!(out, "{used} in the window, no limit")?,
    }
    if let Some(left) = window["timeLeftMs"].as_u64() {
        write!(out, ", {} s left", left.div_ceil(1000))?;
    }
    let sum = |keys: &[&str]| keys.iter().map(|key| number(&counts[*key])).sum::<u64>();
    let refused = sum(&[
        "refusedByServerLimit",
        "refusedBySessionLimit",
        "refusedWhileMuted",
    ]);
    write!(out, "; {} admitted, {refused} refused", counts["admitted"])?;
    let would = sum(&["wouldRefuseByServerLimit", "wouldRefuseBySessionLimit"]);
    if would > 0 {
        write!(out, ", {would} would be refused")?;
    }
    let open = number(&endings["open"]);
    if open > 0 {
        write!(out, ", {open} open")?;
    }
    writeln!(out)
}

fn write_use(out: &mut impl Write, used: &Value) -> io::Result<()> {
    let verdict = match text(&used["verdict"]) {
        "admitted" => "admitted".to_owned(),
        other => format!("{}: {}", other.replace('_', " "), reason(used)),
    };
    let ending = match used["ending"].as_str() {
        Some(ending) => format!(", {ending} after {} ms", used["tookMs"]),
        None => String::new(),
    };
    writeln!(
        out,
        "  {FAINT}{:>7} s ago{FAINT:#} {} {} by {}, {}: {verdict}{ending}",
        number(&used["agoMs"]) / 1000,
        used["questions"],
        text(&used["kind"]),
        text(&used["door"]).replace('_', " "),
        text(&used["origin"]).replace('_', " "),
    )
}

/// The limit in the way, or the cause where it is none.
fn reason(of: &Value) -> String {
    match of["limit"].as_str() {
        Some(limit) => limit.to_owned(),
        None => text(&of["cause"]).replace('_', " "),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
