//! Limits and settings as values that cannot be wrong: checked once, then trusted.
//!
//! Everything here is plain data with strict `serde` implementations. Reading it from files and
//! from the environment is the job of the module `settings` (feature `file`).

mod mode;
mod name;
mod server_name;
mod settings;
mod values;

pub use self::{
    mode::ThrottleMode,
    name::{LimitName, Scope},
    server_name::ServerName,
    settings::{ProtoOverrides, ProtoSettings, Settings},
    values::{AskRounds, AskTtl, Invalid, Limit},
};
