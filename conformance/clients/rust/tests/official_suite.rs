//! The official MCP conformance suite, run against the same program with and without the throttle:
//! both pass, and no check tells them apart.
//!
//! These are the client scenarios of both revisions that need no authorization server. The suite
//! is pinned, brings its own Node, and is installed on first use by `tests/peers/install`. With
//! `SKIP_REAL_MCP_SERVERS=1` these tests say that they are skipped.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use serde::Deserialize;

const OURS: &str = env!("CARGO_BIN_EXE_client-ours");
const BARE: &str = env!("CARGO_BIN_EXE_client-rmcp-bare");
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/peers");
/// What the suite gives one client for one scenario.
const PATIENCE_MS: &str = "30000";

/// What the suite found out by one check.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Check {
    id: String,
    name: String,
    status: String,
}

fn skipped() -> bool {
    let skip = std::env::var_os("SKIP_REAL_MCP_SERVERS").is_some();
    if skip {
        eprintln!("SKIPPED: SKIP_REAL_MCP_SERVERS is set");
    }
    skip
}

/// Installs the suite outside of the time that a scenario is given.
fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let installed = Command::new(format!("{PEERS}/install"))
            .arg("conformance-official")
            .output()
            .expect("tests/peers/install can be run");
        assert!(
            installed.status.success(),
            "the official suite could not be installed; to do without, set SKIP_REAL_MCP_SERVERS=1\n{}",
            String::from_utf8_lossy(&installed.stderr)
        );
    });
}

/// Runs one scenario against one client, and gives back its checks, sorted.
fn run(client: &str, scenario: &str, revision: &str, limits: Option<&Path>) -> Vec<Check> {
    let client_name = Path::new(client).file_name().unwrap().to_str().unwrap();
    let tight = if limits.is_some() { "-tight" } else { "" };
    let output = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("{scenario}-{revision}-{client_name}{tight}"));
    // The results of an earlier run, if there was one.
    let _ = fs::remove_dir_all(&output);
    let mut suite = Command::new(format!("{PEERS}/run"));
    suite
        .args(["conformance-official", "-", "client"])
        .args(["--command", client, "--scenario", scenario])
        .args(["--spec-version", revision, "--timeout", PATIENCE_MS])
        .arg("--output-dir")
        .arg(&output);
    if let Some(file) = limits {
        suite.env("QUESTION_CONFORMANCE_LIMITS", file);
    }
    let ran = suite.output().expect("tests/peers/run can be run");
    let printed = String::from_utf8_lossy(&ran.stdout);

    // One folder per run, named by the time.
    let results = fs::read_dir(&output)
        .ok()
        .and_then(|mut folders| folders.next())
        .unwrap_or_else(|| panic!("{scenario} left no results:\n{printed}"));
    let text = fs::read_to_string(results.unwrap().path().join("checks.json")).unwrap();
    let mut checks: Vec<Check> = serde_json::from_str(&text).unwrap();
    // These only retell the traffic, in the order in which it happened to come.
    checks.retain(|check| check.status != "INFO");
    checks.sort();
    assert!(!checks.is_empty(), "{scenario} checked nothing:\n{printed}");
    checks
}

fn failures(checks: &[Check]) -> Vec<&Check> {
    checks
        .iter()
        .filter(|check| !matches!(check.status.as_str(), "SUCCESS" | "SKIPPED"))
        .collect()
}

/// The scenario passes with the throttle and without it, check by check.
fn equal_with_and_without_the_throttle(scenario: &str, revision: &str) {
    if skipped() {
        return;
    }
    install();
    let bare = run(BARE, scenario, revision, None);
    let ours = run(OURS, scenario, revision, None);
    assert_eq!(
        failures(&bare),
        Vec::<&Check>::new(),
        "without the throttle"
    );
    assert_eq!(ours, bare, "the throttle makes a difference");
}

macro_rules! scenarios {
    ($($test:ident: $scenario:literal in $revision:literal;)*) => {$(
        #[test]
        fn $test() {
            equal_with_and_without_the_throttle($scenario, $revision);
        }
    )*};
}

scenarios! {
    initialize: "initialize" in "2025-11-25";
    tools_call_by_requests: "tools_call" in "2025-11-25";
    elicitation_defaults: "elicitation-sep1034-client-defaults" in "2025-11-25";
    sse_retry: "sse-retry" in "2025-11-25";
    schemas_kept_by_requests: "json-schema-2020-12-preservation" in "2025-11-25";
    tools_call_by_rounds: "tools_call" in "2026-07-28";
    request_metadata: "request-metadata" in "2026-07-28";
    request_state: "sep-2322-client-request-state" in "2026-07-28";
    standard_headers: "http-standard-headers" in "2026-07-28";
    custom_headers: "http-custom-headers" in "2026-07-28";
    invalid_tool_headers: "http-invalid-tool-headers" in "2026-07-28";
    schema_references: "json-schema-ref-no-deref" in "2026-07-28";
    schemas_kept_by_rounds: "json-schema-2020-12-preservation" in "2026-07-28";
}

/// The comparison can fail: this scenario asks two questions, in two calls, and the limit is one.
#[test]
fn a_throttle_that_is_too_tight_is_seen() {
    if skipped() {
        return;
    }
    install();
    let limits = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("one-elicitation.toml");
    fs::write(&limits, "[proto]\nelicitationPerMinute = 1\n").unwrap();
    let tight = run(
        OURS,
        "sep-2322-client-request-state",
        "2026-07-28",
        Some(&limits),
    );
    let failed: Vec<&str> = failures(&tight)
        .iter()
        .map(|check| check.id.as_str())
        .collect();
    assert_eq!(failed, ["sep-2322-client-no-state-omitted"]);
}
