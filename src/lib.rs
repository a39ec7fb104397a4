//! Bounds how often an MCP server may ask.
pub mod limits;
pub mod question;
pub mod refusal;
mod sync;
pub mod throttle;
pub mod window;
