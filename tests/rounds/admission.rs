//! Which rounds are admitted, and what the others leave behind: nothing.

use std::time::Duration;

use mcp_question_throttle::{
    Pool, Throttled,
    limits::{AskRounds, LimitName},
    refusal::Cause,
};
use rmcp::model::{CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams};
use serde_json::{Value, json};

use super::{
    E, S,
    support::{Handler, connect_modern, done, limits, refused, round},
};

#[tokio::test(start_paused = true)]
async fn a_round_that_fits_is_answered_whole() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (session, mut server) = connect_modern(Throttled::new(handler, limits(5, 5))).await;
    let call = session.call_tool(CallToolRequestParams::new("t"));
    let serve = async {
        let first = server.request("tools/call").await;
        server
            .answer(&first, round(&[("a", E), ("b", S)], Some("s")))
            .await;
        let second = server.request("tools/call").await;
        let answers = &second["params"]["inputResponses"];
        assert_eq!(answers["a"]["action"], "accept");
        assert_eq!(answers["b"]["model"], "test-model");
        assert_eq!(second["params"]["requestState"], "s");
        server.answer(&second, done()).await;
    };
    let (result, ()) = tokio::join!(call, serve);
    assert!(result.is_ok());
    assert_eq!(log.questions(), [E, S]);
}

#[tokio::test(start_paused = true)]
async fn round_too_big() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let throttled = Throttled::new(handler, limits(5, 3));
    let throttle = throttled.session().throttle().clone();
    let (session, mut server) = connect_modern(throttled).await;
    // Two of three are used, so there is room for one.
    let warm_up = async {
        let call = server.request("tools/call").await;
        server
            .answer(&call, round(&[("a", E), ("b", E)], None))
            .await;
        let again = server.request("tools/call").await;
        server.answer(&again, done()).await;
    };
    let (result, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), warm_up);
    result.unwrap();

    let serve = async {
        let call = server.request("tools/call").await;
        server
            .answer(&call, round(&[("a", E), ("b", E), ("c", E)], None))
            .await;
    };
    let (result, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), serve);
    let refused = refused(result.unwrap_err());
    assert_eq!(
        refused.refusal().limit(),
        Some(LimitName::ElicitationPerMinute)
    );
    assert_eq!(
        refused.into_round().unwrap().input_requests.unwrap().len(),
        3
    );
    assert_eq!(log.questions().len(), 2, "no prompt opened");
    let snapshot = throttle.snapshot(mcp_question_throttle::clock::now());
    assert_eq!(
        snapshot.servers[0].elicitation.admitted, 2,
        "nothing charged"
    );

    // The room is still there, and what comes next on the wire is a call of its own.
    let serve = async {
        let call = server.request("tools/call").await;
        assert!(
            call["params"].get("inputResponses").is_none(),
            "nothing sent"
        );
        server.answer(&call, round(&[("d", E)], None)).await;
        let again = server.request("tools/call").await;
        server.answer(&again, done()).await;
    };
    let (result, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), serve);
    result.unwrap();
    assert_eq!(log.questions().len(), 3);

    session.into_inner().cancel().await.unwrap();
    assert_eq!(server.until_gone().await, Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn a_round_that_can_never_fit_has_no_retry_time() {
    let (handler, _events) = Handler::open();
    let (session, mut server) = connect_modern(Throttled::new(handler, limits(5, 2))).await;
    let serve = async {
        let call = server.request("tools/call").await;
        server
            .answer(&call, round(&[("a", E), ("b", E), ("c", E)], None))
            .await;
    };
    let (result, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), serve);
    assert_eq!(refused(result.unwrap_err()).refusal().retry_after(), None);
}

#[tokio::test(start_paused = true)]
async fn round_again() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (session, mut server) = connect_modern(Throttled::new(handler, limits(3, 9))).await;
    let serve = async {
        for _ in 0..4 {
            let call = server.request("tools/call").await;
            server.answer(&call, round(&[("same", S)], None)).await;
        }
    };
    let (result, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), serve);
    refused(result.unwrap_err());
    assert_eq!(log.questions().len(), 3);
    session.into_inner().cancel().await.unwrap();
    assert!(server.until_gone().await.is_empty(), "no further call");
}

