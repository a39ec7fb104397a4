//! Floods of server requests over a pipe: what reaches the handler, and what goes over the wire.

mod support;

use mcp_question_throttle::{
    Throttled,
    limits::{Limit, ProtoSettings},
};
use support::{Handler, connect, is_refusal, question};

fn sampling(limit: u32) -> ProtoSettings {
    ProtoSettings::default()
        .with_sampling_per_minute(Limit::new(limit).unwrap())
        .with_sampling_session_per_minute(Limit::OFF)
}

#[tokio::test(start_paused = true)]
async fn flood_burst() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (_session, mut server) = connect(Throttled::new(handler, sampling(5))).await;
    let burst: String = (0..1000)
        .map(|id| format!("{}\n", question("sampling/createMessage", id)))
        .collect();
    server.send_raw(&burst).await;
    let replies = server.receive_all(1000).await;

    let mut ids: Vec<_> = replies
        .iter()
        .map(|reply| reply["id"].as_u64().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..1000).collect::<Vec<_>>());
    assert_eq!(
        replies.iter().filter(|reply| is_refusal(reply)).count(),
        995
    );
    assert_eq!(log.questions().len(), 5);
}
