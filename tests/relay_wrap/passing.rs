//! What passes, and in which order.

use std::{io::Write, thread};

use crate::harness::{MEBIBYTE, Wrapped};

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
