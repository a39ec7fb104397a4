//! The last questions of each server: what is kept of them, and that it is bounded and exact.

mod support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_question_throttle::{
    ClientSession, Door, Origin, Outcome, Pool,
    limits::{AskTtl, LimitName, ThrottleMode},
    question::QuestionKind,
    throttle::ServerSnapshot,
    usage::{Ending, HISTORY_STEPS, KEPT, Usage},
};
use rmcp::model::{CallToolRequestParams, GetTaskParams};
use rstest::rstest;
use serde_json::json;
use support::{
    Guard::{self, Wrapper, WrapperAndShield},
    Handler, connect, connect_modern, inputs, limits, question, round,
};
use tokio::time;

const S: &str = "sampling/createMessage";
const E: &str = "elicitation/create";

fn usage(pool: &Pool) -> Usage {
    pool.snapshot().servers[0].usage.clone().unwrap()
}

/// All that was recorded of a kind, by outcome.
fn recorded(usage: &Usage, kind: QuestionKind, verdict: Outcome) -> u64 {
    let counts = usage.counts.iter();
    counts
        .filter(|count| (count.kind, count.verdict) == (kind, verdict))
        .map(|count| count.questions)
        .sum()
}

/// What is recorded beside the throttle is what the throttle has counted.
fn assert_agrees(server: &ServerSnapshot) {
    let usage = server.usage.as_ref().unwrap();
    let mut decided = [0; 3];
    let mut noted = [0; 3];
    for (kind, counted) in [
        (QuestionKind::Sampling, &server.sampling),
        (QuestionKind::Elicitation, &server.elicitation),
    ] {
        assert_eq!(recorded(usage, kind, Outcome::Admitted), counted.admitted);
        decided[0] += counted.admitted;
        decided[1] += counted.would_refuse_by_server_limit + counted.would_refuse_by_session_limit;
        decided[2] += counted.refused_by_server_limit
            + counted.refused_by_session_limit
            + counted.refused_while_muted;
        for (noted, verdict) in
            noted
                .iter_mut()
                .zip([Outcome::Admitted, Outcome::WouldRefuse, Outcome::Refused])
        {
            *noted += recorded(usage, kind, verdict);
        }
    }
    assert_eq!(noted, decided);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_flood_is_counted_exactly_in_bounded_memory(
    #[values(Wrapper, WrapperAndShield)] guard: Guard,
    #[values(ThrottleMode::Enforce, ThrottleMode::Observe)] mode: ThrottleMode,
) {
    let pool = Pool::new(limits(5, 7).with_throttle_mode(mode));
    let (_session, mut server) = guard
        .connect(pool.wrap("a", Handler::open().0).unwrap())
        .await;
    for turn in 0..10 {
        let burst: String = (0..500)
            .map(|n| {
                format!(
                    "{}\n",
                    question(if n % 3 == 0 { S } else { E }, turn * 500 + n)
                )
            })
            .collect();
        server.send_raw(&burst).await;
        server.receive_all(500).await;
        if turn == 7 {
            pool.mute("a").unwrap();
        }
    }
    let row = &pool.snapshot().servers[0];
    assert_agrees(row);
    let usage = row.usage.as_ref().unwrap();
    let all: u64 = usage.counts.iter().map(|count| count.questions).sum();
    assert_eq!(all, 5000);
    assert_eq!(usage.recent.len(), KEPT);
    assert!(
        usage
            .recent
            .iter()
            .all(|it| it.cause == Some("server_muted"))
    );
    assert_eq!(usage.elicitation.open + usage.sampling.open, 0);
}

#[tokio::test(start_paused = true)]
async fn a_question_is_open_until_it_is_answered() {
    let pool = Pool::new(limits(5, 5));
    let (handler, mut entered) = Handler::blocked();
    let gate = handler.gate.clone();
    let (_session, mut server) = connect(pool.wrap("a", handler).unwrap()).await;
    server.send(&question(E, 1)).await;
    entered.recv().await.unwrap();
    time::advance(Duration::from_secs(3)).await;
    let open = usage(&pool);
    assert_eq!((open.elicitation.open, open.elicitation.answered), (1, 0));
    assert_eq!((open.recent[0].ending, open.recent[0].ago_ms), (None, 3000));

    gate.add_permits(1);
    server.receive().await;
    let ended = usage(&pool);
    assert_eq!((ended.elicitation.open, ended.elicitation.answered), (0, 1));
    // Between 2.5 and 5 seconds.
    assert_eq!(ended.elicitation.answer_times[4], 1);
    assert!((ended.elicitation.answer_seconds - 3.0).abs() < 0.01);
    let last = &ended.recent[0];
    assert_eq!(
        (last.ending, last.took_ms),
        (Some(Ending::Answered), Some(3000))
    );
    assert_eq!(
        (last.kind, last.door),
        (QuestionKind::Elicitation, Door::ServerRequest)
    );
    assert_eq!(
        (last.verdict, last.origin),
        (Outcome::Admitted, Origin::Background)
    );
}

#[tokio::test(start_paused = true)]
async fn a_question_can_expire_or_be_cancelled() {
    let settings = limits(5, 5).with_ask_ttl(AskTtl::new(Duration::from_secs(9)).unwrap());
    let pool = Pool::new(settings);
    let (handler, mut entered) = Handler::blocked();
    let (_session, mut server) = connect(pool.wrap("a", handler).unwrap()).await;
    server.send(&question(S, 1)).await;
    entered.recv().await.unwrap();
    assert_eq!(
        server.receive().await["error"]["data"]["cause"],
        "question_expired"
    );
    server.send(&question(S, 2)).await;
    entered.recv().await.unwrap();
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    server.send(&cancel).await;
    while usage(&pool).sampling.open > 0 {
        time::sleep(Duration::from_millis(100)).await;
    }
    let ended = usage(&pool);
    let counts = (
        ended.sampling.answered,
        ended.sampling.expired,
        ended.sampling.cancelled,
    );
    assert_eq!(counts, (0, 1, 1));
    let endings: Vec<_> = ended
        .recent
        .iter()
        .map(|it| (it.ending, it.took_ms))
        .collect();
    assert_eq!(endings[1], (Some(Ending::Expired), Some(9000)));
    assert_eq!(endings[0].0, Some(Ending::Cancelled));
    let all: u64 = ended.counts.iter().map(|count| count.questions).sum();
    assert_eq!(all, 2, "an expired question is not counted twice");
}

#[tokio::test(start_paused = true)]
async fn rounds_are_kept_by_kind() {
    let pool = Pool::new(limits(2, 2));
    let (session, mut server) = connect_modern(pool.wrap("a", Handler::open().0).unwrap()).await;
    let scripted = async {
        for entries in [
            &[("k", E), ("l", E), ("m", S)][..],
            &[("k", E), ("l", E), ("m", S)][..],
        ] {
            let call = server.request("tools/call").await;
            server.answer(&call, round(entries, None)).await;
        }
    };
    let (called, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), scripted);
    called.unwrap_err();
    let row = &pool.snapshot().servers[0];
    assert_agrees(row);
    let usage = row.usage.as_ref().unwrap();
    let kept: Vec<_> = usage
        .recent
        .iter()
        .rev()
        .map(|it| (it.kind, it.questions, it.verdict, it.limit, it.ending))
        .collect();
    let (limit, answered) = (LimitName::ElicitationPerMinute, Some(Ending::Answered));
    assert_eq!(
        kept,
        [
            (QuestionKind::Sampling, 1, Outcome::Admitted, None, answered),
            (
                QuestionKind::Elicitation,
                2,
                Outcome::Admitted,
                None,
                answered
            ),
            (
                QuestionKind::Sampling,
                1,
                Outcome::Refused,
                Some(limit),
                None
            ),
            (
                QuestionKind::Elicitation,
                2,
                Outcome::Refused,
                Some(limit),
                None
            ),
        ]
    );
    assert!(
        usage
            .recent
            .iter()
            .all(|it| (it.door, it.origin) == (Door::Round, Origin::InCall))
    );
}

