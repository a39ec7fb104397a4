//! Bounds how often an MCP server may ask.

mod call_error;
pub mod clock;
pub mod limits;
mod pool;
pub mod question;
pub mod refusal;
pub mod service;
mod session;
#[cfg(feature = "file")]
pub mod settings;
mod sync;
pub mod throttle;
mod verdict;
pub mod window;
mod wire;

pub use crate::{
    call_error::{CallError, Refused},
    pool::Pool,
    service::Throttled,
    session::{ClientSession, ThrottledSubscription},
    verdict::{Door, Verdict},
};
