//! Peers that do not read, never stop, write nonsense or die: memory stays bounded, and nothing is
//! lost that could still be delivered.

use std::{fs, io::Write, process::Stdio, thread};

use nix::sys::signal::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::harness::{MEBIBYTE, PRELUDE, Wrapped};

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

/// The first refusal was told on stderr, that it could not be told as well, and by that the output
/// of the server was read no more: its client waited for ever.
#[test]
fn a_log_that_nobody_reads_or_that_is_full_loses_nothing() {
    let (reader, log) = std::io::pipe().unwrap();
    drop(reader);
    let mut logs = vec![Stdio::from(log)];
    if let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") {
        logs.push(full.into());
    }
    let server = "send(*[ask(id) for id in range(20)], {'done': True}); source.read()";
    let script = format!("{PRELUDE}{server}");
    let settings = "[proto]\nelicitationPerMinute = 5\n";
    for log in logs {
        let mut wrapped = Wrapped::logging(settings, &["--", "python3", "-c", &script], log);
        for _ in 0..5 {
            assert_eq!(wrapped.receive_json()["method"], "elicitation/create");
        }
        assert_eq!(wrapped.receive_json(), json!({"done": true}));
        wrapped.close_input();
        assert_eq!(wrapped.wait().code(), Some(0));
    }
    let (reader, log) = std::io::pipe().unwrap();
    drop(reader);
    let mut missing = Wrapped::logging("", &["--", "no-such-program"], log.into());
    assert_eq!(missing.wait().code(), Some(69), "the code tells");
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
say("ready")
line = json.dumps({"method": "notifications/message", "params": "x" * 1000}).encode() + b"\n"
for _ in range(64): out.write(line * 1000)
out.flush()
os._exit(0)
"#,
    );
    wrapped.logged("ready");
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

#[test]
fn a_million_questions_that_want_no_answer_cost_neither_memory_nor_log() {
    let mut wrapped = Wrapped::python(
        r#"
say("ready"); source.readline()
question = json.dumps({"jsonrpc": "2.0", "method": "elicitation/create"}).encode() + b"\n"
for _ in range(100): out.write(question * 10000)
send({"done": True})
say("said all")
"#,
    );
    wrapped.logged("ready");
    let before = wrapped.peak_memory();
    wrapped.send(b"go\n");
    for _ in 0..5 {
        assert_eq!(wrapped.receive_json()["method"], "elicitation/create");
    }
    assert_eq!(wrapped.receive_json(), json!({"done": true}));
    let grown = wrapped.peak_memory() - before;
    assert!(grown <= 16 * MEBIBYTE as u64, "grew by {grown} bytes");
    wrapped.close_input();
    assert_eq!(wrapped.wait().code(), Some(0));
    // The 1st, the 10th, the 100th, ... of 999 995, and what to change.
    let log = wrapped.rest_of_log();
    let refusals = log
        .iter()
        .filter(|line| line.contains("limit_exceeded"))
        .count();
    assert_eq!(refusals, 6, "{log:?}");
    assert!(log.len() < 10, "{log:?}");
}

#[test]
fn a_server_that_does_not_read_holds_its_client_back() {
    let folder = TempDir::new().unwrap();
    let gate = folder.path().join("gate");
    let mut wrapped = Wrapped::python(&format!(
        r#"
os.mkfifo("{0}")
say("ready")
send(*[{{"jsonrpc": "2.0", "id": id, "method": "ping"}} for id in range(1000)])
open("{0}").read()
say(f"read {{len(source.read())}} bytes")
open("{0}").read()
"#,
        gate.display()
    ));
    let line = [b"\"".as_slice(), &b"x".repeat(1000), b"\"\n"].concat();
    let sent = line.repeat(64 * 1024);
    let bytes = sent.len();
    wrapped.logged("ready");
    let before = wrapped.peak_memory();
    let mut stdin = wrapped.stdin.take().unwrap();
    let writer = thread::spawn(move || stdin.write_all(&sent).unwrap());
    // The other direction goes on meanwhile.
    for id in 0..1000 {
        assert_eq!(wrapped.receive_json()["id"], id);
    }
    assert!(!writer.is_finished(), "somebody holds {bytes} bytes");
    fs::write(&gate, "").unwrap();
    writer.join().unwrap();
    wrapped.logged(&format!("read {bytes} bytes"));
    let grown = wrapped.peak_memory() - before;
    assert!(grown <= 16 * MEBIBYTE as u64, "grew by {grown} bytes");
    fs::write(&gate, "").unwrap();
    assert_eq!(wrapped.wait().code(), Some(0));
}

#[test]
fn a_line_of_64_mebibytes_passes_to_the_server_in_bounded_memory() {
    let mut wrapped = Wrapped::python(
        r#"
say("ready")
say(f"read {len(source.readline())} bytes")
say(f"then {source.readline()}")
"#,
    );
    wrapped.logged("ready");
    let before = wrapped.peak_memory();
    let line = [b"\"".as_slice(), &b"x".repeat(64 * MEBIBYTE), b"\"\n"].concat();
    wrapped.send(&line);
    wrapped.logged(&format!("read {} bytes", line.len()));
    let grown = wrapped.peak_memory() - before;
    assert!(grown <= 16 * MEBIBYTE as u64, "grew by {grown} bytes");
    wrapped.send(b"next\n");
    wrapped.logged(r"then b'next\n'");
    assert_eq!(wrapped.wait().code(), Some(0));
}

#[test]
fn a_question_in_a_line_of_64_mebibytes_is_withheld() {
    let mut wrapped = Wrapped::python(
        r#"
out.write(b'{"id":1,"params":{"message":"'); out.write(b"x" * (64 << 20))
out.write(b'"},"method":"elicitation/create"}\n{"id":2}\n'); out.flush()
source.read()
"#,
    );
    let line = wrapped.receive();
    assert!(line.len() >= 16 * MEBIBYTE, "what came before had left");
    assert!(!String::from_utf8_lossy(&line).contains("elicitation"));
    assert_eq!(wrapped.receive_json()["id"], 2);
    wrapped.logged("unreadable");
    wrapped.close_input();
    assert_eq!(wrapped.wait().code(), Some(0));
}

#[test]
fn questions_in_odd_lines_are_held_to_the_limit() {
    let mut wrapped = Wrapped::python(
        r#"
question = json.dumps(ask(7)).encode()
send(*[ask(id) for id in range(5)])
out.write(question + b"\r\n")
out.write(b"\xef\xbb\xbf" + question + b"\n")
out.write(question.replace(b'"q"', b'"\xff"') + b"\n")
out.write(question + b"\0\n")
out.write(question.replace(b", ", b",\r") + b"\n")
out.write(question + question + b"\n")
out.flush()
send({"done": True})
"#,
    );
    for id in 0..5 {
        assert_eq!(wrapped.receive_json()["id"], id);
    }
    assert_eq!(wrapped.receive_json(), json!({"done": true}));
    wrapped.close_input();
    assert_eq!(wrapped.wait().code(), Some(0));
}

#[test]
fn a_last_question_without_an_end_of_line_is_held_to_the_limit() {
    let questions = "send(*[ask(id) for id in range(5)])\n";
    for last in ["json.dumps(ask(5))", "json.dumps(ask(5))[:-1]"] {
        let mut wrapped = Wrapped::python(&format!("{questions}out.write({last}.encode())"));
        let all = wrapped.receive_all();
        assert_eq!(all.iter().filter(|byte| **byte == b'\n').count(), 5);
        assert!(all.ends_with(b"\n"), "{last}");
        assert_eq!(wrapped.wait().code(), Some(0));
    }
}