#[tokio::test(start_paused = true)]
async fn round_with_roots() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (session, mut server) = connect_modern(Throttled::new(handler, limits(9, 1))).await;
    let fits = async {
        let call = server.request("tools/call").await;
        server
            .answer(&call, round(&[("q", E), ("r", "roots/list")], None))
            .await;
        let again = server.request("tools/call").await;
        assert_eq!(again["params"]["inputResponses"]["r"], json!({"roots": []}));
        server.answer(&again, done()).await;
    };
    let (result, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), fits);
    result.unwrap();
    assert_eq!(log.all().len(), 2, "roots are free");

    let does_not_fit = async {
        let call = server.request("tools/call").await;
        server
            .answer(&call, round(&[("q", E), ("r", "roots/list")], None))
            .await;
    };
    let (result, ()) = tokio::join!(
        session.call_tool(CallToolRequestParams::new("t")),
        does_not_fit
    );
    refused(result.unwrap_err());
    assert_eq!(log.all().len(), 2, "not even the roots were asked");

    // Roots alone are nobody's question, full window or not.
    let roots_only = async {
        let call = server.request("tools/call").await;
        let answers = call["params"].get("inputResponses");
        assert!(answers.is_none(), "nothing of the refused round was sent");
        server
            .answer(&call, round(&[("r", "roots/list")], None))
            .await;
        let again = server.request("tools/call").await;
        server.answer(&again, done()).await;
    };
    let (result, ()) = tokio::join!(
        session.call_tool(CallToolRequestParams::new("t")),
        roots_only
    );
    result.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rounds_bounded() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let settings = limits(99, 99).with_ask_rounds(AskRounds::new(3).unwrap());
    let (session, mut server) = connect_modern(Throttled::new(handler, settings)).await;
    // State-only rounds count as well.
    let serve = async {
        for n in 0..4 {
            let call = server.request("tools/call").await;
            let entries: &[(&str, &str)] = if n == 1 { &[] } else { &[("k", E)] };
            server.answer(&call, round(entries, Some("s"))).await;
        }
    };
    let (result, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), serve);
    let refused = refused(result.unwrap_err());
    assert_eq!(refused.refusal().cause(), Cause::RoundsExceeded { max: 3 });
    assert_eq!(refused.refusal().method().unwrap().as_str(), "tools/call");
    assert_eq!(log.questions().len(), 2, "the last round reached nobody");
    session.into_inner().cancel().await.unwrap();
    assert!(
        server.until_gone().await.is_empty(),
        "4 requests on the wire, not 5"
    );
}

/// A call that was open when the settings changed kept the number of rounds it had begun with.
#[tokio::test(start_paused = true)]
async fn a_new_number_of_rounds_holds_for_open_calls() {
    let settings = |rounds| limits(99, 99).with_ask_rounds(AskRounds::new(rounds).unwrap());
    for (changed_to, answered) in [(1, 2), (2, 2), (5, 5)] {
        let (handler, _events) = Handler::open();
        let log = handler.log.clone();
        let pool = Pool::new(settings(3));
        let (session, mut server) = connect_modern(pool.wrap("s", handler).unwrap()).await;
        let serve = async {
            for number in 0..=answered {
                let call = server.request("tools/call").await;
                if number == 2 {
                    pool.update(&settings(changed_to).into());
                }
                server.answer(&call, round(&[("a", E)], Some("s"))).await;
            }
        };
        let (result, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), serve);
        let cause = refused(result.unwrap_err()).refusal().cause();
        assert_eq!(cause, Cause::RoundsExceeded { max: changed_to });
        assert_eq!(log.questions().len(), answered, "{changed_to}");
        session.cancel().await.unwrap();
        assert!(server.until_gone().await.is_empty(), "nothing more is sent");
    }
}

#[tokio::test(start_paused = true)]
async fn prompts_and_resources_are_held_alike() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (session, mut server) = connect_modern(Throttled::new(handler, limits(9, 2))).await;
    let serve = async {
        for method in ["prompts/get", "prompts/get", "prompts/get"] {
            let call = server.request(method).await;
            server.answer(&call, round(&[("k", E)], None)).await;
        }
        let call = server.request("resources/read").await;
        server.answer(&call, round(&[("k", E)], None)).await;
    };
    let calls = async {
        let prompt = session.get_prompt(GetPromptRequestParams::new("p")).await;
        refused(prompt.unwrap_err());
        let resource = session
            .read_resource(ReadResourceRequestParams::new("file:///r"))
            .await;
        refused(resource.unwrap_err());
    };
    tokio::join!(calls, serve);
    assert_eq!(log.questions().len(), 2);
}

/// An embedder who keeps rmcp's own driver is held question by question.
#[tokio::test(start_paused = true)]
async fn rmcps_own_driver_is_held_too() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (session, mut server) = connect_modern(Throttled::new(handler, limits(9, 2))).await;
    let serve = async {
        let call = server.request("tools/call").await;
        server
            .answer(&call, round(&[("a", E), ("b", E), ("c", E)], None))
            .await;
    };
    let call = session.get_ref().call_tool(CallToolRequestParams::new("t"));
    let (result, ()) = tokio::join!(call, serve);
    let error = result.unwrap_err().to_string();
    assert!(error.contains("proto.elicitationPerMinute"), "{error}");
    assert_eq!(log.questions().len(), 2);
}

/// The window slides for no round either.
#[tokio::test(start_paused = true)]
async fn a_window_does_not_slide_between_rounds() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (session, mut server) = connect_modern(Throttled::new(handler, limits(9, 2))).await;
    for wait in [0, 59, 1] {
        tokio::time::advance(Duration::from_secs(wait)).await;
        let serve = async {
            let call = server.request("tools/call").await;
            server.answer(&call, round(&[("k", E)], None)).await;
            let again = server.request("tools/call").await;
            server.answer(&again, done()).await;
        };
        let call = session.call_tool(CallToolRequestParams::new("t"));
        // One that is refused leaves the server waiting.
        tokio::select! {
            biased;
            (result, ()) = async { tokio::join!(call, serve) } => drop(result.unwrap()),
            () = tokio::time::sleep(Duration::from_millis(500)) => panic!("refused"),
        }
    }
    assert_eq!(log.questions().len(), 3);
}
