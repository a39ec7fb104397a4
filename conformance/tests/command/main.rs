//! The command as its users meet it: one program of tests, so that all share their support.

mod explain;
mod kept;
mod relays;
mod run;
mod support;
