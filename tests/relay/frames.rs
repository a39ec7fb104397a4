//! The two promises of the relay, on frames that were shown to real readers and on made-up ones.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    harness::{self, Corpus, Relayed, one, relay, relay_exhausted, relay_in_steps, relay_with},
    model,
};

/// What comes of `frame` while there is room, and when there is none.
fn fresh_and_exhausted(frame: &[u8]) -> (Relayed, Relayed) {
    (relay(frame), relay_exhausted(frame))
}

#[test]
fn frames_that_readers_took_for_questions_are_counted_and_no_others() {
    for case in Corpus::load() {
        let (fresh, exhausted) = fresh_and_exhausted(&case.frame);
        let name = &case.name;
        match case.counted.as_str() {
            "must" => {
                assert!(
                    fresh.to_client == case.frame && fresh.admitted > 0 || fresh.unreadable > 0,
                    "{name}: counted, or withheld as unreadable"
                );
                assert_ne!(exhausted.to_client, case.frame, "{name}");
                assert!(
                    exhausted.refused > 0 || exhausted.unreadable > 0,
                    "{name}: refused"
                );
            }
            "must not" => {
                assert_eq!(fresh.to_client, case.frame, "{name}");
                assert_eq!(exhausted.to_client, case.frame, "{name}");
                assert_eq!((fresh.admitted, exhausted.refused), (0, 0), "{name}");
            }
            // No reader that was tried sees one. What holds a question's method is withheld all
            // the same, unless it is one JSON value with another method.
            "may" => {
                let other_method = name.starts_with("method-");
                if other_method || case.name == "single-quotes" {
                    assert_eq!(exhausted.to_client, case.frame, "{name}");
                } else {
                    assert_ne!(exhausted.to_client, case.frame, "{name}");
                }
            }
            other => panic!("{name}: {other}"),
        }
    }
}

#[test]
fn one_json_value_a_line_is_counted_and_not_merely_withheld() {
    let spread = ["over-two-lines", "two-values-one-line", "nul-bytes-around"];
    for case in Corpus::load() {
        let (fresh, _) = fresh_and_exhausted(&case.frame);
        if case.counted == "must" && !spread.contains(&case.name.as_str()) {
            assert_eq!(fresh.to_client, case.frame, "{}", case.name);
            assert!(fresh.admitted > 0, "{}", case.name);
        }
    }
}

#[test]
fn ids_of_any_type_are_echoed_as_they_were_written() {
    for id in [
        "0",
        "-1",
        "1.50",
        "1e400",
        "\"\"",
        "\"\\u0061\"",
        "null",
        "true",
        "[1, 2]",
        "{\"a\":  1}",
        "9223372036854775808",
    ] {
        let ask =
            format!("{{\"jsonrpc\":\"2.0\",\"id\": {id} ,\"method\":\"elicitation/create\"}}\n");
        let (_, exhausted) = fresh_and_exhausted(ask.as_bytes());
        assert_eq!(exhausted.to_client, b"");
        let reply = String::from_utf8(exhausted.to_server).unwrap();
        assert!(
            reply.starts_with(&format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32603,"
            )),
            "{reply}"
        );
    }
}

#[test]
fn duplicate_ids_each_get_their_reply() {
    let ask = b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"elicitation/create\"}\n";
    let relayed = relay_with(one(), &ask.repeat(5));
    assert_eq!(relayed.to_client, ask);
    assert_eq!(relayed.replies().len(), 4);
    assert!(relayed.replies().iter().all(|reply| reply["id"] == 7));
}

