//! Every documented setting does something: changing it changes behaviour.
#![cfg(feature = "file")]

mod support;

use std::time::Duration;

use mcp_question_throttle::{
    CallError, Pool, clock,
    limits::ProtoSettings,
    question::QuestionKind,
    refusal::Cause,
    settings::{self, Environment},
};
use rmcp::model::{CallToolRequestParams, CustomRequest, ServerRequest};
use support::{Handler, connect, connect_modern, question, round};

/// A pool on a settings file.
fn pool(text: &str) -> Pool {
    let loaded = settings::parse("effects.toml", text, &Environment::default()).unwrap();
    Pool::new(loaded.into_settings())
}

/// How many of 100 questions are admitted, over this many sessions of one server.
fn admitted(text: &str, kind: QuestionKind, sessions: usize) -> usize {
    let pool = pool(text);
    let sessions: Vec<_> = (0..sessions)
        .map(|_| pool.wrap("github", ()).unwrap())
        .collect();
    (0..100)
        .filter(|n| sessions[n % sessions.len()].admit_kind(kind).is_ok())
        .count()
}

#[tokio::test(start_paused = true)]
async fn key_without_effect() {
    let serde_json::Value::Object(keys) = serde_json::to_value(ProtoSettings::default()).unwrap()
    else {
        panic!("settings are a table")
    };
    assert_eq!(keys.len(), 8, "a new setting needs a case here");
    let (sampling, elicitation) = (QuestionKind::Sampling, QuestionKind::Elicitation);
    for key in keys.keys() {
        match key.as_str() {
            "samplingPerMinute" => {
                assert_eq!(admitted("[proto]\nsamplingPerMinute = 7", sampling, 2), 7);
                assert_eq!(admitted("[proto]\nsamplingPerMinute = 0", sampling, 9), 100);
            }
            "samplingSessionPerMinute" => {
                let text = "[proto]\nsamplingSessionPerMinute = 3";
                assert_eq!(admitted(text, sampling, 2), 6);
            }
            "elicitationPerMinute" => {
                assert_eq!(
                    admitted("[proto]\nelicitationPerMinute = 7", elicitation, 2),
                    7
                );
            }
            "elicitationSessionPerMinute" => {
                let text = "[proto]\nelicitationSessionPerMinute = 3";
                assert_eq!(admitted(text, elicitation, 2), 6);
            }
            "askRounds" => assert_eq!(rounds_of("[proto]\naskRounds = 2").await, 2),
            "askTTL" => assert_eq!(life_of("[proto]\naskTTL = \"7s\"").await, 7),
            "throttleMode" => {
                let text = "[proto]\nsamplingPerMinute = 7\nthrottleMode = ";
                let (enforce, observe) = (format!("{text}'enforce'"), format!("{text}'observe'"));
                assert_eq!(admitted(&enforce, sampling, 2), 7);
                assert_eq!(admitted(&observe, sampling, 2), 100);
            }
            "questions" => {
                let asked = |text| {
                    let request = CustomRequest::new("openai/form", None);
                    let throttled = pool(text).wrap("github", ()).unwrap();
                    throttled
                        .question(ServerRequest::CustomRequest(request))
                        .is_ok()
                };
                assert!(!asked(""));
                assert!(asked("[proto.questions]\n\"openai/form\" = \"sampling\""));
            }
            other => panic!("no case for {other}"),
        }
    }
    // And each server can have its own.
    let text = "[proto]\nsamplingPerMinute = 9\n[servers.github.proto]\nsamplingPerMinute = 4";
    assert_eq!(admitted(text, sampling, 1), 4);
    let text = "[proto]\nsamplingPerMinute = 9\n[servers.github.proto]\nthrottleMode = 'observe'";
    assert_eq!(admitted(text, sampling, 1), 100);
    assert_eq!(admitted("[servers.github]\nmuted = true", sampling, 1), 0);
    assert_eq!(
        admitted("[servers.GitHub]\nmuted = true", elicitation, 1),
        30
    );
}

/// How many rounds of a server that never finishes are answered.
async fn rounds_of(text: &str) -> u32 {
    let (handler, _events) = Handler::open();
    let (session, mut server) = connect_modern(pool(text).wrap("github", handler).unwrap()).await;
    let endless = async {
        loop {
            let call = server.request("tools/call").await;
            let input = round(&[("k", "elicitation/create")], None);
            server.answer(&call, input).await;
        }
    };
    tokio::select! {
        result = session.call_tool(CallToolRequestParams::new("t")) => match result {
            Err(CallError::Refused(refused)) => match refused.refusal().cause() {
                Cause::RoundsExceeded { max } => max,
                ref other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        },
        () = endless => unreachable!("it never finishes"),
    }
}

/// For how many seconds a question that nobody answers stays open.
async fn life_of(text: &str) -> u64 {
    let (handler, mut entered) = Handler::blocked();
    let (_session, mut server) = connect(pool(text).wrap("github", handler).unwrap()).await;
    server.send(&question("elicitation/create", 1)).await;
    entered.recv().await.unwrap();
    let asked = clock::now();
    let reply = server.receive().await;
    assert_eq!(reply["error"]["data"]["cause"], "question_expired");
    (clock::now() - asked + Duration::from_millis(1)).as_secs()
}