#[tokio::test(start_paused = true)]
async fn endless_calls_are_counted_apart_from_questions() {
    let pool = Pool::new(limits(0, 0));
    let (session, mut server) = connect_modern(pool.wrap("a", Handler::open().0).unwrap()).await;
    let endless = async {
        loop {
            let call = server.request("tools/call").await;
            server.answer(&call, round(&[("k", E)], None)).await;
        }
    };
    tokio::select! {
        called = session.call_tool(CallToolRequestParams::new("t")) => drop(called.unwrap_err()),
        () = endless => unreachable!("it never finishes"),
    }
    let usage = usage(&pool);
    assert_eq!(usage.rounds_exceeded, 1);
    assert_eq!(
        recorded(&usage, QuestionKind::Elicitation, Outcome::Admitted),
        8
    );
    assert_eq!(
        recorded(&usage, QuestionKind::Elicitation, Outcome::Refused),
        0
    );
}

/// Of a task's entries those seen before are not asked again: what is told and recorded of a
/// refusal was once all of them, and later as many as were refused, all of the limit's kind.
#[tokio::test(start_paused = true)]
async fn a_tasks_refusal_is_recorded_as_it_was_counted() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let observed = Arc::clone(&told);
    let pool = Pool::new(limits(0, 2)).with_observer(move |verdict| {
        let asked = (verdict.sampling, verdict.elicitation);
        observed.lock().unwrap().push((verdict.outcome(), asked));
    });
    let (session, mut server) = connect_modern(pool.wrap("a", Handler::open().0).unwrap()).await;
    let state = |entries: &[(&str, &str)]| {
        json!({
            "resultType": "complete", "taskId": "t", "status": "input_required",
            "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z",
            "ttlMs": null, "inputRequests": inputs(entries),
        })
    };
    let first = [("k", E), ("s", S)];
    let more = [("k", E), ("s", S), ("l", E), ("m", E), ("t", S)];
    for entries in [&first[..], &more[..]] {
        let scripted = async {
            let poll = server.request("tasks/get").await;
            server.answer(&poll, state(entries)).await;
        };
        let (polled, ()) = tokio::join!(session.get_task(GetTaskParams::new("t")), scripted);
        assert_eq!(polled.is_ok(), entries.len() == 2, "{polled:?}");
    }
    let row = &pool.snapshot().servers[0];
    assert_agrees(row);
    let usage = row.usage.as_ref().unwrap();
    let refused = |kind| recorded(usage, kind, Outcome::Refused);
    assert_eq!(refused(QuestionKind::Elicitation), 2);
    assert_eq!(refused(QuestionKind::Sampling), 1);
    assert_eq!(
        *told.lock().unwrap(),
        [(Outcome::Admitted, (1, 1)), (Outcome::Refused, (1, 2))]
    );
}

