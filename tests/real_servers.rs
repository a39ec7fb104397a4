//! The throttled client against servers on SDKs that nobody here wrote, over stdio and Streamable
//! HTTP, in both eras. Admitted and refused are counted on both ends.
//!
//! The SDKs are pinned and installed on first use by `tests/peers/install`; without a network or
//! an interpreter these tests fail and say what is missing. With
//! `SKIP_REAL_MCP_SERVERS=1` they say that they are skipped.

mod peers;
mod support;

use std::{process::Stdio, time::Duration};

use mcp_question_throttle::{
    CallError, ClientSession, Pool,
    limits::{Limit, LimitName, ProtoSettings},
    refusal::Cause,
};
use peers::{install, peer, skipped};
use rmcp::{
    model::{CallToolRequestParams, CallToolResult, ProtocolVersion},
    service::{ClientLifecycleMode, ClientServiceExt},
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde_json::{Value, json};
use support::{Handler, Log};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Child,
};

/// Longer than any server here needs; a hang is a failure with a name.
const PATIENCE: Duration = Duration::from_secs(60);
const SAMPLING: u32 = 5;
const ELICITATION: u32 = 4;
const ASKED: u32 = 30;

#[derive(Clone, Copy, Debug)]
enum Era {
    Legacy,
    Rounds,
}

#[derive(Clone, Copy, Debug)]
enum Transport {
    Stdio,
    Http,
}

/// A throttled client connected to a real server.
struct Connected {
    session: ClientSession<Handler>,
    log: Log,
    /// Ends with the test.
    _server: Option<Child>,
}

impl Connected {
    async fn to(name: &str, program: &str, transport: Transport, era: Era) -> Self {
        install(name).await;
        let settings = ProtoSettings::default()
            .with_sampling_per_minute(Limit::new(SAMPLING).unwrap())
            .with_sampling_session_per_minute(Limit::OFF)
            .with_elicitation_per_minute(Limit::new(ELICITATION).unwrap());
        let (handler, _) = Handler::open();
        let log = handler.log.clone();
        let throttled = Pool::new(settings).wrap("real", handler).unwrap();
        let lifecycle = match era {
            Era::Legacy => ClientLifecycleMode::Initialize,
            Era::Rounds => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
        };
        let mut server = None;
        let connecting = async {
            match transport {
                Transport::Stdio => {
                    let command = peer(name, program, &["--transport", "stdio"]);
                    let process = TokioChildProcess::new(command).unwrap();
                    throttled.serve_with_lifecycle(process, lifecycle).await
                }
                Transport::Http => {
                    let (child, url) = listening(name, program).await;
                    server = Some(child);
                    let transport = StreamableHttpClientTransport::from_uri(url);
                    throttled.serve_with_lifecycle(transport, lifecycle).await
                }
            }
        };
        let Ok(running) = tokio::time::timeout(PATIENCE, connecting).await else {
            panic!("{name} did not start over {transport:?}")
        };
        Self {
            session: ClientSession::new(running.unwrap()),
            log,
            _server: server,
        }
    }

    async fn call(
        &self,
        tool: &'static str,
        arguments: Value,
    ) -> Result<CallToolResult, CallError> {
        let Value::Object(arguments) = arguments else {
            panic!("arguments are an object")
        };
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        tokio::time::timeout(PATIENCE, self.session.call_tool(params))
            .await
            .unwrap_or_else(|_| panic!("{tool} took longer than {PATIENCE:?}"))
    }

    /// Calls a tool that reports in JSON.
    async fn report(&self, tool: &'static str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await.unwrap();
        let text = text_of(&result);
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{tool} reported {text:?}"))
    }
}

