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

/// More than any stream here has.
const WHOLE: usize = 1 << 20;
/// What is longer than this is judged in parts.
const SHORT: usize = 40;

fuzz_target!(|stream: &[u8]| {
    let step = 1 + stream.len() % 7;
    let whole = Relayed::of(stream, WHOLE, WHOLE);
    whole.check(stream);
    let in_chunks = Relayed::of(stream, step, WHOLE);
    in_chunks.check(stream);
    assert_eq!(whole.view(), in_chunks.view(), "in chunks it is the same");
    Relayed::of(stream, step, SHORT).check(stream);

    for longest in [WHOLE, SHORT] {
        let exhausted = Relayed::without_room(stream, step, longest);
        let seen = reader::questions_seen(&exhausted.sifted.to_client);
        assert_eq!(seen, 0, "{exhausted:?}");
        if longest == WHOLE && whole.admitted == 0 && whole.sifted.unreadable == 0 {
            assert_eq!(exhausted.sifted.to_client, in_chunks.sifted.to_client);
        }
        let innocent = innocent(stream);
        let relayed = Relayed::of(&innocent, step, longest);
        assert_eq!(relayed.sifted.to_client, innocent);
        assert_eq!((relayed.sifted.unreadable, relayed.admitted), (0, 0));
    }
});

/// What left, and what was counted.
#[derive(Debug)]
struct Relayed {
    sifted: Sifted,
    admitted: u64,
}

impl Relayed {
    /// Checks what left when there was room for everything.
    fn check(&self, stream: &[u8]) {
        let seen = reader::questions_seen(&self.sifted.to_client) as u64;
        assert!(seen <= self.admitted, "{seen} seen, {self:?}");
        assert!(self.sifted.replies.is_empty(), "{self:?}");
        // Only what nobody can read for sure may be missing.
        if self.sifted.unreadable == 0 && !self.sifted.is_cut {
            assert_eq!(self.sifted.to_client, stream);
        }
    }

    /// What a reader makes of it, and how it was counted: white space between events may differ.
    fn view(&self) -> (Vec<String>, u64, bool) {
        let events = reader::by_the_standard(&self.sifted.to_client);
        (events, self.admitted, self.sifted.is_cut)
    }

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
        let before = Self::by(&throttle, EXHAUST, WHOLE, WHOLE);
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
