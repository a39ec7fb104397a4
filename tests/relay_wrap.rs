//! `wrap` as a client meets it: the real command between a test and small servers.

#![cfg(all(unix, feature = "command"))]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than anything here takes; whoever waits this long has met a deadlock.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the servers have in common.
const PRELUDE: &str = r#"
import json, os, signal, sys, threading, time
out, source, log = sys.stdout.buffer, sys.stdin.buffer, sys.stderr
def send(*messages):
    out.write(b"".join((m if isinstance(m, bytes) else json.dumps(m).encode()) + b"\n" for m in messages))
    out.flush()
def ask(id, method="elicitation/create"):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {"message": "q"}}
def say(text):
    log.write(str(text) + "\n"); log.flush()
"#;

struct Wrapped {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: Receiver<String>,
    _folder: TempDir,
}

impl Wrapped {
    /// A server in Python, held to five elicitations.
    fn python(server: &str) -> Self {
        let script = format!("{PRELUDE}{server}");
        Self::start(&["--", "python3", "-c", &script])
    }

    fn start(args: &[&str]) -> Self {
        Self::start_with("[proto]\nelicitationPerMinute = 5\n", args)
    }

    fn start_with(settings: &str, args: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("limits.toml");
        fs::write(&file, settings).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_mcp-question-throttle"))
            .args(["wrap", "--server", "github", "--settings"])
            .arg(file)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take(),
            stdout: child.stdout.take().map(BufReader::new),
            stderr: lines_of(child.stderr.take().unwrap()),
            child,
            _folder: folder,
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    /// The next line for the client.
    fn receive(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        let stdout = self.stdout.as_mut().unwrap();
        stdout.read_until(b'\n', &mut line).unwrap();
        line
    }

    fn receive_json(&mut self) -> Value {
        serde_json::from_slice(&self.receive()).unwrap()
    }

    /// All that is left for the client.
    fn receive_all(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let stdout = self.stdout.as_mut().unwrap();
        stdout.read_to_end(&mut all).unwrap();
        all
    }

    /// Waits for a line on stderr that holds `text`.
    fn logged(&self, text: &str) -> String {
        let mut before = String::new();
        loop {
            match self.stderr.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => before = format!("{before}\n{line}"),
                Err(_) => panic!("{text:?} is not on stderr:{before}"),
            }
        }
    }

