//! The relay: bounded questions for clients that cannot be changed.
//!
//! It stands between a client and a server it does not trust, and keeps two promises. What is not
//! a question leaves byte for byte as it came; and no client sees a question that was not
//! counted. What a client sees depends on how it reads, so frames are read as the most credulous
//! one would.
//!
//! | part | what it does | what it never does |
//! |---|---|---|
//! | [`Frames`] | cuts a stream into lines | look at them |
//! | [`look`] | reads what a frame asks | build values, or read a clock |
//! | [`Judge`] | admits a frame, or cuts out and replaces what is refused | input and output |
//! | [`Lines`] | the same for a stream of lines | |
//! | [`wrap`] | a server as a child process, between its pipes and ours | |
//! | [`serve`] | servers over HTTP, each at a path of one address | |
//!
//! # Outcomes over a pipe
//!
//! Those over HTTP are with [`serve`].
//!
//! | frame of the server | what the client gets | what the server gets |
//! |---|---|---|
//! | no question | the frame, byte for byte | |
//! | a question within the limits | the frame, byte for byte | |
//! | a request over the limit | nothing | the refusal, under its id |
//! | a question without id over the limit | nothing | |
//! | a round, or an error -32042, over the limit | the refusal, under the call's id | |
//! | a task notification over the limit | nothing | |
//! | a batch with refused members | the other members | the refusals as an array |
//! | not one JSON value, and nothing like a question in it | the frame, byte for byte | |
//! | not one JSON value, and something like a question in it | nothing, and a warning here | |
//! | a line of more than 16 MiB | the same by what it holds, in parts; cut where a question is found | |
//!
//! # What is bounded
//!
//! A line is held up to [`LONGEST_FRAME`], a longer one only searched while it passes. Refusals
//! that a server does not read wait up to [`wrap::MOST_UNSENT`], and then the server is not read
//! until it reads; one that writes more than that before it reads can block itself. A client that
//! does not read is waited for, and its server with it. Nothing else is kept.
//!
//! # What it does not do
//!
//! The windows are those of one process, and end with it: a server that is started again starts
//! full, and two clients are two sets of windows. Limits hold for a configured name: a server
//! under two names may ask twice as much. It counts questions, not what they cost. A refusal is
//! no consent: what a refused question was to guard must not be done.
//!
//! `proto.askTTL` and `proto.askRounds` do nothing here: only what shows a prompt can close it, and
//! only what sends a call's rounds knows which are one call's.
//!
//! Over a pipe a request is answered under its id in every revision. The one of 2026-07-28 knows
//! no responses of a client; a server that broke it by asking can be told in no other way.

#[cfg(any(feature = "command", feature = "serve"))]
mod expand;
mod frame;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzed;
mod json;
mod judge;
mod lines;
pub mod look;
#[cfg(feature = "command")]
mod mcp_config;
mod nesting;
mod notices;
mod open;
mod polls;
mod position;
mod refused;
mod search;
#[cfg(feature = "serve")]
pub mod serve;
mod text;
#[cfg(all(unix, feature = "command"))]
pub mod wrap;

#[cfg(feature = "command")]
pub use self::mcp_config::{McpConfig, McpConfigError};
pub use self::{
    frame::{Frames, LONGEST_FRAME, Piece},
    judge::{Fate, Judge, Outlet},
    lines::Lines,
    polls::Polls,
    refused::{Refused, Reply},
};
