//! A command that comes from a file: a client's configuration, or the settings.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

const COMMAND: &str = env!("CARGO_BIN_EXE_mcp-question-throttle");

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A client's configuration with these servers.
    fn client(&self, name: &str, servers: &Value) {
        let text = json!({"mcpServers": servers}).to_string();
        fs::write(self.file(name), text).unwrap();
    }

    /// Starts `wrap` for "github", and waits until it has ended.
    fn wrap(&self, args: &[&str], variables: &[(&str, &str)]) -> Output {
        Command::new(COMMAND)
            .args(["wrap", "--server", "github"])
            .args(args)
            .envs(variables.iter().copied())
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// How the wrap of an entry is written there: the command, and its arguments.
fn wrap_of(server: &str, more: &[&str]) -> Value {
    let args = [&["wrap", "--server", server], more].concat();
    json!({"command": COMMAND, "args": args})
}

/// The same by way of a shell that does it a few times only, so that a wrap that starts itself
/// without end fails a test, and not the machine.
fn script_of(more: &str) -> String {
    format!(
        "export DEPTH=$((DEPTH + 1)); test $DEPTH -lt 5 || exit 9; \
         exec '{COMMAND}' wrap --server github {more}"
    )
}

fn wrap_by_shell(more: &str) -> Value {
    json!({"command": "sh", "args": ["-c", script_of(more)]})
}

/// The natural way to edit a client's file: `wrap --mcp-config` of the same file. It started wraps
/// without end.
#[test]
fn a_wrap_that_would_start_itself_ends() {
    let folder = Folder::new();
    let itself = wrap_by_shell("--mcp-config ./mcp.json");
    folder.client("mcp.json", &json!({"github": itself}));
    let ended = folder.wrap(&["--mcp-config", "mcp.json"], &[]);
    assert_eq!(ended.status.code(), Some(78), "{}", said(&ended));
    let expected = "mcp.json: server \"github\": its command starts this `wrap` again";
    assert!(said(&ended).contains(expected), "{}", said(&ended));
}

#[test]
fn a_wrap_that_would_start_itself_by_way_of_others_ends() {
    let folder = Folder::new();
    for (file, next) in [("one.json", "two.json"), ("two.json", "one.json")] {
        let other = wrap_by_shell(&format!("--mcp-config {next}"));
        folder.client(file, &json!({"github": other}));
    }
    let ended = folder.wrap(&["--mcp-config", "one.json"], &[]);
    assert_eq!(ended.status.code(), Some(78), "{}", said(&ended));
}

#[test]
fn a_wrap_of_the_settings_that_would_start_itself_ends() {
    let folder = Folder::new();
    let script = script_of("--settings limits.toml");
    let settings = format!("[servers.github]\ncommand = 'sh'\nargs = ['-c', {script:?}]\n");
    fs::write(folder.file("limits.toml"), settings).unwrap();
    let ended = folder.wrap(&["--settings", "limits.toml"], &[]);
    assert_eq!(ended.status.code(), Some(78), "{}", said(&ended));
    assert!(
        said(&ended).contains("limits.toml: server \"github\""),
        "{}",
        said(&ended)
    );
}

/// A server may wrap servers of its own: those of other names, and of other files.
#[test]
fn a_wrap_within_a_wrap_of_another_server_starts() {
    let folder = Folder::new();
    let outer = wrap_of("inner", &["--mcp-config", "mcp.json"]);
    let inner = wrap_of("github", &["--mcp-config", "other.json"]);
    folder.client("mcp.json", &json!({"github": outer, "inner": inner}));
    let wrapped = wrap_of("github", &["--", "sh", "-c", "exit 7"]);
    folder.client("other.json", &json!({"github": wrapped}));
    let ended = folder.wrap(&["--mcp-config", "mcp.json"], &[]);
    assert_eq!(ended.status.code(), Some(7), "{}", said(&ended));
}

#[test]
fn what_a_client_replaces_in_its_file_is_replaced_here() {
    let folder = Folder::new();
    fs::create_dir(folder.file("work")).unwrap();
    let script = "echo \"$TOKEN $(basename \"$PWD\") $1\" >&2";
    folder.client(
        "mcp.json",
        &json!({"github": {
            "command": "${SHELL_OF_THE_TEST:-sh}",
            "args": ["-c", script, "sh", "${env:SECOND}"],
            "env": {"TOKEN": "Bearer ${SECRET}"},
            "cwd": "${PLACE}",
        }}),
    );
    let args = ["--mcp-config", "mcp.json"];
    let variables = [("SECRET", "hunter2"), ("PLACE", "work"), ("SECOND", "word")];
    let ended = folder.wrap(&args, &variables);
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    assert_eq!(said(&ended), "Bearer hunter2 work word\n");

    let ended = folder.wrap(&args, &[("SECRET", "hunter2"), ("PLACE", "work")]);
    assert_eq!(ended.status.code(), Some(78));
    let expected = "mcp.json: server \"github\": args[3]: environment variable SECOND is not set";
    assert!(said(&ended).contains(expected), "{}", said(&ended));
    assert!(!said(&ended).contains("hunter2"));

    let ended = folder.wrap(
        &args,
        &[("SECRET", "s"), ("PLACE", "hunter2"), ("SECOND", "")],
    );
    assert_eq!(ended.status.code(), Some(78));
    let expected = "mcp.json: server \"github\": cwd: expected a folder";
    assert!(said(&ended).contains(expected), "{}", said(&ended));
    assert!(!said(&ended).contains("hunter2"));
}
