//! The command as its users see it: what it prints, and with which code it ends.
#![cfg(feature = "command")]

use std::{fs, process::Command};

use serde_json::Value;
use tempfile::TempDir;

/// What a run of the command left behind.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ended {
    /// All of it, to compare with a snapshot.
    fn shown(&self) -> String {
        let mut shown = format!("exit code {}\n", self.code.unwrap());
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                shown += &format!("{name}:\n{text}");
            }
        }
        shown
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// Runs the command with a file `settings.toml` of this text beside it, and no variables but
/// these.
fn run_with(settings: &str, variables: &[(&str, &str)], args: &[&str]) -> Ended {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("settings.toml"), settings).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_mcp-question-throttle"))
        .args(args)
        .current_dir(&folder)
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn run(args: &[&str]) -> Ended {
    run_with("", &[], args)
}

fn check(settings: &str) -> String {
    run_with(settings, &[], &["check", "--settings", "settings.toml"]).shown()
}

/// One of each thing that `check` can show.
const GOOD: &str = r#"
[proto]
samplingPerMinute = 30
askTTL = "90s"

[proto.questions]
"openai/form" = "elicitation"

[servers.github]
command = "github-mcp-server"
args = ["stdio"]
env = { GITHUB_TOKEN = "hunter2" }

[servers.github.proto]
samplingPerMinute = 0

[servers.docs]
url = "https://docs.example/mcp?key=hunter2"
"#;

#[test]
fn help_reads_well() {
    insta::assert_snapshot!("help", run(&["--help"]).shown());
    insta::assert_snapshot!("help_check", run(&["check", "--help"]).shown());
    insta::assert_snapshot!("help_demo", run(&["demo", "--help"]).shown());
    #[cfg(unix)]
    insta::assert_snapshot!("help_wrap", run(&["wrap", "--help"]).shown());
    #[cfg(feature = "serve")]
    {
        insta::assert_snapshot!("help_serve", run(&["serve", "--help"]).shown());
        insta::assert_snapshot!("help_status", run(&["status", "--help"]).shown());
    }
}

/// What stands below the options is not wrapped by clap, and was written for 100 columns.
#[test]
fn help_fits_a_terminal_of_80_columns() {
    let mut all = vec![
        vec!["--help"],
        vec!["check", "--help"],
        vec!["demo", "--help"],
    ];
    #[cfg(unix)]
    all.push(vec!["wrap", "--help"]);
    #[cfg(feature = "serve")]
    all.extend([vec!["serve", "--help"], vec!["status", "--help"]]);
    for args in all {
        let help = run_with("", &[("COLUMNS", "80")], &args);
        assert_eq!(help.code, Some(0));
        for line in help.stdout.lines() {
            assert!(line.chars().count() <= 80, "{args:?}: {line}");
        }
    }
}

#[test]
fn wrong_arguments() {
    insta::assert_snapshot!("no_subcommand", run(&[]).shown());
    insta::assert_snapshot!("unknown_flag", run(&["check", "--setting", "x"]).shown());
    insta::assert_snapshot!("unknown_subcommand", run(&["chekc"]).shown());
    insta::assert_snapshot!("wrong_argument", run(&["demo", "--questions", "0"]).shown());
}

#[test]
fn a_settings_file_without_its_flag_is_answered_with_the_flag() {
    let tip = |args: &[&str]| {
        let ended = run(args);
        assert_eq!(ended.code, Some(2));
        ended.stderr
    };
    let check = tip(&["check", "good.toml"]);
    assert!(
        check.contains("a settings file is given as `--settings good.toml`"),
        "{check}"
    );
    #[cfg(feature = "serve")]
    {
        let serve = tip(&["serve", "good.toml"]);
        assert!(serve.contains("`--settings good.toml`"), "{serve}");
    }
    let flag = tip(&["check", "--good"]);
    assert!(!flag.contains("a settings file is given"), "{flag}");
}

/// They were answered with the tip for a server's command.
#[cfg(unix)]
#[test]
fn an_option_before_its_subcommand_is_answered_with_their_order() {
    for (args, tip) in [
        (
            &["--server", "github", "wrap", "--", "true"][..],
            "an option stands behind its subcommand: wrap --server...",
        ),
        (
            &["--settings", "settings.toml", "check"],
            "an option stands behind its subcommand: check --settings...",
        ),
    ] {
        let ended = run(args);
        assert_eq!(ended.code, Some(2));
        assert!(ended.stderr.contains(tip), "{}", ended.stderr);
    }
    // Where the `--` is, nothing has to be said of it.
    let misspelt = run(&["wrap", "--sever", "github", "--", "true"]);
    assert!(
        misspelt.stderr.contains("'--server'"),
        "{}",
        misspelt.stderr
    );
    assert!(
        !misspelt.stderr.contains("stands behind"),
        "{}",
        misspelt.stderr
    );
}