/// The doors, one by one: a frame, whether the server is answered, and whether the client is.
fn doors() -> Vec<(&'static str, Value, bool, bool)> {
    let question = json!({"method": "elicitation/create", "params": {"message": "q"}});
    let inputs = json!({"a": question});
    let urls = json!({"code": -32042, "message": "m", "data": {"elicitations": [{"url": "u"}]}});
    let request = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params});
    let answer = |result: Value| json!({"jsonrpc": "2.0", "id": 5, "result": result});
    vec![
        (
            "server request",
            request("elicitation/create", json!({})),
            true,
            false,
        ),
        (
            "malformed",
            request("sampling/createMessage", json!("x")),
            true,
            false,
        ),
        ("vendor", request("openai/form", json!({})), true, false),
        (
            "without id",
            json!({"method": "elicitation/create"}),
            false,
            false,
        ),
        (
            "vendor without id",
            json!({"method": "openai/form"}),
            false,
            false,
        ),
        (
            "round",
            answer(json!({"resultType": "input_required", "inputRequests": inputs})),
            false,
            true,
        ),
        (
            "round by its member alone",
            answer(json!({"inputRequests": inputs})),
            false,
            true,
        ),
        (
            "round as a list",
            answer(json!({"inputRequests": [question]})),
            false,
            true,
        ),
        (
            "completed task",
            answer(json!({"status": "completed", "result": {"inputRequests": inputs}})),
            false,
            true,
        ),
        (
            "failed task",
            answer(json!({"taskId": "t", "status": "failed", "error": urls})),
            false,
            true,
        ),
        (
            "url required",
            json!({"jsonrpc": "2.0", "id": 5, "error": urls}),
            false,
            true,
        ),
        (
            "url required, list missing",
            json!({"id": 5, "error": {"code": -32042}}),
            false,
            true,
        ),
        (
            "url required, as a float",
            json!({"id": 5, "error": {"code": -32042.0, "data": []}}),
            false,
            true,
        ),
        (
            "url required, in quotes",
            json!({"id": 5, "error": {"code": "-32042"}}),
            false,
            true,
        ),
        (
            "task notification",
            json!({"method": "notifications/tasks", "params": {"taskId": "t", "inputRequests": inputs}}),
            false,
            false,
        ),
    ]
}

#[test]
fn every_door_is_counted_and_refused() {
    for (name, frame, server_told, client_told) in doors() {
        let line = format!("{frame}\n");
        let (fresh, exhausted) = fresh_and_exhausted(line.as_bytes());
        assert_eq!(fresh.to_client, line.as_bytes(), "{name}");
        assert_eq!(fresh.admitted, 1, "{name}");
        assert_eq!(exhausted.refused, 1, "{name}");
        let told = |bytes: &[u8], expected: bool| {
            if expected {
                let error: Value = serde_json::from_slice(bytes).unwrap();
                assert_eq!(error["id"], 5, "{name}");
                assert_eq!(error["error"]["code"], -32603, "{name}");
                assert_eq!(error["error"]["data"]["cause"], "limit_exceeded", "{name}");
            } else {
                assert_eq!(bytes, b"", "{name}");
            }
        };
        told(&exhausted.to_server, server_told);
        told(&exhausted.to_client, client_told);
    }
}

#[test]
fn what_is_no_question_is_never_touched() {
    let mention = "elicitation/create";
    for frame in [
        json!({"id": 1, "method": "ping"}),
        json!({"id": 1, "method": "roots/list"}),
        json!({"method": "notifications/elicitation/complete", "params": {"elicitationId": mention}}),
        json!({"method": "notifications/message", "params": {"data": {"method": mention, "inputRequests": {}}}}),
        json!({"id": 1, "result": {"content": [{"text": mention, "method": mention}]}}),
        json!({"id": 1, "result": {"structuredContent": {"inputRequests": {"a": {"method": mention}}}}}),
        json!({"id": 1, "result": {"inputRequests": {"a": {"method": "roots/list"}}}}),
        json!({"id": 1, "result": {"inputRequests": {}, "requestState": "s"}}),
        json!({"id": 1, "error": {"code": -32603, "data": {"elicitations": [{}], "code": -32042}}}),
        json!({"method": "notifications/progress", "params": {"inputRequests": {"a": {"method": mention}}}}),
        json!([{"id": 1, "method": "ping"}, {"id": 2, "result": {"a": mention}}]),
        json!(mention),
    ] {
        let line = format!("{frame}\n");
        let (fresh, exhausted) = fresh_and_exhausted(line.as_bytes());
        assert_eq!(exhausted.to_client, line.as_bytes());
        assert_eq!((fresh.admitted, exhausted.refused), (0, 0), "{frame}");
    }
    for raw in [
        &b"\n"[..],
        b"\r\n",
        b"Listening on stdio {\n",
        b"\0\0\n",
        b"{\"half\":\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"{} {}\n",
        b"\r\r{\"id\":1}\r\n",
        b"{\"id\":1}\r{\"id\":2}\n",
        b"no end",
    ] {
        let (_, exhausted) = fresh_and_exhausted(raw);
        assert_eq!(exhausted.to_client, raw, "{}", raw.escape_ascii());
    }
}

