//! `relay::serve` over real sockets, between a test and a scripted server.

#![cfg(feature = "serve")]

mod harness;
mod passing;