#[test]
fn a_clients_file_in_place_of_settings_is_answered_with_its_flag() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("mcp.json");
    fs::write(&file, "{\"mcpServers\": {}}").unwrap();
    let ended = run(&["check", "--settings", file.to_str().unwrap()]);
    assert_eq!(ended.code, Some(78));
    assert!(ended.stderr.contains("mcp.json:1:1: "), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("given to `wrap` by --mcp-config"),
        "{}",
        ended.stderr
    );
    let toml = check("{");
    assert!(!toml.contains("--mcp-config"), "{toml}");
}

/// A word that is no level was taken for a part of the program, and nothing was logged.
#[test]
fn a_log_filter_of_a_word_that_is_no_level_is_refused() {
    for (filter, word) in [
        ("verbose", "verbose"),
        ("info, Warning", "Warning"),
        ("rmcp", "rmcp"),
    ] {
        let variable = [("MCP_QUESTION_THROTTLE_LOG", filter)];
        let ended = run_with("", &variable, &["check"]);
        assert_eq!(ended.code, Some(2), "{filter}");
        let expected = format!("{word:?} is no level; expected off, error, warn");
        assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
    }
    for filter in [
        "",
        "WARN",
        "2",
        "info,rmcp=debug",
        "off,",
        "[question{server=a}]=debug",
    ] {
        let variable = [("MCP_QUESTION_THROTTLE_LOG", filter)];
        let ended = run_with("", &variable, &["check"]);
        assert_eq!(ended.code, Some(0), "{filter}: {}", ended.stderr);
    }
}

#[test]
fn wrong_log_filter() {
    let variable = [("MCP_QUESTION_THROTTLE_LOG", "rmcp=loud")];
    insta::assert_snapshot!(run_with("", &variable, &["check"]).shown());
}

#[test]
fn wrong_settings() {
    let missing = run(&["check", "--settings", "missing.toml"]);
    insta::assert_snapshot!("missing_file", missing.shown());
    insta::assert_snapshot!("wrong_key", check("[proto]\nsamplingPerMin = 5\n"));
    insta::assert_snapshot!(
        "wrong_value",
        check("[proto]\naskRounds = 0\naskTTL = \"2d\"\n")
    );
    insta::assert_snapshot!("wrong_type", check("[proto]\nsamplingPerMinute = \"5\"\n"));
    insta::assert_snapshot!(
        "bad_toml",
        check("[proto]\nsamplingPerMinute = 5 per minute\n")
    );
}

#[test]
fn wrong_variables() {
    let variables = [
        ("MCP_QUESTION_THROTTLE_PROTO_ASK_ROUNDS", "many"),
        ("MCP_QUESTION_THROTTLE_ASK_TTL", "5m"),
    ];
    insta::assert_snapshot!(run_with("", &variables, &["check"]).shown());
}

#[test]
fn check_shows_what_is_in_force_and_where_it_came_from() {
    let variables = [("MCP_QUESTION_THROTTLE_PROTO_ASK_ROUNDS", "3")];
    let args = ["check", "--settings", "settings.toml"];
    let ended = run_with(GOOD, &variables, &args);
    assert!(!ended.shown().contains("hunter2"));
    insta::assert_snapshot!(ended.shown());
}

#[test]
fn check_without_a_file_shows_the_defaults() {
    insta::assert_snapshot!(run(&["check"]).shown());
}

/// `check` called settings valid that `serve` refuses.
#[cfg(feature = "serve")]
#[test]
fn check_tells_why_serve_would_not_start() {
    for (settings, reason) in [
        (
            "[servers.status]\nurl = \"https://a.example/\"\n",
            "settings.toml:2:7: servers.status: the relay has a page of this name",
        ),
        (
            "[servers.a]\nurl = \"https://a.example:99999/\"\n",
            "settings.toml:2:7: servers.a.url: no URL that can be requested",
        ),
    ] {
        let args = ["check", "--settings", "settings.toml"];
        let ended = run_with(settings, &[], &args);
        assert_eq!(ended.code, Some(0));
        let expected = format!("warning: `serve` would not start: {reason}");
        assert!(ended.stdout.contains(&expected), "{}", ended.stdout);
        let json = run_with(
            settings,
            &[],
            &["check", "--settings", "settings.toml", "--json"],
        );
        let warning = &json.json()["warnings"][0];
        assert_eq!(warning["level"], "warning");
        assert!(
            warning["message"].as_str().unwrap().contains(reason),
            "{warning}"
        );
    }
    let wrapped = "[servers.status]\ncommand = \"x\"\n";
    let ended = run_with(wrapped, &[], &["check", "--settings", "settings.toml"]);
    assert!(
        !ended.stdout.contains("would not start"),
        "{}",
        ended.stdout
    );
}

