//! A status as text.

use std::io::{self, Write};

use serde_json::Value;

use crate::style::{FAINT, GOOD, HEADER, STRONG, WARNING};

/// How wide a bar is.
const BAR: u64 = 20;
/// How wide a line may be: most terminals begin with so many columns.
const WIDTH: usize = 80;
/// Where a line begins that belongs to the one above.
const INDENT: &str = "              ";
/// Clears a terminal and goes to its beginning; anstream leaves it out where there is none.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// Takes out of every text what a terminal would obey: who answers need not be a relay.
pub(super) fn disarm(value: &mut Value) {
    let obeys = |char: char| {
        char.is_control()
            || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    match value {
        Value::String(text) if text.contains(obeys) => *text = text.replace(obeys, "\u{fffd}"),
        Value::Array(all) => all.iter_mut().for_each(disarm),
        Value::Object(all) => all.values_mut().for_each(disarm),
        _ => {}
    }
}

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
        write_session(out, kind, list(&server["sessions"]))?;
    }
    for count in list(&server["usage"]["counts"]) {
        if count["verdict"] != "admitted" {
            writeln!(
                out,
                "  {:>5} {} {}, {}, {}",
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
    let mut width = match window["limit"].as_u64() {
        Some(limit) => write_bar(out, used, limit)?,
        None => {
            let text = format!("{used} in the window, no limit");
            write!(out, "{text}")?;
            text.len()
        }
    };
    let left = time_left(window);
    write!(out, "{left}")?;
    width += INDENT.len() + left.len();
    let sum = |keys: &[&str]| keys.iter().map(|key| number(&counts[*key])).sum::<u64>();
    let refused = sum(&[
        "refusedByServerLimit",
        "refusedBySessionLimit",
        "refusedWhileMuted",
    ]);
    let mut totals = format!("{} admitted, {refused} refused", counts["admitted"]);
    let would = sum(&["wouldRefuseByServerLimit", "wouldRefuseBySessionLimit"]);
    if would > 0 {
        totals += &format!(", {would} would be refused");
    }
    let open = number(&endings["open"]);
    if open > 0 {
        totals += &format!(", {open} open");
    }
    if width + 2 + totals.len() <= WIDTH {
        writeln!(out, "; {totals}")
    } else {
        writeln!(out, "\n{INDENT}{totals}")
    }
}

/// The window of a session, of several the fullest: it can be full while the server's is not.
fn write_session(out: &mut impl Write, kind: &str, sessions: &[Value]) -> io::Result<()> {
    let bounded = sessions.iter().filter_map(|session| {
        let window = &session[kind];
        window["timeLeftMs"].as_u64()?;
        Some((window, number(&window["used"]), window["limit"].as_u64()?))
    });
    // Compared without division: used / limit.
    let fullest = bounded.max_by(|(_, used, limit), (_, other, of)| {
        (u128::from(*used) * u128::from(*of)).cmp(&(u128::from(*other) * u128::from(*limit)))
    });
    let Some((window, used, limit)) = fullest else {
        return Ok(());
    };
    let which = match sessions.len() {
        1 => "its session".to_owned(),
        many => format!("the fullest of {many} sessions"),
    };
    let style = if used >= limit { WARNING } else { GOOD };
    let left = time_left(window);
    writeln!(
        out,
        "{INDENT}{style}{which}: {used} of {limit}{style:#}{left}"
    )
}

/// A bar with its numbers, and how wide that is.
fn write_bar(out: &mut impl Write, used: u64, limit: u64) -> io::Result<usize> {
    let full = (used * BAR).div_ceil(limit.max(1)).min(BAR);
    let style = if used >= limit { WARNING } else { GOOD };
    let (done, left) = ("#".repeat(full as usize), ".".repeat((BAR - full) as usize));
    let numbers = format!("{used} of {limit}");
    write!(
        out,
        "{style}{done}{style:#}{FAINT}{left}{FAINT:#} {STRONG}{numbers}{STRONG:#}"
    )?;
    Ok(BAR as usize + 1 + numbers.len())
}

fn time_left(window: &Value) -> String {
    match window["timeLeftMs"].as_u64() {
        Some(left) => format!(", {} s left", left.div_ceil(1000)),
        None => String::new(),
    }
}

fn write_use(out: &mut impl Write, used: &Value) -> io::Result<()> {
    let came_of_it = match (text(&used["verdict"]), used["ending"].as_str()) {
        ("admitted", Some(ending)) => {
            format!("{ending} after {}", duration(number(&used["tookMs"])))
        }
        ("admitted", None) => "admitted".to_owned(),
        ("would_refuse", _) => format!("observed, {}", short_reason(used)),
        (verdict, _) => format!("{}, {}", verdict.replace('_', " "), short_reason(used)),
    };
    writeln!(
        out,
        "  {FAINT}{:>5} s ago{FAINT:#} {} {}, {}, {}: {came_of_it}",
        number(&used["agoMs"]) / 1000,
        used["questions"],
        text(&used["kind"]),
        door(text(&used["door"])),
        text(&used["origin"]).replace('_', " "),
    )
}

fn duration(ms: u64) -> String {
    match ms {
        ..10_000 => format!("{ms} ms"),
        _ => format!("{} s", ms / 1000),
    }
}

/// The door in a few letters.
fn door(door: &str) -> String {
    match door {
        "url_elicitation_required" => "error -32042".to_owned(),
        other => other.replace('_', " "),
    }
}

/// The limit in the way without what the line says anyway, or the cause.
fn short_reason(of: &Value) -> String {
    match of["limit"].as_str() {
        Some(limit) if limit.ends_with("SessionPerMinute") => "session limit".to_owned(),
        Some(limit) if limit.ends_with("PerMinute") => "server limit".to_owned(),
        _ => reason(of),
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn printed(server: &Value, recent: usize) -> String {
        let mut out = Vec::new();
        let mut bare = anstream::StripStream::new(&mut out);
        status(&mut bare, &json!({"servers": [server]}), recent, false).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn window(used: u64, limit: u64) -> Value {
        json!({"used": used, "limit": limit, "timeLeftMs": 54_001})
    }

    fn counts(used: u64, limit: u64) -> Value {
        json!({
            "window": window(used, limit), "admitted": used, "refusedByServerLimit": 12_345,
            "refusedBySessionLimit": 0, "refusedWhileMuted": 0,
            "wouldRefuseByServerLimit": 9999, "wouldRefuseBySessionLimit": 0,
        })
    }

    /// The server's bar was green, at 20 of 60, while its only session was at 20 of 20 and
    /// everything was refused.
    /// Another user's program may listen where the relay is expected.
    #[test]
    fn a_terminal_is_told_nothing_by_who_answers() {
        let evil = "\u{1b}[2J\u{7}\u{9b}31m\u{202e}a\nb";
        let count = json!({"kind": evil, "questions": evil, "verdict": evil, "cause": evil, "origin": evil});
        let mut server = json!({
            "server": evil, "mode": evil,
            "usage": {"counts": [count.clone()], "recent": [count]}
        });
        disarm(&mut server);
        let printed = printed(&server, 1);
        let obeyed = |char: char| char.is_control() && char != '\n' || char == '\u{202e}';
        assert!(!printed.contains(obeyed), "{printed:?}");
        assert!(printed.contains("\u{fffd}[2J"), "{printed:?}");
    }

    #[test]
    fn a_session_that_is_full_is_shown_under_its_server() {
        let session =
            |used, limit| json!({"sampling": window(used, limit), "elicitation": {"used": 0}});
        let mut server = json!({
            "server": "github", "sampling": counts(20, 60), "elicitation": counts(0, 30),
            "sessions": [session(20, 20)],
        });
        let text = printed(&server, 0);
        assert!(
            text.contains("\n              its session: 20 of 20, 55 s left\n"),
            "{text}"
        );
        assert_eq!(
            text.matches("session").count(),
            1,
            "the other kind has no limit: {text}"
        );
        server["sessions"] = json!([session(3, 4), session(20, 40), session(1, 4)]);
        let text = printed(&server, 0);
        assert!(
            text.contains("the fullest of 3 sessions: 3 of 4, 55 s left"),
            "{text}"
        );
    }

    #[test]
    fn lines_fit_a_terminal_of_80_columns() {
        let recent: Vec<_> = ["server_request", "without_id", "url_elicitation_required"]
            .iter()
            .flat_map(|door| {
                let used = |verdict, limit, ending| {
                    json!({
                        "agoMs": 59_000, "questions": 1, "kind": "elicitation", "door": door,
                        "origin": "background", "verdict": verdict, "limit": limit,
                        "ending": ending, "tookMs": 9999,
                    })
                };
                let limit = "proto.elicitationSessionPerMinute";
                [
                    used("admitted", None, Some("cancelled")),
                    used("refused", Some(limit), None),
                    used("would_refuse", Some(limit), None),
                ]
            })
            .collect();
        let server = json!({
            "server": "github", "sampling": counts(1000, 10_000), "elicitation": counts(30, 30),
            "usage": {
                "sampling": {"open": 12}, "elicitation": {"open": 0}, "recent": recent,
                "counts": [{
                    "questions": 12_345, "verdict": "would_refuse", "kind": "elicitation",
                    "limit": "proto.elicitationSessionPerMinute", "origin": "background",
                }],
            },
        });
        let text = printed(&server, 9);
        assert_eq!(
            text.lines().filter(|line| line.contains("s ago")).count(),
            9
        );
        for line in text.lines() {
            assert!(line.len() <= WIDTH, "{} columns: {line}", line.len());
        }
    }
}