#[test]
fn a_round_is_admitted_whole_or_not_at_all_and_named_by_its_first_key() {
    let round = |n: usize| {
        let inputs: serde_json::Map<_, _> = (0..n)
            .map(|i| (format!("k{i}"), json!({"method": "openai/form"})))
            .chain([("z".to_owned(), json!({"method": "roots/list"}))])
            .collect();
        format!(
            "{}\n",
            json!({"id": "r", "result": {"inputRequests": inputs}})
        )
    };
    let (fits, too_big) = (round(1), round(3));
    let relayed = relay_with(one(), format!("{too_big}{fits}{fits}").as_bytes());
    let lines: Vec<Value> = relayed.client_lines();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["error"]["data"]["method"], "openai/form");
    assert_eq!(
        lines[0]["error"]["data"].get("retryAfterSeconds"),
        None,
        "it can never fit"
    );
    assert_eq!(format!("{}\n", lines[1]), fits);
    assert!(lines[2]["error"]["data"]["retryAfterSeconds"].is_u64());
    assert_eq!(relayed.to_server, b"");
}

#[test]
fn equal_keys_of_a_round_all_count() {
    let round = br#"{"id":1,"result":{"inputRequests":{"a":{"method":"elicitation/create"},"a":{"method":"elicitation/create"}}}}"#;
    assert_eq!(relay(round).admitted, 2);
}

#[test]
fn refused_members_are_cut_out_of_a_batch() {
    let ask = r#"{"id":1,"method":"elicitation/create"}"#;
    let ping = r#"{ "id": 2, "method": "ping" }"#;
    let round = r#"{"id":3,"result":{"inputRequests":{"a":{"method":"elicitation/create"}}}}"#;
    let (_, all) = fresh_and_exhausted(format!("[{ask}, {ping} ,{ask}]\n").as_bytes());
    assert_eq!(all.to_client, format!("[{ping}]\n").as_bytes());
    let replies: Value = serde_json::from_slice(&all.to_server).unwrap();
    assert_eq!(replies.as_array().unwrap().len(), 2);
    assert_eq!(replies[1]["id"], 1);

    let (_, empty) = fresh_and_exhausted(format!("[{ask}]\n").as_bytes());
    assert_eq!(empty.to_client, b"", "an empty array is not sent");
    let (_, replaced) = fresh_and_exhausted(format!("[{round},{ping}]\n").as_bytes());
    assert_eq!(replaced.client_lines()[0][0]["error"]["code"], -32603);
    assert_eq!(replaced.client_lines()[0][1]["method"], "ping");

    let partly = relay_with(one(), format!("[{ask},{ask},{ping}]\n").as_bytes());
    assert_eq!(
        partly.to_client,
        format!("[{ask},{ping}]\n").as_bytes(),
        "one fits"
    );
    let (nested, _) = fresh_and_exhausted(format!("[[{ask}],{ping}]\n").as_bytes());
    assert_eq!(nested.to_client, format!("[{ping}]\n").as_bytes());
    assert_eq!(nested.unreadable, 1);
}