#[tokio::test(start_paused = true)]
async fn the_last_minutes_are_kept_in_steps() {
    let pool = Pool::new(limits(2, 2));
    let throttled = pool.wrap("a", ()).unwrap();
    let ask = || drop(throttled.admit_kind(QuestionKind::Sampling));
    (0..5).for_each(|_| ask());
    time::advance(Duration::from_secs(12)).await;
    ask();
    let history = usage(&pool).history;
    let steps: Vec<_> = history
        .iter()
        .map(|step| (step.sampling.admitted, step.sampling.refused))
        .collect();
    assert_eq!(steps, [(2, 3), (0, 0), (0, 1)]);
    time::advance(Duration::from_secs(3600)).await;
    ask();
    let history = usage(&pool).history;
    assert_eq!(history.len(), HISTORY_STEPS);
    assert_eq!(history.last().unwrap().sampling.admitted, 1);
    let all: u32 = history.iter().map(|step| step.sampling.admitted).sum();
    assert_eq!(all, 1, "what was before has left");
}

#[tokio::test(start_paused = true)]
async fn a_million_questions_leave_exact_totals_in_little_memory() {
    const FLOOD: u64 = 1_000_000;
    let pool = Pool::new(limits(5, 5));
    let throttled = pool.wrap("a", ()).unwrap();
    for nth in 0..FLOOD {
        let kind = QuestionKind::ALL[usize::from(nth % 4 == 0)];
        drop(throttled.admit_kind(kind));
    }
    let row = &pool.snapshot().servers[0];
    assert_agrees(row);
    let usage = row.usage.as_ref().unwrap();
    let refused = QuestionKind::ALL.map(|kind| recorded(usage, kind, Outcome::Refused));
    assert_eq!(refused, [FLOOD / 4 * 3 - 5, FLOOD / 4 - 5]);
    assert_eq!((usage.recent.len(), usage.counts.len()), (KEPT, 4));
    assert!(usage.history.len() <= HISTORY_STEPS);
    let shown = serde_json::to_string(row).unwrap();
    assert!(shown.len() < 100_000, "{}", shown.len());
}

/// The row is reclaimed, and the record stays.
#[tokio::test(start_paused = true)]
async fn a_server_without_a_row_keeps_its_usage() {
    let pool = Pool::new(limits(2, 0));
    pool.mute("muted").unwrap();
    let throttled = pool.wrap("a", ()).unwrap();
    drop(throttled.admit_kind(QuestionKind::Sampling).unwrap());
    drop(throttled);
    let snapshot = pool.snapshot();
    let names: Vec<_> = snapshot
        .servers
        .iter()
        .map(|it| it.server.as_str())
        .collect();
    assert_eq!(names, ["a", "muted"]);
    assert!(snapshot.servers[1].muted && snapshot.servers[1].usage.is_none());
    assert_eq!(snapshot.servers[1].sampling.window.limit, Some(2));
}

#[tokio::test(start_paused = true)]
async fn nothing_that_a_server_wrote_is_kept() {
    let pool = Pool::new(limits(1, 1));
    let (session, mut server): (ClientSession<_>, _) =
        connect_modern(pool.wrap("a", Handler::open().0).unwrap()).await;
    let scripted = async {
        let call = server.request("tools/call").await;
        server
            .answer(
                &call,
                round(&[("hunter2", E), ("hunter3", E)], Some("hunter4")),
            )
            .await;
    };
    let (called, ()) = tokio::join!(
        session.call_tool(CallToolRequestParams::new("hunter5")),
        scripted
    );
    called.unwrap_err();
    server.send(&question(E, "hunter6")).await;
    server.receive().await;
    let shown = serde_json::to_string(&pool.snapshot()).unwrap();
    assert!(
        shown.contains("limit_exceeded") && !shown.contains("hunter"),
        "{shown}"
    );
}
