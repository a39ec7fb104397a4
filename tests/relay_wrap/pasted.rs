//! What the README and the help have people paste: it is well-formed, and it starts a server.

use std::process::{Command, Stdio};

use serde_json::{Deserializer, Value};

const COMMAND: &str = env!("CARGO_BIN_EXE_mcp-question-throttle");

/// All JSON values that begin a line of a text.
fn json_in(text: &str) -> Vec<Value> {
    text.match_indices('{')
        .filter(|(at, _)| {
            let line = text[..*at].rsplit('\n').next().unwrap_or_default();
            line.trim().is_empty()
        })
        .filter_map(|(at, _)| {
            let mut values = Deserializer::from_str(&text[at..]).into_iter::<Value>();
            values.next()?.ok()
        })
        .collect()
}

/// The TOML of Codex, up to the next empty line or fence.
fn toml_in(text: &str) -> Value {
    let start = text.find("[mcp_servers.").expect("Codex has TOML");
    let lines = text[start..].lines();
    let lines = lines.take_while(|line| !line.trim().is_empty() && !line.contains("```"));
    let text: String = lines.map(|line| format!("{}\n", line.trim())).collect();
    let table: toml::Table = text.parse().unwrap();
    serde_json::to_value(table).unwrap()
}

/// Every `args` beside a `command` that is ours.
fn arguments(value: &Value, found: &mut Vec<Vec<String>>) {
    if let Value::Object(object) = value {
        if let (Some(command), Some(args)) = (object.get("command"), object.get("args")) {
            assert_eq!(command, "mcp-question-throttle");
            found.push(serde_json::from_value(args.clone()).unwrap());
        }
        object.values().for_each(|value| arguments(value, found));
    }
}

/// Starts what is pasted, with another command in the server's place.
fn start(pasted: &[String]) -> Option<i32> {
    let ours = pasted.iter().position(|word| word == "--").unwrap();
    Command::new(COMMAND)
        .args(&pasted[..=ours])
        .args(["sh", "-c", "exit 7"])
        .stdin(Stdio::null())
        .status()
        .unwrap()
        .code()
}

fn check(text: &str) {
    let mut pasted = Vec::new();
    for value in json_in(text) {
        arguments(&value, &mut pasted);
    }
    // Claude and Cursor, VS Code, Zed.
    assert!(pasted.len() >= 3, "{pasted:?}");
    arguments(&toml_in(text), &mut pasted);
    for pasted in &pasted {
        assert_eq!(start(pasted), Some(7), "{pasted:?}");
    }
    // The words of goose's list need no quotes in YAML, and are the same.
    let words = pasted[0].join(", ");
    assert!(text.contains(&format!("args: [{words}]")), "{words}");
}

#[test]
fn what_the_readme_has_people_paste_starts_a_server() {
    check(include_str!("../../README.md"));
}

#[test]
fn what_the_help_has_people_paste_starts_a_server() {
    let help = Command::new(COMMAND).args(["wrap", "--help"]).output();
    check(&String::from_utf8(help.unwrap().stdout).unwrap());
}