#[test]
fn task_polled() {
    let state = |key: &str, text: &str| {
        json!({"taskId": "t", "status": "input_required",
               "inputRequests": {key: {"method": "elicitation/create", "params": {"message": text}}}})
    };
    let relayed = harness::session(one(), |session| {
        for poll in 0..10 {
            session.client(&format!(
                r#"{{"jsonrpc":"2.0","id":{poll},"method":"tasks/get","params":{{"taskId":"t"}}}}"#
            ));
            session.server(&json!({"id": poll, "result": state("a", "name?")}));
        }
        session.server(&json!({"method": "notifications/tasks", "params": state("a", "name?")}));
        // Another question under the old key is new, and does not fit.
        session.client(r#"{"id":"p","method":"tasks/get","params":{"taskId":"t"}}"#);
        session.server(&json!({"id": "p", "result": state("a", "password?")}));
    });
    let lines = relayed.client_lines();
    assert_eq!(relayed.admitted, 1, "charged once");
    assert!(lines[..11].iter().all(|line| line.get("error").is_none()));
    assert_eq!(lines[11]["id"], "p");
    assert_eq!(lines[11]["error"]["data"]["cause"], "limit_exceeded");
}

#[test]
fn an_answer_that_was_no_poll_is_charged_each_time() {
    let state = json!({"id": 1, "result": {"taskId": "t", "inputRequests": {"a": {"method": "elicitation/create"}}}});
    let relayed = relay_with(one(), format!("{state}\n{state}\n").as_bytes());
    assert_eq!((relayed.admitted, relayed.refused), (1, 1));
}

#[test]
fn a_question_in_the_middle_of_a_value_is_withheld() {
    // To a reader of lines the second one is a result without questions; to a reader of a
    // stream all three together are a round.
    let spread = b"{\"id\":1,\"result\":\n{\"inputRequests\":{\"a\":{\"method\":\"elicitation/create\"}}}\n}\n";
    let relayed = relay(spread);
    assert_eq!(relayed.unreadable, 1);
    assert_eq!(relayed.to_client, b"{\"id\":1,\"result\":\n}\n");
    // Once it is over, lines are read one by one again.
    let after = [
        &spread[..],
        b"{\"method\":\"notifications/message\",\"params\":\"elicitation/create\"}\n",
    ]
    .concat();
    assert!(
        relay(&after)
            .to_client
            .ends_with(b"\"elicitation/create\"}\n")
    );
}

#[test]
fn a_segment_of_a_value_that_is_a_question_itself_is_withheld() {
    let frame = b"{\"a\":[1,\r{\"id\":1,\"method\":\"elicitation/create\"}\r]}\n";
    let relayed = relay(frame);
    assert_eq!((relayed.to_client.len(), relayed.unreadable), (0, 1));
    let white = b"{\"id\":1,\r\"method\":\"elicitation/create\"}\n";
    let relayed = relay(white);
    assert_eq!(
        (relayed.to_client.as_slice(), relayed.admitted),
        (&white[..], 1)
    );
    let two = b"{\"id\":1,\"method\":\"ping\"}\r{\"id\":2,\"method\":\"elicitation/create\"}\n";
    let (_, exhausted) = fresh_and_exhausted(two);
    assert_eq!(exhausted.to_client, b"{\"id\":1,\"method\":\"ping\"}\r\n");
    assert_eq!(exhausted.replies()[0]["id"], 2);
}

#[test]
fn a_line_beyond_the_bound_is_sent_on_in_parts_or_cut_where_a_question_is_found() {
    let padding = "x".repeat(3000);
    let innocent =
        format!("{{\"id\":1,\"result\":{{\"text\":\"{padding} elicitation/create\"}}}}\n");
    let next = "{\"id\":2,\"result\":{}}\n";
    let stream = format!("{innocent}{next}");
    let relayed = harness::short_frames(one(), stream.as_bytes(), 1000);
    assert_eq!(relayed.to_client, stream.as_bytes());

    let late =
        format!("{{\"text\":\"{padding}\",\"method\":\"elicitation/create\",\"id\":1}}\n{next}");
    let relayed = harness::short_frames(one(), late.as_bytes(), 1000);
    assert_eq!(relayed.unreadable, 1);
    let text = String::from_utf8(relayed.to_client).unwrap();
    assert!(!text.contains("elicitation/create"), "{text}");
    assert!(
        text.ends_with(&format!("\n{next}")),
        "the next line is whole: {text}"
    );

    let early = format!("{{\"method\":\"elicitation/create\",\"text\":\"{padding}\"}}\n{next}");
    let relayed = harness::short_frames(one(), early.as_bytes(), 1000);
    assert_eq!(relayed.to_client, next.as_bytes());
}

/// What frames are made of, apart from questions.
const INNOCENT: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b"\r",
    b"\r\n",
    b" ",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\"method\":",
    b"\"m\\u0065thod\" :",
    b"\"METHOD\":",
    b"\"ping\"",
    b"\"id\":1",
    b"\"id\":null",
    b"\"params\":",
    b"\"result\":",
    b"\"error\":",
    b"\"code\":-32603",
    b"{\"id\":1,\"method\":\"ping\"}",
    b"NaN",
    b"-Infinity",
    b"1",
    b"\"x\"",
    b"\"\\ud800\"",
    b"null",
    b"'",
    b"/* \" */",
    b"\"see elicitation/create\"",
];

