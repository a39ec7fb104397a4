//! The windows as the relay keeps them. It is told by hand what time it is.

use std::{sync::Arc, time::Duration};

use mcp_question_throttle::{
    clock,
    limits::{Limit, ProtoSettings, ServerName},
    relay::Judge,
    throttle::Throttle,
};

use crate::harness::Relayed;

#[test]
fn a_window_does_not_slide_in_the_relay() {
    let start = clock::now();
    let settings = ProtoSettings::default().with_sampling_per_minute(Limit::new(2).unwrap());
    let throttle = Arc::new(Throttle::new(settings, start));
    let mut judge = Judge::new(throttle.session(ServerName::new("github").unwrap()));
    let mut out = Relayed::default();
    for (second, passed, refused) in [(0, 1, 0), (59, 2, 0), (60, 3, 0), (61, 4, 0), (119, 4, 1)] {
        let frame = br#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}"#;
        let now = start + Duration::from_secs(second);
        judge.frame(frame, now, &mut out).unwrap();
        assert_eq!(out.to_client.len(), passed * frame.len(), "at {second} s");
        assert_eq!(out.replies().len(), refused, "at {second} s");
    }
}
