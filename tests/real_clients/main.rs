//! Clients on SDKs that nobody here wrote, with the relay between them and their servers: what
//! they see is the same as without, and a flood ends at the limit, counted on both ends.
//!
//! The SDKs are pinned and installed on first use by `tests/peers/install`; without a network or
//! an interpreter these tests fail and say what is missing. With `SKIP_REAL_MCP_SERVERS=1` they
//! say that they are skipped.

#![cfg(all(unix, feature = "command"))]

/// Each check of a module through `wrap`, and through `serve`.
macro_rules! both {
    ($($check:ident,)*) => {
        mod through_wrap {
            $(#[tokio::test]
            async fn $check() {
                super::$check(super::Transport::Stdio).await;
            })*
        }

        #[cfg(feature = "serve")]
        mod through_serve {
            $(#[tokio::test]
            async fn $check() {
                super::$check(super::Transport::Http).await;
            })*
        }
    };
}

mod client;
mod everything;
mod floods;
mod inspector;
mod inspector_answers;
#[cfg(feature = "serve")]
mod official;
#[path = "../peers/mod.rs"]
mod peers;
mod recorded;
#[cfg(feature = "serve")]
mod recorded_http;
mod relay;
#[cfg(feature = "serve")]
mod tap;
