//! `wrap` as a client meets it: the real command between a test and small servers.

#![cfg(all(unix, feature = "command"))]

mod configured;
mod endings;
mod harness;
mod hostile;
mod passing;
mod pasted;
mod questions;