/// What makes questions of them.
const ASKING: &[&[u8]] = &[
    b"\"elicitation/create\"",
    b"\"elicitation\\/create\"",
    b"\"elicitation/\xffcreate\"",
    b"\"sampling/createMessage\"",
    b"\"code\":-32042",
    b"\"code\":-3.2042e4",
    b"\"inputRequests\":",
    b"{\"a\":{\"method\":\"elicitation/create\"}}",
    b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"elicitation/create\"}",
];

fn stream_of(pieces: Vec<&'static [u8]>) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(pieces), 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(2000)
    })]

    /// The second promise: nothing that a reader takes for a question leaves uncounted.
    #[test]
    fn no_reader_sees_a_question_that_was_not_counted(
        stream in stream_of([INNOCENT, ASKING, ASKING].concat())
    ) {
        let relayed = relay(&stream);
        let seen = model::questions_seen(&relayed.to_client);
        prop_assert!(
            seen as u64 <= relayed.admitted,
            "{seen} seen, {} counted: {}", relayed.admitted, stream.escape_ascii()
        );
        let exhausted = relay_exhausted(&stream);
        prop_assert_eq!(model::questions_seen(&exhausted.to_client), 0);
    }

    /// The first promise: what is not a question leaves byte for byte.
    #[test]
    fn what_is_not_a_question_leaves_as_it_came(stream in stream_of(INNOCENT.to_vec())) {
        prop_assert_eq!(&relay(&stream).to_client, &stream);
        prop_assert_eq!(&relay_in_steps(&stream, 1).to_client, &stream);
        prop_assert_eq!(&relay_exhausted(&stream).to_client, &stream);
    }

    /// Any JSON at all leaves as it came unless its own members make it a question.
    #[test]
    fn questions_deep_inside_are_not_touched(depth in 1usize..200, id in any::<i64>()) {
        let inner = "{\"method\":\"elicitation/create\",\"inputRequests\":{\"code\":-32042}}";
        let (open, close) = ("{\"method\":[".repeat(depth), "]}".repeat(depth));
        let line = format!("{{\"id\":{id},\"result\":{{\"content\":{open}{inner}{close}}}}}\n");
        prop_assert_eq!(relay(line.as_bytes()).to_client, line.as_bytes());
    }
}
