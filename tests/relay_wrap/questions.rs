//! Questions, and what comes of them on each side.

use serde_json::Value;

use crate::harness::{PRELUDE, Wrapped};

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