fn text_of(result: &CallToolResult) -> String {
    let result = serde_json::to_value(result).unwrap();
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Starts a server over HTTP, and waits until it says where it listens.
async fn listening(name: &str, program: &str) -> (Child, String) {
    let mut child = peer(name, program, &["--transport", "http"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some(url) = line.strip_prefix("listening ") {
            return (child, url.to_owned());
        }
    }
    panic!("{name} ended before it listened");
}

/// Server requests in a loop (2025-11-25).
async fn floods(name: &str, program: &str, transport: Transport) {
    if skipped() {
        return;
    }
    let connected = Connected::to(name, program, transport, Era::Legacy).await;
    for (tool, method, limit, setting) in [
        (
            "flood_sampling",
            "sampling/createMessage",
            SAMPLING,
            LimitName::SamplingPerMinute,
        ),
        (
            "flood_elicitation",
            "elicitation/create",
            ELICITATION,
            LimitName::ElicitationPerMinute,
        ),
    ] {
        let report = connected.report(tool, json!({"count": ASKED})).await;
        assert_eq!(report["asked"], ASKED, "{report}");
        assert_eq!(report["answered"], limit, "{report}");
        assert_eq!(report["refused"], ASKED - limit, "{report}");
        assert_eq!(report["other"], 0, "{report}");
        let reached = connected.log.questions();
        let reached = reached.iter().filter(|reached| *reached == method).count();
        assert_eq!(reached, limit as usize);

        let refusal = &report["firstRefusal"];
        assert_eq!(refusal["code"], -32603, "{refusal}");
        let retry = refusal["data"]["retryAfterSeconds"].as_u64().unwrap();
        assert!((1..=60).contains(&retry), "{refusal}");
        let mut data = refusal["data"].clone();
        data.as_object_mut().unwrap().remove("retryAfterSeconds");
        assert_eq!(
            data,
            json!({
                "cause": "limit_exceeded", "limit": setting.as_str(), "scope": "server",
                "method": method, "max": limit, "windowSeconds": 60,
            })
        );
    }
}

/// `input_required` rounds (2026-07-28).
async fn rounds(name: &str, program: &str, transport: Transport) {
    if skipped() {
        return;
    }
    let connected = Connected::to(name, program, transport, Era::Rounds).await;

    // Two questions at once fit twice under a limit of four.
    let report = connected
        .report("rounds_elicitation", json!({"rounds": 2, "width": 2}))
        .await;
    assert_eq!(report, json!({"rounds": 2, "answers": 4}));

    // One at a time, the sixth round is over the limit: nothing is sent any more.
    let before = connected.report("counters", json!({})).await;
    let error = connected
        .call("rounds_sampling", json!({"rounds": 7, "width": 1}))
        .await
        .unwrap_err();
    let CallError::Refused(refused) = error else {
        panic!("{error}")
    };
    let refusal = refused.refusal().clone();
    assert!(
        matches!(
            refusal.cause(),
            Cause::LimitExceeded {
                limit: LimitName::SamplingPerMinute,
                max: SAMPLING,
                ..
            }
        ),
        "{refusal:?}"
    );
    let round = refused.into_round().expect("the round comes back");
    assert_eq!(round.input_requests.unwrap().len(), 1);
    let after = connected.report("counters", json!({})).await;
    let grown =
        |counter: &str| after[counter].as_u64().unwrap() - before[counter].as_u64().unwrap();
    assert_eq!(grown("roundsSent"), u64::from(SAMPLING) + 1);
    assert_eq!(grown("answersSeen"), u64::from(SAMPLING));

    let reached = connected.log.questions();
    let count = |method: &str| reached.iter().filter(|reached| *reached == method).count();
    assert_eq!(count("elicitation/create"), ELICITATION as usize);
    assert_eq!(count("sampling/createMessage"), SAMPLING as usize);
}

macro_rules! servers {
    ($($test:ident: $check:ident($name:literal, $program:literal, $transport:ident);)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            $check($name, $program, Transport::$transport).await;
        }
    )*};
}

servers! {
    python_v1_floods_over_stdio: floods("python-v1", "python-v1/flood_server.py", Stdio);
    python_v1_floods_over_http: floods("python-v1", "python-v1/flood_server.py", Http);
    python_v2_floods_over_stdio: floods("python-v2", "python-v2/flood_server.py", Stdio);
    python_v2_floods_over_http: floods("python-v2", "python-v2/flood_server.py", Http);
    typescript_v1_floods_over_stdio: floods("typescript-v1", "typescript-v1/flood_server.mjs", Stdio);
    typescript_v1_floods_over_http: floods("typescript-v1", "typescript-v1/flood_server.mjs", Http);
    typescript_v2_floods_over_stdio: floods("typescript-v2", "typescript-v2/flood_server.mjs", Stdio);
    typescript_v2_floods_over_http: floods("typescript-v2", "typescript-v2/flood_server.mjs", Http);
    python_v2_rounds_over_stdio: rounds("python-v2", "python-v2/flood_server.py", Stdio);
    python_v2_rounds_over_http: rounds("python-v2", "python-v2/flood_server.py", Http);
    typescript_v2_rounds_over_stdio: rounds("typescript-v2", "typescript-v2/flood_server.mjs", Stdio);
    typescript_v2_rounds_over_http: rounds("typescript-v2", "typescript-v2/flood_server.mjs", Http);
}

/// The reference server asks one question per call, so the loop is the client's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_everything_is_held_to_the_limits() {
    if skipped() {
        return;
    }
    install("server-everything").await;
    let settings = ProtoSettings::default()
        .with_sampling_per_minute(Limit::new(SAMPLING).unwrap())
        .with_elicitation_per_minute(Limit::new(ELICITATION).unwrap());
    let (handler, _) = Handler::open();
    let log = handler.log.clone();
    let throttled = Pool::new(settings).wrap("everything", handler).unwrap();
    let process = TokioChildProcess::new(peer("server-everything", "-", &["stdio"])).unwrap();
    let connecting = throttled.serve_with_lifecycle(process, ClientLifecycleMode::Initialize);
    let running = tokio::time::timeout(PATIENCE, connecting)
        .await
        .expect("it starts")
        .unwrap();
    let connected = Connected {
        session: ClientSession::new(running),
        log,
        _server: None,
    };
    for (tool, arguments, method, limit) in [
        (
            "trigger-sampling-request",
            json!({"prompt": "2 + 2?", "maxTokens": 16}),
            "sampling/createMessage",
            SAMPLING,
        ),
        (
            "trigger-elicitation-request",
            json!({}),
            "elicitation/create",
            ELICITATION,
        ),
    ] {
        let mut refused = 0;
        for _ in 0..limit + 3 {
            let told = match connected.call(tool, arguments.clone()).await {
                Ok(result) => serde_json::to_string(&result).unwrap(),
                Err(error) => error.to_string(),
            };
            refused += u32::from(told.contains("question refused"));
        }
        assert_eq!(refused, 3, "{tool} reports what it was told");
        let reached = connected.log.questions();
        let reached = reached.iter().filter(|reached| *reached == method).count();
        assert_eq!(reached, limit as usize, "{tool}");
    }
}
