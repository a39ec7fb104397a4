//! A server that speaks raw JSON-RPC over an in-memory pipe, and a handler that writes down what
//! reaches it. Everything is asserted on the wire and at the handler, never on the throttle's word.

#![expect(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "each test binary uses its own part of this module"
)]

mod handler;
pub mod http;
mod messages;
mod server;

use std::{future::poll_fn, pin::pin, task::Poll};

use mcp_question_throttle::{
    CallError, ClientSession, Refused, Throttled,
    limits::{Limit, ProtoSettings},
};
use rmcp::{
    ServiceExt,
    model::ProtocolVersion,
    service::{ClientLifecycleMode, RoleClient, Service},
};

pub use self::{
    handler::{Handler, Log},
    messages::{asking, done, inputs, is_refusal, log_in_first, question, round, task},
    server::{Server, pipe, pipe_of},
};

/// Limits of a server, with those of sessions turned off.
pub fn limits(sampling: u32, elicitation: u32) -> ProtoSettings {
    ProtoSettings::default()
        .with_sampling_per_minute(Limit::new(sampling).unwrap())
        .with_sampling_session_per_minute(Limit::OFF)
        .with_elicitation_per_minute(Limit::new(elicitation).unwrap())
}

/// What stands between a server and the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    Wrapper,
    WrapperAndShield,
}

impl Guard {
    /// A throttled client connected to a scripted server of 2025-11-25.
    pub async fn connect<S: Service<RoleClient>>(
        self,
        throttled: Throttled<S>,
    ) -> (ClientSession<S>, Server) {
        self.connect_as(throttled, "scripted").await
    }

    /// The same, where the server calls itself `name`.
    pub async fn connect_as<S: Service<RoleClient>>(
        self,
        throttled: Throttled<S>,
        name: &str,
    ) -> (ClientSession<S>, Server) {
        let (client, mut server) = pipe();
        let connected = async {
            match self {
                Self::Wrapper => ClientSession::new(throttled.serve(client).await.unwrap()),
                Self::WrapperAndShield => ClientSession::connect(throttled, client).await.unwrap(),
            }
        };
        let (session, ()) = tokio::join!(connected, server.handshake_as(name));
        (session, server)
    }
}

/// A throttled client as most have it: behind a shield.
pub async fn connect<S: Service<RoleClient>>(
    throttled: Throttled<S>,
) -> (ClientSession<S>, Server) {
    Guard::WrapperAndShield.connect(throttled).await
}

/// A throttled client connected to a scripted server of 2026-07-28.
pub async fn connect_modern<S: Service<RoleClient>>(
    throttled: Throttled<S>,
) -> (ClientSession<S>, Server) {
    let (client, mut server) = pipe();
    let lifecycle = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    let (session, ()) = tokio::join!(
        ClientSession::connect_with_lifecycle(throttled, client, lifecycle),
        server.discovery()
    );
    (session.unwrap(), server)
}

/// Polls a future so many times at most, and drops it then: a call that is dropped at its n-th
/// await point. `None` if it had not ended.
pub async fn dropped_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// What a call brought that must have been refused.
pub fn refused(error: CallError) -> Refused {
    match error {
        CallError::Refused(refused) => refused,
        other => panic!("not refused: {other:?}"),
    }
}
