//! What the operator's log gets: one event a verdict, few warnings in a flood, and nothing that a
//! server wrote.

mod support;

use std::{
    fmt::{Debug, Write},
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_question_throttle::{
    ClientSession, Pool, Throttled,
    limits::{AskRounds, AskTtl, ThrottleMode},
};
use rmcp::model::{CallToolRequestParams, GetTaskParams};
use serde_json::{Value, json};
use support::{Handler, connect, connect_modern, inputs, is_refusal, limits, question, round};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    subscriber::DefaultGuard,
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
};

const S: &str = "sampling/createMessage";
const E: &str = "elicitation/create";

/// Our own events: level, and fields as text.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<(Level, String)>>>);

impl Lines {
    /// Listens to the events of this thread, on which a test's runtime runs as well.
    fn listen() -> (Self, DefaultGuard) {
        let lines = Self::default();
        let subscriber = tracing_subscriber::registry().with(lines.clone());
        (lines, tracing::subscriber::set_default(subscriber))
    }

    fn at(&self, level: Level) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        let at_level = lines.iter().filter(|line| line.0 == level);
        at_level.map(|line| line.1.clone()).collect()
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl<C: Subscriber> Layer<C> for Lines {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, C>) {
        let metadata = event.metadata();
        if metadata.target().starts_with("mcp_question_throttle") {
            let mut text = Text(String::new());
            event.record(&mut text);
            self.0.lock().unwrap().push((*metadata.level(), text.0));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn log_flood() {
    let (lines, _listening) = Lines::listen();
    let (handler, _events) = Handler::open();
    let pool = Pool::new(limits(5, 5));
    let (_session, mut server) = connect(pool.wrap("github", handler).unwrap()).await;
    for chunk in 0..100_u64 {
        let ids = chunk * 1000..(chunk + 1) * 1000;
        let burst: String = ids.map(|id| format!("{}\n", question(S, id))).collect();
        server.send_raw(&burst).await;
        for _ in 0..1000 {
            server.line().await.unwrap();
        }
    }
    // The 1st, 10th, 100th, 1000th and 10 000th of 99 995.
    let warnings = lines.at(Level::WARN);
    assert_eq!(warnings.len(), 5, "{warnings:#?}");
    for (warning, count) in warnings
        .iter()
        .zip(["1 ", "10 ", "100 ", "1000 ", "10000 "])
    {
        assert!(
            warning.contains(&format!("refused_in_window={count}")),
            "{warning}"
        );
    }
    assert_eq!(
        lines.at(Level::DEBUG).len(),
        100_000 - 5,
        "one event a verdict"
    );
    let sampling = &pool.snapshot().servers[0].sampling;
    assert_eq!(
        (sampling.admitted, sampling.refused_by_server_limit),
        (5, 99_995)
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_says_all_but_the_question() {
    let (lines, _listening) = Lines::listen();
    let (handler, _events) = Handler::open();
    let throttled = Pool::new(limits(1, 1)).wrap("github", handler).unwrap();
    let (_session, mut server) = connect(throttled).await;
    server.send(&question(S, 1)).await;
    server.receive().await;
    server.send(&question(S, 2)).await;
    server.receive().await;
    let admitted = lines.at(Level::DEBUG);
    let [admitted] = admitted.as_slice() else {
        panic!("{admitted:#?}")
    };
    for field in [
        r#"server="github""#,
        "session=1",
        r#"door="server_request""#,
        "sampling=1",
    ] {
        assert!(admitted.contains(field), "{field}: {admitted}");
    }
    let refused = lines.at(Level::WARN);
    let [refused] = refused.as_slice() else {
        panic!("{refused:#?}")
    };
    for field in [
        r#"server="github""#,
        "session=1",
        r#"door="server_request""#,
        "sampling=1",
        "elicitation=0",
        r#"cause="limit_exceeded""#,
        r#"limit="proto.samplingPerMinute""#,
        "max=1",
        "retry_after_s=60",
        "refused_in_window=1",
    ] {
        assert!(refused.contains(field), "{field}: {refused}");
    }
}

/// Every string that a server chooses holds a marker; admitted or refused, none is logged by us.
#[tokio::test(start_paused = true)]
async fn nothing_that_a_server_wrote_is_logged() {
    let (lines, _listening) = Lines::listen();
    let (handler, _events) = Handler::open();
    let (session, mut server) = connect_modern(Throttled::new(handler, limits(9, 4))).await;
    let marked = |mut asked: Value| {
        asked["params"]["message"] = json!("TEXT-MARKER");
        asked
    };
    let mut entries = inputs(&[("KEY-MARKER", E)]);
    entries["KEY-MARKER"] = marked(entries["KEY-MARKER"].clone());
    let mut asking = round(&[], Some("STATE-MARKER"));
    asking["inputRequests"] = entries.clone();
    let task = json!({
        "resultType": "complete", "taskId": "TASK-MARKER", "status": "input_required",
        "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z",
        "ttlMs": null, "inputRequests": entries,
    });
    let login = json!({"code": -32042, "message": "TEXT-MARKER", "data": {"elicitations": [
        {"mode": "url", "message": "TEXT-MARKER", "url": "https://MARKER", "elicitationId": "MARKER"},
    ]}});
    // The first time through every door is admitted, the second time refused.
    for _ in 0..2 {
        let serve = async {
            let call = server.request("tools/call").await;
            server.send(&marked(question(E, "ID-MARKER"))).await;
            server.receive().await;
            server
                .send(&json!({"jsonrpc": "2.0", "method": E, "params": {"message": "TEXT-MARKER"}}))
                .await;
            server.answer(&call, asking.clone()).await;
            let next = server.receive().await;
            if next["method"] == "tools/call" {
                server.answer_error(&next, login.clone()).await;
                let get = server.request("tasks/get").await;
                server.answer(&get, task.clone()).await;
            } else {
                server.answer(&next, task.clone()).await;
            }
        };
        let calls = async {
            let called = session
                .call_tool(CallToolRequestParams::new("TOOL-MARKER"))
                .await;
            let polled = session.get_task(GetTaskParams::new("TASK-MARKER")).await;
            (called, polled)
        };
        let _outcomes = tokio::join!(calls, serve);
    }
    let all = [lines.at(Level::DEBUG), lines.at(Level::WARN)].concat();
    for door in [
        "server_request",
        "without_id",
        "round",
        "task",
        "url_elicitation_required",
    ] {
        assert!(
            all.iter().any(|line| line.contains(door)),
            "{door}: {all:#?}"
        );
    }
    assert!(all.iter().all(|line| !line.contains("MARKER")), "{all:#?}");
}

/// It said "observed only, and admitted: question refused".
#[tokio::test(start_paused = true)]
async fn what_is_only_observed_is_not_told_as_refused() {
    let (lines, _listening) = Lines::listen();
    let (handler, _events) = Handler::open();
    let settings = limits(1, 1).with_throttle_mode(ThrottleMode::Observe);
    // A name as text ends somewhere.
    let throttled = Pool::new(settings).wrap("my server=a", handler).unwrap();
    let (_session, mut server) = connect(throttled).await;
    for id in 0..2 {
        server.send(&question(S, id)).await;
        server.receive().await;
    }
    let warnings = lines.at(Level::WARN);
    let [observed] = warnings.as_slice() else {
        panic!("{warnings:#?}")
    };
    let told = "message=observed only; enforced, it would be: question refused: \
                proto.samplingPerMinute allows 1 per minute; retry in 60 s ";
    assert!(observed.contains(told), "{observed}");
    assert!(
        observed.contains(r#"server="my server=a" session=1"#),
        "{observed}"
    );
}

/// With the windows off, a server could once have every question that expires warned of.
#[tokio::test(start_paused = true)]
async fn expired_questions_are_no_log_flood() {
    let (lines, _listening) = Lines::listen();
    let (handler, _entered) = Handler::blocked();
    let settings = limits(0, 0).with_ask_ttl(AskTtl::new(Duration::from_secs(1)).unwrap());
    let (_session, mut server) = connect(Throttled::new(handler, settings)).await;
    for id in 0..150 {
        server.send(&question(E, id)).await;
    }
    server.receive_all(150).await;
    let warnings = lines.at(Level::WARN);
    assert_eq!(warnings.len(), 3, "the 1st, 10th and 100th: {warnings:#?}");
    assert!(
        warnings[2].contains("refused_in_window=100 "),
        "{warnings:#?}"
    );
}

/// The same of calls with too many rounds.
#[tokio::test(start_paused = true)]
async fn calls_with_too_many_rounds_are_no_log_flood() {
    async fn call(session: &ClientSession<Handler>) {
        let called = session.call_tool(CallToolRequestParams::new("t")).await;
        called.unwrap_err();
    }
    let (lines, _listening) = Lines::listen();
    let (handler, _events) = Handler::open();
    let settings = limits(0, 0).with_ask_rounds(AskRounds::new(1).unwrap());
    let (session, mut server) = connect_modern(Throttled::new(handler, settings)).await;
    for _ in 0..20 {
        let serve = async {
            for _ in 0..2 {
                let request = server.request("tools/call").await;
                server.answer(&request, round(&[("a", E)], None)).await;
            }
        };
        tokio::join!(call(&session), serve);
    }
    let warnings = lines.at(Level::WARN);
    assert_eq!(warnings.len(), 2, "the 1st and the 10th: {warnings:#?}");
    assert!(
        warnings[1].contains(r#"limit="proto.askRounds""#),
        "{warnings:#?}"
    );
}

/// A log that fails changes no verdict (D13), and does not keep it from the observer.
#[tokio::test(start_paused = true)]
async fn a_panicking_log_changes_no_verdict() {
    struct Broken;
    impl<C: Subscriber> Layer<C> for Broken {
        fn on_event(&self, event: &Event<'_>, _context: Context<'_, C>) {
            assert!(
                !event
                    .metadata()
                    .target()
                    .starts_with("mcp_question_throttle"),
                "a broken log"
            );
        }
    }
    let subscriber = tracing_subscriber::registry().with(Broken);
    let _listening = tracing::subscriber::set_default(subscriber);
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let heard = Arc::new(Mutex::new(0));
    let throttled = Throttled::new(handler, limits(1, 1)).with_observer({
        let heard = Arc::clone(&heard);
        move |_| *heard.lock().unwrap() += 1
    });
    let (_session, mut server) = connect(throttled).await;
    for id in 0..3 {
        server.send(&question(S, id)).await;
    }
    let replies = server.receive_all(3).await;
    assert_eq!(replies.iter().filter(|reply| is_refusal(reply)).count(), 2);
    assert_eq!(log.questions().len(), 1);
    assert_eq!(*heard.lock().unwrap(), 3);
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// rmcp warns of every error reply that it is asked for: what the shield refuses is none.
#[tokio::test(start_paused = true)]
async fn rmcp_logs_nothing_of_what_is_refused() {
    let sink = Sink::default();
    let output = sink.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::WARN)
        .with_writer(move || output.clone())
        .finish();
    let _listening = tracing::subscriber::set_default(subscriber);
    let (handler, _entered) = Handler::open();
    let (_session, mut server) = connect(Throttled::new(handler, limits(5, 5))).await;
    let all: String = (0..1005)
        .map(|id| format!("{}\n", question(S, id)))
        .collect();
    server.send_raw(&all).await;
    let replies = server.receive_all(1005).await;
    assert_eq!(replies.iter().filter(|it| is_refusal(it)).count(), 1000);
    let log = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    let ours = |line: &&str| line.contains("mcp_question_throttle");
    assert_eq!(
        log.lines().filter(ours).count(),
        4,
        "1st, 10th, 100th, 1000th"
    );
    assert_eq!(log.lines().count(), 4, "{log}");
}
