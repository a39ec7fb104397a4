//! The relay's second promise: whatever a lenient reader takes for a question was counted, and
//! when there is no room left, none leaves.

#![no_main]

#[path = "../../tests/relay/harness.rs"]
mod harness;
#[path = "../../tests/relay/model.rs"]
mod model;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|stream: &[u8]| {
    let relayed = harness::relay(stream);
    let seen = model::questions_seen(&relayed.to_client) as u64;
    assert!(seen <= relayed.admitted, "{seen} seen, {relayed:?}");

    let exhausted = harness::relay_exhausted(stream);
    let seen = model::questions_seen(&exhausted.to_client);
    assert_eq!(seen, 0, "{exhausted:?}");
});
