//! The corpus of frames through readers that nobody here wrote: what they take for a question
//! was counted by the relay, or never reached them.
//!
//! Python's `json` and Node's `JSON.parse` have to be there. Go's stream decoder is asked where a
//! Go toolchain is; without one the test says so.

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use tempfile::TempDir;

use crate::harness::{Corpus, relay};

/// Reads base64 streams, one a line, and prints for each how many questions it saw.
const PYTHON: &str = r#"
import base64, json, sys
QUESTIONS = {"elicitation/create", "sampling/createMessage"}
def question(value):
    return isinstance(value, dict) and isinstance(value.get("method"), str) and value["method"] in QUESTIONS
def count(value):
    if isinstance(value, list):
        return sum(map(count, value))
    if not isinstance(value, dict):
        return 0
    inputs = value.get("result", {}) if isinstance(value.get("result", {}), dict) else {}
    inputs = inputs.get("inputRequests", {})
    inputs = inputs.values() if isinstance(inputs, dict) else []
    return question(value) + sum(map(question, inputs))
def read(text, split):
    seen = 0
    for line in split(text):
        try:
            seen += count(json.loads(line))
        except (ValueError, RecursionError):
            pass
    return seen
def lines(text): return text.split("\n")
def universal(text): return text.splitlines()
def trimmed(text): return [line.strip("\ufeff \t\r\x0b\x0c\x00") for line in text.split("\n")]
def as_bytes(data):
    seen = 0
    for line in data.split(b"\n"):
        try:
            seen += count(json.loads(line + b"\n"))
        except (ValueError, RecursionError):
            pass
    return seen
for stream in sys.stdin:
    data = base64.b64decode(stream)
    texts = [data.decode("utf-8", errors) for errors in ("replace", "ignore")]
    print(max([as_bytes(data)] + [read(text, split) for text in texts for split in (lines, universal, trimmed)]))
"#;

const NODE: &str = r#"
const QUESTIONS = new Set(["elicitation/create", "sampling/createMessage"]);
const question = (value) => QUESTIONS.has(value?.method) ? 1 : 0;
const count = (value) => Array.isArray(value)
  ? value.reduce((sum, member) => sum + count(member), 0)
  : question(value) + Object.values(value?.result?.inputRequests ?? {}).reduce((sum, input) => sum + question(input), 0);
const read = (lines) => lines.reduce((sum, line) => {
  try { return sum + count(JSON.parse(line)); } catch { return sum; }
}, 0);
for (const stream of require("fs").readFileSync(0, "latin1").split("\n").slice(0, -1)) {
  const text = Buffer.from(stream, "base64").toString("utf8");
  console.log(Math.max(
    read(text.split("\n")),
    read(text.split("\n").map((line) => line.trim())),
    read(text.split(/\r\n|\n|\r/)),
  ));
}
"#;

const GO: &str = r#"
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
)

type message struct {
	Method string
	Result struct{ InputRequests map[string]struct{ Method string } }
}

func question(method string) int {
	if method == "elicitation/create" || method == "sampling/createMessage" {
		return 1
	}
	return 0
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		data, _ := base64.StdEncoding.DecodeString(lines.Text())
		seen := 0
		decoder := json.NewDecoder(bytes.NewReader(data))
		for {
			var raw json.RawMessage
			if decoder.Decode(&raw) != nil {
				break
			}
			var batch []message
			if json.Unmarshal(raw, &batch) != nil {
				var one message
				_ = json.Unmarshal(raw, &one)
				batch = []message{one}
			}
			for _, one := range batch {
				seen += question(one.Method)
				for _, input := range one.Result.InputRequests {
					seen += question(input.Method)
				}
			}
		}
		fmt.Println(seen)
	}
}
"#;

