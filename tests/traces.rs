//! Each admitted question is a span of the embedder's own traces.

mod support;

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_question_throttle::{Pool, limits::AskTtl};
use rmcp::model::{CallToolRequestParams, ErrorData};
use serde_json::{Value, json};
use support::{Handler, Server, connect, connect_modern, done, limits, question, round};
use tracing::{
    Instrument, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
    registry::LookupSpan,
};

const S: &str = "sampling/createMessage";
const E: &str = "elicitation/create";

/// A span of ours: its fields, and the name of its parent.
#[derive(Clone, Debug, Default)]
struct Traced {
    fields: BTreeMap<String, String>,
    parent: Option<&'static str>,
    closed: bool,
}

#[derive(Clone, Default)]
struct Spans(Arc<Mutex<BTreeMap<u64, Traced>>>);

impl Spans {
    /// Listens to the spans of this thread, on which a test's runtime runs as well.
    fn listen() -> (Self, DefaultGuard) {
        let spans = Self::default();
        let subscriber = tracing_subscriber::registry().with(spans.clone());
        (spans, tracing::subscriber::set_default(subscriber))
    }

    fn all(&self) -> Vec<Traced> {
        self.0.lock().unwrap().values().cloned().collect()
    }

    fn one(&self) -> Traced {
        let all = self.all();
        assert_eq!(all.len(), 1, "{all:?}");
        all.into_iter().next().unwrap()
    }
}

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}").trim_matches('"').to_owned();
        self.0.insert(field.name().to_owned(), value);
    }
}

impl<C: Subscriber + for<'s> LookupSpan<'s>> Layer<C> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, C>) {
        if attributes.metadata().name() == "question" {
            let mut traced = Traced {
                parent: context.lookup_current().map(|parent| parent.name()),
                ..Traced::default()
            };
            attributes.record(&mut Fields(&mut traced.fields));
            self.0.lock().unwrap().insert(id.into_u64(), traced);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _context: Context<'_, C>) {
        if let Some(traced) = self.0.lock().unwrap().get_mut(&id.into_u64()) {
            values.record(&mut Fields(&mut traced.fields));
        }
    }

    fn on_close(&self, id: Id, _context: Context<'_, C>) {
        if let Some(traced) = self.0.lock().unwrap().get_mut(&id.into_u64()) {
            traced.closed = true;
        }
    }
}

fn with_traceparent(traceparent: &str) -> Value {
    let mut asked = question(E, 1);
    asked["params"]["_meta"] = json!({ "traceparent": traceparent });
    asked
}

async fn asks(server: &mut Server, message: &Value) -> Value {
    server.send(message).await;
    server.receive().await
}

#[tokio::test(start_paused = true)]
async fn an_admitted_question_is_a_span_and_a_refused_one_is_none() {
    let (spans, _listening) = Spans::listen();
    let pool = Pool::new(limits(1, 1));
    let (_session, mut server) = connect(pool.wrap("a", Handler::open().0).unwrap()).await;
    asks(&mut server, &question(E, 1)).await;
    asks(&mut server, &question(E, 2)).await;
    let span = spans.one();
    let expected = [
        ("door", "server_request"),
        ("kind", "elicitation"),
        ("origin", "background"),
        ("outcome", "answered"),
        ("server", "a"),
        ("session", "1"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(span.fields, BTreeMap::from(expected));
    assert!(span.closed);
}

/// It expects no answer, and ends with its delivery.
#[tokio::test(start_paused = true)]
async fn an_admitted_question_without_an_id_is_a_span_too() {
    let (spans, _listening) = Spans::listen();
    let pool = Pool::new(limits(1, 1));
    let (_session, mut server) = connect(pool.wrap("a", Handler::open().0).unwrap()).await;
    let mut told = question(E, 1);
    told.as_object_mut().unwrap().remove("id");
    for _ in 0..2 {
        server.send(&told).await;
    }
    // Notifications run in tasks of their own: the ping does not wait for them.
    let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    while spans.all().iter().all(|span| !span.closed) {
        asks(&mut server, &ping).await;
    }
    let span = spans.one();
    assert_eq!(span.fields["door"], "without_id");
    assert_eq!(span.fields["outcome"], "delivered");
}

#[tokio::test(start_paused = true)]
async fn the_outcome_is_told() {
    let (spans, _listening) = Spans::listen();
    let ttl = AskTtl::new(Duration::from_secs(1)).unwrap();
    let pool = Pool::new(limits(9, 9).with_ask_ttl(ttl));
    let outcome = || spans.all().pop().unwrap().fields["outcome"].clone();

    let (mut handler, _events) = Handler::open();
    handler.fail_with = Some(ErrorData::invalid_params("no", None));
    let (_session, mut server) = connect(pool.wrap("a", handler).unwrap()).await;
    asks(&mut server, &question(S, 1)).await;
    assert_eq!(outcome(), "failed");

    let (handler, mut entered) = Handler::blocked();
    let (session, mut server) = connect(pool.wrap("a", handler).unwrap()).await;
    asks(&mut server, &question(S, 1)).await;
    assert_eq!(outcome(), "expired");
    server.send(&question(S, 2)).await;
    entered.recv().await.unwrap();
    entered.recv().await.unwrap();
    drop((session, server));
    while !spans.all().iter().all(|span| span.closed) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(outcome(), "cancelled");
}

/// The entries of a round run within the caller's task, and so below the caller's own span.
#[tokio::test(start_paused = true)]
async fn a_rounds_questions_are_below_the_call() {
    let (spans, _listening) = Spans::listen();
    let pool = Pool::new(limits(9, 9));
    let (session, mut server) = connect_modern(pool.wrap("a", Handler::open().0).unwrap()).await;
    let scripted = async {
        let call = server.request("tools/call").await;
        server
            .answer(&call, round(&[("k", E), ("l", S)], None))
            .await;
        let again = server.request("tools/call").await;
        server.answer(&again, done()).await;
    };
    let call = session
        .call_tool(CallToolRequestParams::new("t"))
        .instrument(tracing::info_span!("the call"));
    let (called, ()) = tokio::join!(call, scripted);
    called.unwrap();
    let all = spans.all();
    assert_eq!(all.len(), 2);
    for span in all {
        assert_eq!(span.parent, Some("the call"));
        assert_eq!(
            (&*span.fields["door"], &*span.fields["origin"]),
            ("round", "in_call")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_servers_trace_is_a_link_and_never_the_parent() {
    let valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let invalid = [
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "hunter2",
        "",
    ];
    for traceparent in [valid].into_iter().chain(invalid) {
        let (spans, _listening) = Spans::listen();
        let pool = Pool::new(limits(9, 9));
        let (_session, mut server) = connect(pool.wrap("a", Handler::open().0).unwrap()).await;
        asks(&mut server, &with_traceparent(traceparent)).await;
        let span = spans.one();
        let link = (
            span.fields.get("link.trace_id"),
            span.fields.get("link.span_id"),
        );
        if traceparent == valid {
            let ids = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
            assert_eq!(
                link.0.map(String::as_str).zip(link.1.map(String::as_str)),
                Some(ids)
            );
        } else {
            assert_eq!(link, (None, None), "{traceparent:?}");
        }
        assert!(!format!("{span:?}").contains("hunter"));
    }
}
