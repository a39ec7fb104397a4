//! Both promises of the HTTP relay for a stream of events, in whatever chunks it comes: what asks
//! nothing leaves byte for byte, and whatever a reader of events takes for a question was counted.

#![no_main]

#[path = "../../../tests/relay/harness.rs"]
mod harness;
#[path = "../../../tests/relay/model.rs"]
mod model;
mod reader;

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use mcp_question_throttle::{
    clock,
    limits::{ProtoSettings, ServerName},
    relay::fuzzed::{Sifted, sift},
    throttle::Throttle,
};

/// Bounds on what is judged as a whole: one that no stream here reaches, and one that many do.
const LONGEST: [usize; 2] = [1 << 20, 40];

fuzz_target!(|stream: &[u8]| {
    let steps = [stream.len().max(1), 1 + stream.len() % 7];
    for longest in LONGEST {
        let mut views = Vec::new();
        for step in steps {
            let relayed = Relayed::of(stream, step, longest);
            let seen = reader::questions_seen(&relayed.sifted.to_client) as u64;
            assert!(seen <= relayed.admitted, "{seen} seen, {relayed:?}");
            if relayed.sifted.unreadable == 0 && !relayed.sifted.is_cut {
                assert_eq!(relayed.sifted.to_client, stream);
            }
            assert!(relayed.sifted.replies.is_empty(), "{relayed:?}");
            views.push((
                reader::by_the_standard(&relayed.sifted.to_client),
                relayed.admitted,
                relayed.sifted.is_cut,
            ));

            let exhausted = Relayed::without_room(stream, step, longest);
            let seen = reader::questions_seen(&exhausted.sifted.to_client);
            assert_eq!(seen, 0, "{exhausted:?}");
            if relayed.admitted == 0 && relayed.sifted.unreadable == 0 {
                assert_eq!(exhausted.sifted.to_client, relayed.sifted.to_client);
            }

            let innocent = innocent(stream);
            let relayed = Relayed::of(&innocent, step, longest);
            assert_eq!(relayed.sifted.to_client, innocent);
            assert_eq!(relayed.sifted.unreadable, 0);
            assert_eq!(relayed.admitted, 0);
        }
        // What is judged in parts depends on the parts.
        if longest > stream.len() {
            assert_eq!(views[0], views[1], "in chunks it is the same");
        }
    }
});

/// What left, and what was counted.
#[derive(Debug)]
struct Relayed {
    sifted: Sifted,
    admitted: u64,
}

impl Relayed {
    /// With room for everything.
    fn of(stream: &[u8], step: usize, longest: usize) -> Self {
        let throttle = Arc::new(Throttle::new(harness::roomy(), clock::now()));
        Self::by(&throttle, stream, step, longest)
    }

    /// When both limits are used up.
    fn without_room(stream: &[u8], step: usize, longest: usize) -> Self {
        const EXHAUST: &[u8] = b"data: {\"id\":0,\"method\":\"sampling/createMessage\"}\n\n\
                                 data: {\"id\":0,\"method\":\"elicitation/create\"}\n\n";
        let settings: ProtoSettings = harness::one();
        let throttle = Arc::new(Throttle::new(settings, clock::now()));
        let before = Self::by(&throttle, EXHAUST, EXHAUST.len(), LONGEST[0]);
        assert_eq!(before.admitted, 2);
        let after = Self::by(&throttle, stream, step, longest);
        assert_eq!(after.admitted, 2);
        after
    }

    fn by(throttle: &Arc<Throttle>, stream: &[u8], step: usize, longest: usize) -> Self {
        let session = throttle.session(ServerName::new("github").unwrap());
        let sifted = sift(session, stream.chunks(step), longest);
        let servers = throttle.snapshot(clock::now()).servers;
        let admitted = servers
            .iter()
            .map(|server| server.sampling.admitted + server.elicitation.admitted)
            .sum();
        Self { sifted, admitted }
    }
}

/// The stream without the letters and signs of which questions are made: escapes, negative
/// numbers, zeros, and the names of what asks or leads around the relay.
fn innocent(stream: &[u8]) -> Vec<u8> {
    let change = |byte: &u8| match byte {
        b'\\' => b'/',
        b'-' => b'+',
        0 => b' ',
        b'c' | b'q' => b'k',
        b'C' | b'Q' => b'K',
        // Of `openai/form` and of `endpoint`.
        b'm' | b'p' => b'b',
        b'M' | b'P' => b'B',
        other => *other,
    };
    stream.iter().map(change).collect()
}