/// The corpus, and streams that only a reader of bytes, or of text in other units, makes sense of.
fn streams() -> Vec<(String, Vec<u8>)> {
    let question = r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}"#;
    let utf16 = |big: bool| -> Vec<u8> {
        format!("{question}\n")
            .encode_utf16()
            .flat_map(|unit| {
                if big {
                    unit.to_be_bytes()
                } else {
                    unit.to_le_bytes()
                }
            })
            .collect()
    };
    let more: [(&str, Vec<u8>); 12] = [
        ("utf-16-le", utf16(false)),
        ("utf-16-be", utf16(true)),
        (
            "utf-32-be",
            question
                .chars()
                .flat_map(|c| u32::from(c).to_be_bytes())
                .collect(),
        ),
        (
            "bad-utf8-in-method",
            b"{\"id\":1,\"method\":\"elicitation/\xffcreate\"}\n".to_vec(),
        ),
        (
            "bad-utf8-in-name",
            b"{\"id\":1,\"met\xffhod\":\"elicitation/create\"}\n".to_vec(),
        ),
        (
            "bad-utf8-outside",
            b"{\"id\":1,\"method\"\xff:\"elicitation/create\"}\n".to_vec(),
        ),
        (
            "vertical-tab-around",
            format!("\x0b{question}\x0b\n").into_bytes(),
        ),
        (
            "line-separator-around",
            format!("{{}}\u{2028}{question}\u{2028}\n").into_bytes(),
        ),
        (
            "returns-inside-a-value",
            format!("{{\"a\":[1,\r{question}\r]}}\n").into_bytes(),
        ),
        (
            "name-in-capitals",
            b"{\"ID\":1,\"METHOD\":\"elicitation/create\"}\n".to_vec(),
        ),
        (
            "half-then-question",
            format!("{{\"a\":\n{question}\n").into_bytes(),
        ),
        (
            "error-then-question",
            format!("Listening {{\n{question}\n").into_bytes(),
        ),
    ];
    Corpus::load()
        .into_iter()
        .map(|case| (case.name, case.frame))
        .chain(more.map(|(name, stream)| (name.to_owned(), stream)))
        .collect()
}

/// How many questions a reader sees in each stream.
fn seen_by(reader: &mut Command, streams: &[Vec<u8>]) -> Vec<u64> {
    let mut child = reader
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{reader:?} is needed for this test: {error}"));
    let input: String = streams
        .iter()
        .map(|stream| BASE64_STANDARD.encode(stream) + "\n")
        .collect();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{reader:?}");
    let counts = String::from_utf8(output.stdout).unwrap();
    counts.lines().map(|line| line.parse().unwrap()).collect()
}

fn check(mut reader: Command) {
    let (names, streams): (Vec<_>, Vec<_>) = streams().into_iter().unzip();
    // Each stream as the server wrote it, so that the reader is known to see questions at all.
    let written = seen_by(&mut reader, &streams);
    assert!(
        written.iter().sum::<u64>() > 10,
        "{reader:?} reads questions"
    );
    let relayed: Vec<_> = streams.iter().map(|stream| relay(stream)).collect();
    let left: Vec<_> = relayed.iter().map(|it| it.to_client.clone()).collect();
    let seen = seen_by(&mut reader, &left);
    assert_eq!(seen.len(), names.len());
    for ((name, seen), relayed) in names.iter().zip(seen).zip(&relayed) {
        assert!(
            seen <= relayed.admitted,
            "{name}: {seen} seen, {} counted",
            relayed.admitted
        );
    }
}

#[test]
fn python_sees_no_question_that_was_not_counted() {
    let mut python = Command::new("python3");
    python.args(["-c", PYTHON]);
    check(python);
}

#[test]
fn node_sees_no_question_that_was_not_counted() {
    let mut node = Command::new("node");
    node.args(["-e", NODE]);
    check(node);
}

#[test]
fn go_sees_no_question_that_was_not_counted() {
    let version = Command::new("go")
        .arg("version")
        .stdout(Stdio::null())
        .status();
    if !version.is_ok_and(|status| status.success()) {
        eprintln!("NOT RUN: no Go toolchain here, so its stream decoder was not asked");
        return;
    }
    let folder = TempDir::new().unwrap();
    let source = folder.path().join("main.go");
    fs::write(&source, GO).unwrap();
    let mut go = Command::new("go");
    go.arg("run").arg(source);
    check(go);
}
