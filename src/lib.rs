// The README links to files beside it, which are not beside these pages. Of two destinations under
// one name the first one holds, so these stand before it. docs.rs has the picture among the
// sources; `cargo doc` leaves its pages three folders below it.
#![cfg_attr(
    docsrs,
    doc = concat!(
        "[status-page]: https://docs.rs/crate/mcp-question-throttle/",
        env!("CARGO_PKG_VERSION"),
        "/source/src/relay/serve/page/status.png"
    )
)]
#![cfg_attr(
    not(docsrs),
    doc = "[status-page]: ../../../src/relay/serve/page/status.png"
)]
//! [results]: #is-my-client-bounded
//!
#![doc = include_str!("../README.md")]
//!
//! # Map
//!
//! | module | what it is | what it never does |
//! |---|---|---|
//! | [`window`] | the fixed window: the counting rule | read a clock |
//! | [`limits`] | settings as values that cannot be wrong | read a file |
//! | [`question`] | what counts as a question, by method name | look at its content |
//! | [`refusal`] | the causes, data keys and texts of refusals | name a configured server |
//! | [`throttle`] | admission: one lock per configured server | read a clock, await, refund |
//! | [`clock`] | the only `now` | |
//! | [`service`] | [`Throttled`] around an rmcp service; the permit | reach the handler without one |
//! | [`ClientSession`] | rounds, tasks and errors of calls | retry by itself |
//! | [`CallError`] | why a call has no result; the refused round or task | know a refusal by its `data` |
//! | [`Verdict`] | one decision, for an observer | hold anything that a server wrote |
//! | [`Shield`] | refuses floods as a transport reads them | charge |
//! | [`usage`] | the last questions of each server, and how they ended | keep what a server wrote |
//! | [`Pool`] | one throttle for all the servers of a client | key by what a server says |
//!
//! Notes such as (D5) name a decision that the whole project holds to. `conformance/DECISIONS.md`
//! in the repository lists them.
//!
//! # Features
//!
//! `file` adds settings from TOML files and environment variables. `command` (default) adds the
//! command `mcp-question-throttle`, and the module `relay` behind it, which holds the frames of a
//! server to the limits without rmcp. `serve` (default) adds the relay over HTTP, to that command
//! or, alone, to a program of yours. An embedder of the client's side needs none of them.
#![cfg_attr(docsrs, feature(doc_cfg))]

// So that unit tests may use what the tests outside of the crate use.
#[cfg(test)]
extern crate self as mcp_question_throttle;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;

mod arrival;
mod call_error;
mod calls;
pub mod clock;
pub mod limits;
mod methods;
mod pool;
pub mod question;
pub mod refusal;
#[cfg(any(feature = "command", feature = "serve"))]
pub mod relay;
pub mod service;
mod session;
#[cfg(feature = "file")]
pub mod settings;
mod shield;
mod sync;
pub mod throttle;
pub mod usage;
mod verdict;
pub mod window;
mod wire;

pub use crate::{
    arrival::{Door, Origin, Outcome},
    call_error::{CallError, Refused},
    pool::Pool,
    service::Throttled,
    session::{ClientSession, ThrottledSubscription},
    shield::Shield,
    verdict::Verdict,
};

#[cfg(test)]
mod tests {
    /// The page of the crate once had a broken picture, and a link to nowhere: the README's
    /// destinations are files, and no file lies beside a page of rustdoc's.
    #[test]
    fn what_the_readme_links_to_has_a_destination_in_the_crate_docs_too() {
        let readme = include_str!("../README.md");
        let destinations = readme
            .split("](")
            .skip(1)
            .map(|rest| rest.split(')').next().unwrap());
        for destination in destinations {
            assert!(destination.starts_with("https://"), "{destination}");
        }
        let names: Vec<_> = readme
            .lines()
            .filter_map(|line| line.strip_prefix('[')?.split_once("]: "))
            .collect();
        assert_eq!(names.len(), 2, "{names:?}");
        let before = include_str!("lib.rs").split("include_str!").next().unwrap();
        for (name, file) in names {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            assert!(path.is_file(), "{file}");
            assert!(readme.contains(&format!("][{name}]")), "{name}");
            assert!(before.contains(&format!("[{name}]: ")), "{name}");
        }
    }
}
