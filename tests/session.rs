//! The session in the place of rmcp's own: its other calls, and how it is ended.

mod support;

use std::{pin::Pin, time::Duration};

use mcp_question_throttle::{CallError, ClientSession, Pool, Throttled};
use rmcp::{
    model::{
        CallToolRequestParams, CancelTaskParams, GetPromptRequestParams, ReadResourceRequestParams,
        SubscriptionFilter,
    },
    service::{QuitReason, ServiceError},
};
use rstest::rstest;
use serde_json::json;
use support::{
    Guard::{self, Wrapper, WrapperAndShield},
    Handler, connect, connect_modern, is_refusal, limits, question, refused,
};

type Call<'a> = Pin<Box<dyn Future<Output = Result<(), CallError>> + 'a>>;

/// Every call of the session that hands an error of the server's on, once.
fn calls(session: &ClientSession<Handler>) -> Vec<(&'static str, Call<'_>)> {
    macro_rules! calls {
        ($($call:ident($($argument:expr),*))*) => {
            vec![$((stringify!($call), Box::pin(async {
                session.$call($($argument),*).await.map(drop)
            }))),*]
        };
    }
    calls! {
        call_tool(CallToolRequestParams::new("t"))
        call_tool_once(CallToolRequestParams::new("t"))
        get_prompt(GetPromptRequestParams::new("p"))
        get_prompt_once(GetPromptRequestParams::new("p"))
        read_resource(ReadResourceRequestParams::new("file:///r"))
        read_resource_once(ReadResourceRequestParams::new("file:///r"))
        cancel_task(CancelTaskParams::new("t"))
        complete_prompt_argument("p", "a", "v", None)
        complete_resource_argument("file:///{r}", "r", "v", None)
        complete_prompt_simple("p", "a", "v")
        complete_resource_simple("file:///{r}", "r", "v")
        list_tools(None)
        list_all_tools()
        list_all_tools_with_cache_hint()
        list_prompts(None)
        list_all_prompts()
        list_all_prompts_with_cache_hint()
        list_resources(None)
        list_all_resources()
        list_all_resources_with_cache_hint()
        list_resource_templates(None)
        list_all_resource_templates()
        list_all_resource_templates_with_cache_hint()
        list_skills(None)
        list_all_skills()
        list_all_skills_with_cache_hint()
        listen(SubscriptionFilter::default())
        listen_with_capacity(SubscriptionFilter::default(), std::num::NonZeroUsize::MIN)
    }
}

/// Whatever is called, the server may answer that URLs are to be opened first.
#[tokio::test(start_paused = true)]
async fn every_call_counts_the_urls_that_its_error_asks_for() {
    let page = json!({"mode": "url", "message": "m", "url": "https://x", "elicitationId": "1"});
    let login = json!({"code": -32042, "message": "m", "data": {"elicitations": [page]}});
    let pool = Pool::new(limits(9, 100));
    let (handler, _events) = Handler::open();
    let (session, mut server) = connect_modern(pool.wrap("s", handler).unwrap()).await;
    let mut admitted = 0;
    for room in [true, false] {
        if !room {
            pool.update(&limits(9, 1).into());
        }
        for (name, call) in calls(&session) {
            let serve = async {
                let asked = loop {
                    let message = server.receive().await;
                    if message.get("id").is_some() {
                        break message;
                    }
                };
                server.answer_error(&asked, login.clone()).await;
            };
            let both = async { tokio::join!(call, serve).0.unwrap_err() };
            let ended = tokio::time::timeout(Duration::from_secs(30), both).await;
            let error = ended.unwrap_or_else(|_| panic!("{name} asked nothing"));
            match error {
                CallError::Service(ServiceError::McpError(error)) if room => {
                    assert_eq!(serde_json::to_value(error).unwrap(), login, "{name}");
                    admitted += 1;
                }
                error if room => panic!("{name}: {error:?}"),
                error => drop(refused(error)),
            }
            let counted = pool.snapshot().servers[0].elicitation.admitted;
            assert_eq!(counted, admitted, "{name}");
        }
    }
    assert_eq!(admitted as usize, calls(&session).len());
}

/// A host keeps its sessions in a map and shares them: nothing there can be taken apart.
#[tokio::test(start_paused = true)]
async fn a_shared_session_is_ended_from_elsewhere() {
    let (handler, _events) = Handler::open();
    let pool = Pool::new(limits(1, 1));
    let (session, mut server) = connect(pool.wrap("s", handler).unwrap()).await;
    assert!(!session.is_closed());
    session.cancellation_token().cancel();
    assert!(session.is_closed());
    assert_eq!(server.until_gone().await.len(), 0);
}

/// A host that looks whether it has to reconnect was told that a session whose server had gone
/// was still there: rmcp's own `is_closed` only knows of what the client ends.
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_session_whose_server_has_gone_is_closed(
    #[values(Wrapper, WrapperAndShield)] guard: Guard,
) {
    let (handler, _events) = Handler::open();
    let (session, server) = guard.connect(Throttled::new(handler, limits(1, 1))).await;
    assert!(!session.is_closed());
    drop(server);
    let late = session.call_tool(CallToolRequestParams::new("t")).await;
    assert!(late.is_err());
    // The last of rmcp's tasks has gone when nothing is left to be done.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(session.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_closed_session_has_ended_and_the_windows_of_its_server_go_on() {
    const SAMPLING: &str = "sampling/createMessage";
    let pool = Pool::new(limits(2, 1));
    for refusals in [0, 1] {
        let (handler, _events) = Handler::open();
        let (mut session, mut server) = connect(pool.wrap("s", handler).unwrap()).await;
        for id in 0..=refusals {
            server.send(&question(SAMPLING, id)).await;
        }
        let replies = server.receive_all(1 + refusals).await;
        assert_eq!(replies.iter().filter(|it| is_refusal(it)).count(), refusals);

        let reason = session.close().await.unwrap();
        assert!(matches!(reason, QuitReason::Cancelled), "{reason:?}");
        assert!(session.is_closed());
        assert_eq!(server.until_gone().await.len(), 0);
        let late = session.call_tool(CallToolRequestParams::new("t")).await;
        assert!(matches!(
            late,
            Err(CallError::Service(ServiceError::TransportClosed))
        ));
        // To close it again is no error, and waits for nothing.
        let again = session.close_with_timeout(Duration::ZERO).await.unwrap();
        assert!(matches!(again, Some(QuitReason::Closed)), "{again:?}");
    }
    let snapshot = pool.snapshot();
    assert_eq!(snapshot.server("s").unwrap().sampling.admitted, 2);
    assert!(snapshot.server("S").is_none(), "another server");
}
