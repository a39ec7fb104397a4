//! Rounds of 2026-07-28: admitted whole or not at all, and nothing half-answered on the wire.

mod admission;
mod endings;

#[path = "../support/mod.rs"]
mod support;

const S: &str = "sampling/createMessage";
const E: &str = "elicitation/create";
