//! What a flood leaves in memory: nothing. Bytes are counted by the allocator, for the one thread
//! that everything here runs on, so the counts are exact and other tests do not disturb them.

mod support;

use std::time::Duration;

use allocation_counter::measure;
use mcp_question_throttle::{ClientSession, Throttled};
use rmcp::{
    RoleClient, ServiceExt,
    model::{
        CallToolRequestParams, ClientConfig, ClientResult, ErrorData, ServerNotification,
        ServerRequest,
    },
    service::{NotificationContext, RequestContext, Service},
};
use serde_json::json;
use support::{Server, connect_modern, limits, pipe, question, round};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::Notify,
};

/// A handler that remembers nothing.
enum Forgetful {
    /// It answers at once.
    Answers,
    /// It is a person who never answers. Tells of each question that has come.
    Waits(Notify),
}

impl Service<RoleClient> for Forgetful {
    async fn handle_request(
        &self,
        request: ServerRequest,
        _context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        match self {
            Self::Waits(asked) if !matches!(request, ServerRequest::PingRequest(_)) => {
                asked.notify_one();
                std::future::pending().await
            }
            _ => Ok(ClientResult::empty(())),
        }
    }

    async fn handle_notification(
        &self,
        _notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::default()
    }
}

fn paused_runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}

/// Runs until no task is left but those of the connection: every reply has been handed over then,
/// and its task has ended.
async fn quiet(tasks: usize) {
    while Handle::current().metrics().num_alive_tasks() > tasks {
        tokio::task::yield_now().await;
    }
}

/// 1000 questions in one write. Gives back how many were answered and how many refused.
async fn flood(server: &mut Server, burst: &str) -> (usize, usize) {
    server.send_raw(burst).await;
    let mut counts = (0, 0);
    for _ in 0..1000 {
        let line = server.line().await.unwrap();
        if line.contains(r#""cause":"limit_exceeded""#) {
            counts.1 += 1;
        } else {
            counts.0 += 1;
        }
    }
    counts
}

/// What each of five repetitions leaves in memory, in bytes. The first one makes the tables of
/// rmcp and ours, and the server's row.
fn left_behind(runtime: &Runtime, mut once: impl AsyncFnMut()) -> [i64; 5] {
    let tasks = runtime.metrics().num_alive_tasks();
    [(); 5].map(|()| {
        let measured = measure(|| {
            runtime.block_on(async {
                once().await;
                quiet(tasks).await;
                // A new window for the next one.
                tokio::time::advance(Duration::from_secs(60)).await;
            });
        });
        measured.bytes_current
    })
}

/// Lets the pipe, which belongs to the test, and the buffers of the connection get as large as
/// they will ever be: by a ping whose id is longer than a flood and all replies to it. How large
/// they got in floods alone was once left to the order in which tasks ran.
async fn stretch_buffers(server: &mut Server) {
    let long = "x".repeat(1 << 19);
    server
        .send(&json!({"jsonrpc": "2.0", "id": long, "method": "ping"}))
        .await;
    server.receive().await;
}

fn floods<S>(
    connect: impl AsyncFn(tokio::io::DuplexStream) -> S,
    expected: (usize, usize),
) -> [i64; 5] {
    let burst: String = (0..1000)
        .map(|id| format!("{}\n", question("sampling/createMessage", id)))
        .collect();
    let runtime = paused_runtime();
    let (session, mut server) = runtime.block_on(async {
        let (client, mut server) = pipe();
        let (session, _) = tokio::join!(connect(client), server.handshake());
        stretch_buffers(&mut server).await;
        (session, server)
    });
    let left = left_behind(&runtime, async || {
        assert_eq!(flood(&mut server, &burst).await, expected);
    });
    drop(session);
    left
}

#[test]
fn flood_burst_leaves_the_heap_as_it_was() {
    let throttled = || Throttled::new(Forgetful::Answers, limits(5, 5));
    // The control: all that it keeps is rmcp's own.
    let bare = floods(
        async |client| Forgetful::Answers.serve(client).await.unwrap(),
        (1000, 0),
    );
    let wrapped = floods(
        async |client| ClientSession::new(throttled().serve(client).await.unwrap()),
        (5, 995),
    );
    let shielded = floods(
        async |client| ClientSession::connect(throttled(), client).await.unwrap(),
        (5, 995),
    );
    for left in [bare, wrapped] {
        assert_eq!(left[1..], [0; 4], "a flood leaves nothing");
    }
    // The shield makes room for 1024 refusals when the first one has to wait. In which of the
    // floods that is, if in any, is up to the order in which tasks run; a second one leaves nothing.
    let made: Vec<_> = shielded[1..].iter().filter(|left| **left != 0).collect();
    assert!(made.len() <= 1, "{shielded:?}");
    // What the first question of a server makes, once: its row, and the session's place in it.
    let row = wrapped[0] - bare[0];
    assert!((0..1024).contains(&row), "{row} bytes more than rmcp's own");
    // It keeps that room, and spares rmcp its tables for 1000 requests.
    let kept: i64 = shielded.iter().sum();
    assert!(kept < bare[0], "{kept} of {} bytes", bare[0]);
}

#[test]
fn round_abandoned_leaves_the_heap_as_it_was() {
    let runtime = paused_runtime();
    let (session, mut server) = runtime.block_on(async {
        let throttled = Throttled::new(Forgetful::Waits(Notify::new()), limits(0, 0));
        let (session, mut server) = connect_modern(throttled).await;
        stretch_buffers(&mut server).await;
        (session, server)
    });
    let left = left_behind(&runtime, async || {
        for _ in 0..200 {
            let call = session.call_tool(CallToolRequestParams::new("t"));
            let Forgetful::Waits(asked) = session.service().get_ref() else {
                unreachable!("it was made so above");
            };
            let serve = async {
                let call = server.request("tools/call").await;
                server
                    .answer(&call, round(&[("a", "elicitation/create")], None))
                    .await;
                asked.notified().await;
            };
            tokio::select! {
                result = call => panic!("{result:?}"),
                () = serve => {}
            }
        }
    });
    assert_eq!(left[1..], [0; 4], "800 abandoned calls leave nothing");
}