    fn signal(&self, signal: Signal) {
        signal::kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    fn close_input(&mut self) {
        self.stdin = None;
    }

    fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// The most memory that it had, in bytes.
    fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kilobytes = peak.unwrap().split_whitespace().nth(1).unwrap();
        kilobytes.parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Wrapped {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind; one that passed has ended it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(stderr: ChildStderr) -> Receiver<String> {
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie has ended; who reaps it is not our business.
    !stat.is_empty() && !stat.contains(") Z ")
}

const MEBIBYTE: usize = 1024 * 1024;

#[test]
fn what_is_no_question_passes_byte_for_byte_in_both_directions() {
    let mut wrapped = Wrapped::start(&["--", "cat"]);
    let mut stream =
        b"{\"jsonrpc\":\"2.0\",\"id\":1.50,\"result\":{\"x\":1e400}}\r\n\n\r\nplain text\n"
            .to_vec();
    stream.extend(b"\xff\xfe\x00 \x1b[31m\n{\"a\":\n1}\n[{\"id\":1},{\"id\":2}]\n\xef\xbb\xbf{}\n");
    stream.extend(format!("{{\"id\":2,\"result\":\"{}\"}}\n", "x".repeat(3 * MEBIBYTE)).bytes());
    stream.extend(b"half a line");
    let sent = stream.clone();
    let mut stdin = wrapped.stdin.take().unwrap();
    let writer = thread::spawn(move || stdin.write_all(&sent).unwrap());
    assert!(wrapped.receive_all() == stream, "the bytes differ");
    writer.join().unwrap();
    assert_eq!(wrapped.wait().code(), Some(0));
    wrapped.logged("ended in the middle of a line");
}

#[test]
fn each_frame_arrives_before_the_next_is_awaited() {
    let mut wrapped = Wrapped::python(
        r#"
for id in range(200):
    send({"jsonrpc": "2.0", "id": id, "method": "ping"})
    assert json.loads(source.readline())["id"] == id
"#,
    );
    for id in 0..200 {
        assert_eq!(wrapped.receive_json()["id"], id);
        wrapped.send(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n").as_bytes());
    }
    assert_eq!(wrapped.wait().code(), Some(0));
}

#[test]
fn flood_burst_over_a_pipe() {
    // All in one chunk with the initialize result, as in `questions in the same chunk`.
    let mut wrapped = Wrapped::python(
        r#"
source.readline()
send({"jsonrpc": "2.0", "id": 0, "result": {"serverInfo": {"name": "s"}}}, *[ask(id) for id in range(1000)])
replies = [json.loads(source.readline()) for _ in range(995)]
assert [r["id"] for r in replies] == list(range(5, 1000)), "in order, each once"
assert all(r["error"]["code"] == -32603 for r in replies)
send({"done": replies[0]["error"]["data"]})
"#,
    );
    wrapped.send(b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\"}\n");
    assert_eq!(wrapped.receive_json()["id"], 0);
    for id in 0..5 {
        assert_eq!(wrapped.receive_json()["id"], id);
    }
    let data = wrapped.receive_json()["done"].clone();
    assert_eq!(data["limit"], "proto.elicitationPerMinute");
    assert_eq!(data["max"], 5);
    wrapped.close_input();
    assert_eq!(wrapped.wait().code(), Some(0));
}

#[test]
fn the_first_refusal_tells_people_what_to_change() {
    let mut wrapped = Wrapped::python("send(*[ask(id) for id in range(6)]); source.read()");
    let line = wrapped.logged("to admit more");
    assert!(line.contains("\"github\""), "{line}");
    assert!(line.contains("raise elicitationPerMinute"), "{line}");
    assert!(line.contains("limits.toml"), "{line}");
    wrapped.close_input();
    wrapped.wait();
}

#[test]
fn the_log_can_be_json() {
    let script = format!("{PRELUDE}send(*[ask('hunter2') for id in range(6)]); source.read()");
    let mut wrapped = Wrapped::start(&["--log-format", "json", "--", "python3", "-c", &script]);
    let refused = wrapped.logged("limit_exceeded");
    let event: Value = serde_json::from_str(&refused).unwrap();
    assert_eq!(event["fields"]["server"], "github");
    assert!(!refused.contains("hunter2"), "ids are the server's");
    wrapped.close_input();
    wrapped.wait();
}

#[test]
fn a_round_over_the_limit_becomes_the_error_of_the_clients_call() {
    let mut wrapped = Wrapped::python(
        r#"
id = json.loads(source.readline())["id"]
inputs = {str(i): {"method": "elicitation/create"} for i in range(6)}
send({"jsonrpc": "2.0", "id": id, "result": {"resultType": "input_required", "inputRequests": inputs}})
rest = source.read()
assert rest == b"", rest
"#,
    );
    wrapped.send(b"{\"jsonrpc\":\"2.0\",\"id\":\"call-1\",\"method\":\"tools/call\"}\n");
    let answer = wrapped.receive_json();
    assert_eq!(answer["id"], "call-1");
    assert_eq!(answer["error"]["data"]["cause"], "limit_exceeded");
    wrapped.close_input();
    assert_eq!(
        wrapped.wait().code(),
        Some(0),
        "nothing was sent to the server"
    );
}

#[test]
fn refusals_never_stand_in_the_middle_of_a_clients_line() {
    let server = r#"
for count in (6, 1):
    source.readline()
    send(*[ask(id) for id in range(count)])
while line := source.readline():
    message = json.loads(line)
    say(f"{message['id']} {len(line) > 100}")
"#;
    let mut wrapped = Wrapped::python(server);
    wrapped.send(b"1\n");
    // The client is slow in the middle of a line: it is held, and the refusal goes ahead of it.
    wrapped.send(b"2\n{\"jsonrpc\":\"2.0\",\"id\":\"client\",");
    wrapped.logged("5 True");
    wrapped.logged("0 True");
    wrapped.send(b"\"method\":\"ping\"}\n");
    wrapped.logged("client False");
    wrapped.close_input();
    assert_eq!(wrapped.wait().code(), Some(0));

    // A long line is sent on as it comes, and the refusals wait for its end.
    let mut wrapped = Wrapped::python(
        r#"
start = source.read(3 << 20)
send(*[ask(id) for id in range(6)])
rest = source.readline()
message = json.loads(start + rest)
say(f"client {len(message['id'])}")
say(f"then {json.loads(source.readline())['id']}")
"#,
    );
    wrapped.send(format!("{{\"id\":\"{}", "x".repeat(3 * MEBIBYTE)).as_bytes());
    for _ in 0..5 {
        wrapped.receive();
    }
    wrapped.send(b"\"}\n");
    wrapped.logged(&format!("client {}", 3 * MEBIBYTE));
    wrapped.logged("then 5");
    wrapped.close_input();
    assert_eq!(wrapped.wait().code(), Some(0));
}

#[test]
fn a_server_that_asks_twenty_thousand_times_before_it_reads_gets_every_answer() {
    let mut wrapped = Wrapped::python(
        r#"
send(*[ask(id) for id in range(20005)])
for id in range(5, 20005):
    assert json.loads(source.readline())["id"] == id
send({"done": True})
"#,
    );
    for _ in 0..5 {
        wrapped.receive();
    }
    assert_eq!(wrapped.receive_json(), json!({"done": true}));
    wrapped.close_input();
    assert_eq!(wrapped.wait().code(), Some(0));
}

#[test]
fn a_server_that_asks_a_million_times_and_never_reads_costs_bounded_memory() {
    let mut wrapped = Wrapped::python(
        r#"
say("ready"); source.readline()
question = json.dumps(ask(1)).encode() + b"\n"
for _ in range(100): out.write(question * 10000); out.flush()
"#,
    );
    wrapped.logged("ready");
    let before = wrapped.peak_memory();
    wrapped.send(b"go\n");
    wrapped.logged("does not read its input");
    let grown = wrapped.peak_memory() - before;
    assert!(grown <= 16 * MEBIBYTE as u64, "grew by {grown} bytes");
    // It is stuck now, by its own fault, and ends with the client.
    wrapped.signal(Signal::SIGTERM);
    assert_eq!(wrapped.wait().code(), Some(128 + 15));
}

#[test]
fn a_client_that_stops_reading_is_waited_for() {
    let mut wrapped = Wrapped::python(
        r#"
def echo():
    for line in source: say(line.decode().strip())
threading.Thread(target=echo, daemon=True).start()
line = json.dumps({"method": "notifications/message", "params": "x" * 1000}).encode() + b"\n"
for _ in range(64): out.write(line * 1000)
out.flush()
os._exit(0)
"#,
    );
    let before = wrapped.peak_memory();
    // The other direction goes on meanwhile.
    for word in ["one", "two", "three"] {
        wrapped.send(format!("{word}\n").as_bytes());
        wrapped.logged(word);
    }
    for _ in 0..32_000 {
        wrapped.receive();
    }
    let grown = wrapped.peak_memory() - before;
    assert!(grown <= 16 * MEBIBYTE as u64, "grew by {grown} bytes");
    let rest = wrapped.receive_all();
    assert_eq!(rest.iter().filter(|byte| **byte == b'\n').count(), 32_000);
    assert_eq!(wrapped.wait().code(), Some(0));
}

#[test]
fn a_line_of_64_mebibytes_passes_in_bounded_memory() {
    let mut wrapped = Wrapped::python(
        r#"
out.write(b'{"id":1,"result":"'); out.write(b"x" * (64 << 20)); out.write(b'"}\n{"id":2}\n'); out.flush()
source.read()
"#,
    );
    let line = wrapped.receive();
    assert_eq!(line.len(), 64 * MEBIBYTE + 21);
    assert_eq!(wrapped.receive_json()["id"], 2);
    let peak = wrapped.peak_memory();
    assert!(peak < 64 * MEBIBYTE as u64, "{peak} bytes");
    wrapped.close_input();
    assert_eq!(wrapped.wait().code(), Some(0));
}

#[test]
fn the_servers_status_is_ours() {
    for (script, code) in [("exit 7", 7), ("kill -9 $$", 137), ("exit 0", 0)] {
        let mut wrapped = Wrapped::start(&["--", "sh", "-c", script]);
        assert_eq!(wrapped.wait().code(), Some(code), "{script}");
    }
}

#[test]
fn errors_of_our_own_are_told_from_the_servers() {
    let end = |settings: &str, args: &[&str]| {
        let mut wrapped = Wrapped::start_with(settings, args);
        let code = wrapped.wait().code().unwrap();
        (code, wrapped.logged("error:"))
    };
    let (code, error) = end("", &["--", "no-such-program"]);
    assert_eq!(code, 69);
    assert!(
        error.contains("cannot start \"no-such-program\""),
        "{error}"
    );
    let (code, error) = end("[proto]\naskRounds = 0\n", &["--", "true"]);
    assert_eq!(code, 78, "{error}");
    let (code, error) = end("", &[]);
    assert_eq!(code, 2);
    assert!(
        error.contains("no command for server \"github\""),
        "{error}"
    );
    let (code, error) = end("[servers.github]\nurl = \"http://localhost/\"\n", &[]);
    assert_eq!(code, 2);
    assert!(error.contains("reached by URL"), "{error}");
}

#[test]
fn the_command_can_come_from_the_settings_or_from_a_clients_configuration() {
    let settings = "[servers.github]\ncommand = \"sh\"\nargs = [\"-c\", \"exit $CODE\"]\nenv = { CODE = \"9\" }\n";
    assert_eq!(Wrapped::start_with(settings, &[]).wait().code(), Some(9));

    let folder = TempDir::new().unwrap();
    let file = folder.path().join("mcp.json");
    let server = json!({"command": "sh", "args": ["-c", "exit $CODE"], "env": {"CODE": "8"}});
    fs::write(&file, json!({"mcpServers": {"github": server}}).to_string()).unwrap();
    let file = Path::to_str(&file).unwrap();
    assert_eq!(
        Wrapped::start(&["--mcp-config", file]).wait().code(),
        Some(8)
    );
}

#[test]
fn signals_are_passed_on() {
    for (signal, name) in [
        (Signal::SIGTERM, "TERM"),
        (Signal::SIGINT, "INT"),
        (Signal::SIGHUP, "HUP"),
    ] {
        let script = format!(
            "trap 'echo got {name}; exit 3' {name}; echo ready; while :; do sleep 0.05; done"
        );
        let mut wrapped = Wrapped::start(&["--", "sh", "-c", &script]);
        assert_eq!(wrapped.receive(), b"ready\n");
        wrapped.signal(signal);
        assert_eq!(wrapped.receive(), format!("got {name}\n").as_bytes());
        assert_eq!(wrapped.wait().code(), Some(3));
    }
}

#[test]
fn a_server_that_ignores_everything_is_killed_when_the_client_goes() {
    let stubborn = r#"
signal.signal(signal.SIGTERM, lambda *_: say("told"))
send({"ready": True})
while True: time.sleep(1)
"#;
    let mut closed = Wrapped::python(stubborn);
    let mut signalled = Wrapped::python(stubborn);
    closed.receive();
    signalled.receive();
    closed.close_input();
    signalled.signal(Signal::SIGTERM);
    signalled.logged("told");
    signalled.logged("sending SIGKILL");
    assert_eq!(signalled.wait().code(), Some(128 + 9));
    closed.logged("told");
    assert_eq!(closed.wait().code(), Some(128 + 9));
}

#[test]
fn a_server_ends_when_nobody_takes_its_output() {
    let mut wrapped = Wrapped::python("while True: send({'method': 'notifications/message'})");
    wrapped.receive();
    wrapped.stdout = None;
    assert_eq!(
        wrapped.wait().code(),
        Some(128 + 15),
        "told to end by a signal"
    );
}

#[test]
fn what_a_server_leaves_behind_is_ended() {
    let mut wrapped = Wrapped::start(&[
        "--",
        "sh",
        "-c",
        "sleep 1000 & echo $!; echo last words; exit 4",
    ]);
    let pid = String::from_utf8(wrapped.receive()).unwrap();
    assert_eq!(wrapped.receive_all(), b"last words\n");
    assert_eq!(wrapped.wait().code(), Some(4));
    assert!(!is_alive(pid.trim()));
}

#[test]
fn what_a_server_leaves_behind_may_end_by_itself() {
    let left =
        "trap 'echo goodbye >&2; exit' TERM; echo ready; exec >&2; while :; do sleep 0.05; done";
    let mut wrapped = Wrapped::start(&["--", "sh", "-c", &format!("({left}) & read line; exit 0")]);
    assert_eq!(wrapped.receive(), b"ready\n");
    wrapped.send(b"\n");
    wrapped.logged("goodbye");
    assert_eq!(wrapped.wait().code(), Some(0));
}

#[test]
fn a_server_that_dies_in_the_middle_loses_nothing_it_wrote() {
    let mut wrapped = Wrapped::python(
        r#"
send(*[{"id": i, "result": "x" * 1000} for i in range(5000)])
out.write(b'{"id": 5000, "resu'); out.flush()
os.kill(os.getpid(), signal.SIGKILL)
"#,
    );
    let all = wrapped.receive_all();
    assert!(all.ends_with(b"{\"id\": 5000, \"resu"));
    assert_eq!(all.iter().filter(|byte| **byte == b'\n').count(), 5000);
    assert_eq!(wrapped.wait().code(), Some(137));
    // They come from two threads, in either order.
    let first = wrapped.logged("ended");
    let second = wrapped.logged("ended");
    let both = format!("{first}\n{second}");
    assert!(both.contains("ended in the middle of a line"), "{both}");
    assert!(both.contains("ended by a signal"), "{both}");
}
