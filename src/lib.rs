//! Bounds how often an MCP server may ask.
pub mod limits;
pub mod question;
pub mod refusal;
#[cfg(feature = "file")]
pub mod settings;
mod sync;
pub mod throttle;
pub mod window;
