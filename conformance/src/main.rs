//! Checks any MCP client for bounded questions.
fn main() {}
