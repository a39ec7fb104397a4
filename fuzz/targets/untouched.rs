//! The relay's first promise: what is not a question leaves byte for byte as it came.

#![no_main]

#[path = "../../tests/relay/harness.rs"]
mod harness;

use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;

fuzz_target!(|stream: &[u8]| {
    // With room for everything, only what cannot be read may be missing.
    let relayed = harness::relay(stream);
    if relayed.unreadable == 0 {
        assert_eq!(relayed.to_client, stream);
    }
    // However it is cut into reads, the same leaves.
    let again = harness::relay_in_steps(stream, 1 + stream.len() % 7);
    assert_eq!(again.to_client, relayed.to_client);
    // Lines that are JSON to the letter can always be read.
    if stream.split(|byte| *byte == b'\n').all(is_plain) {
        assert_eq!(relayed.unreadable, 0);
    }
    // When there is no room, what asks nothing still leaves as it came.
    if relayed.admitted == 0 && relayed.unreadable == 0 {
        assert_eq!(harness::relay_exhausted(stream).to_client, stream);
    }
});

/// One message in one line, or nothing. Arrays may hold arrays, which nobody reads for sure.
fn is_plain(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let is_message = line.starts_with(b"{") && !line.contains(&b'\r');
    line.is_empty() || (is_message && serde_json::from_slice::<IgnoredAny>(line).is_ok())
}
