//! `relay::serve` over real sockets, between a test and a scripted server.

#![cfg(feature = "serve")]

mod bounds;
#[cfg(all(unix, feature = "command"))]
mod command;
mod guard;
mod harness;
mod operating;
#[cfg(all(unix, feature = "command"))]
mod order;
mod passing;
mod proofs;
mod questions;
mod rounds;
mod sdk;
mod sessions;
#[cfg(all(unix, feature = "command"))]
mod starts;
#[path = "../support/mod.rs"]
mod support;
#[cfg(all(target_os = "linux", feature = "command"))]
mod tls;
mod transport;