#[test]
fn check_as_json() {
    let args = ["check", "--json", "--settings", "settings.toml"];
    let good = run_with(GOOD, &[], &args);
    assert_eq!(good.code, Some(0));
    assert!(!good.shown().contains("hunter2"));
    insta::assert_json_snapshot!("check_json_valid", good.json());

    let variables = [("MCP_QUESTION_THROTTLE_PROTO_ASK_ROUNDS", "0")];
    let wrong = run_with("[proto]\naskTTL = 300\n", &variables, &args);
    assert_eq!(wrong.code, Some(78));
    insta::assert_json_snapshot!("check_json_wrong", wrong.json());

    let missing = run(&["check", "--json", "--settings", "missing.toml"]);
    assert_eq!(missing.code, Some(66));
    assert_eq!(missing.json()["ok"], false);
}

#[test]
fn the_example_settings_are_valid() {
    let example = include_str!("../settings.example.toml");
    let ended = run_with(example, &[], &["check", "--settings", "settings.toml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn colours_are_for_terminals() {
    let plain = run(&["check"]);
    assert!(!plain.stdout.contains('\u{1b}'));
    let forced = run_with("", &[("CLICOLOR_FORCE", "1")], &["check"]);
    assert!(forced.stdout.contains('\u{1b}'));
}

#[test]
fn the_demo_counts_at_three_places() {
    let ended = run(&["demo", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stderr, "", "the demo is quiet");
    let report = ended.json();
    assert_eq!(report["ok"], true);
    let runs = report["runs"].as_array().unwrap();
    let expected = [
        (
            "2025-11-25",
            "sampling",
            20,
            "proto.samplingSessionPerMinute",
        ),
        (
            "2025-11-25",
            "elicitation",
            30,
            "proto.elicitationPerMinute",
        ),
        (
            "2026-07-28",
            "sampling",
            20,
            "proto.samplingSessionPerMinute",
        ),
        (
            "2026-07-28",
            "elicitation",
            30,
            "proto.elicitationPerMinute",
        ),
    ];
    assert_eq!(runs.len(), expected.len());
    for (run, (era, kind, admitted, limit)) in runs.iter().zip(expected) {
        assert_eq!(run["era"], era);
        assert_eq!(run["kind"], kind);
        assert_eq!(run["asked"], 200);
        assert_eq!(run["admitted"], admitted);
        assert_eq!(run["handlerSaw"], admitted);
        assert_eq!(run["serverSawAnswers"], admitted);
        let refused = 200 - admitted;
        assert_eq!(run["refused"], refused);
        assert_eq!(run["refusedBy"], serde_json::json!({limit: refused}));
        let sent = if era == "2025-11-25" { refused } else { 0 };
        assert_eq!(run["serverSawRefusals"], sent);
        let refusal = &run["firstRefusal"];
        assert_eq!(refusal["code"], -32603);
        assert_eq!(refusal["data"]["cause"], "limit_exceeded");
        assert_eq!(refusal["data"]["limit"], limit);
        assert_eq!(refusal["data"]["max"], admitted);
        let retry = refusal["data"]["retryAfterSeconds"].as_u64().unwrap();
        assert!((1..=60).contains(&retry), "{refusal}");
        assert!(refusal["message"].as_str().unwrap().contains(limit));
    }
}

/// rmcp warns of every refusal it sends, with the server's id, and logs whole notifications: the
/// default filter keeps that out of a log in which a server's words have no place.
#[test]
fn no_leak_by_the_default_log_filter() {
    let by_default = run(&["demo", "--json"]);
    assert_eq!(by_default.stderr, "");
    let filter = [("MCP_QUESTION_THROTTLE_LOG", "rmcp=warn")];
    let with_rmcp = run_with("", &filter, &["demo", "--json"]);
    assert!(
        with_rmcp.stderr.contains("rmcp::service"),
        "or it proves nothing"
    );
}

#[test]
fn the_demo_refuses_nothing_below_the_limits() {
    let ended = run(&["demo", "--json", "--questions", "18"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for run in ended.json()["runs"].as_array().unwrap() {
        assert_eq!(run["admitted"], 18);
        assert_eq!(run["refused"], 0);
        assert_eq!(run["firstRefusal"], Value::Null);
    }
}

#[test]
fn the_demo_can_be_read_in_plain_lines() {
    let ended = run(&["demo"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    // The refusal that follows names a time, which depends on how fast the machine is.
    let (table, refusal) = ended.stdout.split_once("The first refusal").unwrap();
    insta::assert_snapshot!(table);
    assert!(
        refusal.contains(r#""cause": "limit_exceeded""#),
        "{refusal}"
    );
    assert!(
        refusal.ends_with("Every count is what the limits allow.\n"),
        "{refusal}"
    );
}

#[test]
fn the_log_is_json_if_asked() {
    let variables = [(
        "MCP_QUESTION_THROTTLE_LOG",
        "rmcp=error,mcp_question_throttle=warn",
    )];
    let ended = run_with("", &variables, &["--log-format", "json", "demo", "--json"]);
    assert_eq!(ended.code, Some(0));
    let lines: Vec<Value> = ended
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!lines.is_empty());
    for line in lines {
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["fields"]["server"], "flooding-server");
    }
}
