//! How a session begins and ends, and what is below it.

use std::{sync::Arc, time::Duration};

use rmcp::{
    RoleClient,
    model::ServerPeerInfo,
    service::{
        ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, QuitReason,
        RunningService, RunningServiceCancellationToken, Service,
    },
    transport::IntoTransport,
};
use tokio::task::JoinError;

use super::ClientSession;
use crate::service::Throttled;

impl<S: Service<RoleClient>> ClientSession<S> {
    /// Connects by `initialize`, as rmcp's `serve` does, through a
    /// [`Shield`](crate::Shield).
    ///
    /// # Errors
    ///
    /// As rmcp's `serve`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the transport, and the wrapped service with its session.
    pub async fn connect<T, E, A>(
        throttled: Throttled<S>,
        transport: T,
    ) -> Result<Self, ClientInitializeError>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        Self::connect_with_lifecycle(throttled, transport, ClientLifecycleMode::Initialize).await
    }

    /// Connects by another lifecycle, as that of 2026-07-28, through a [`Shield`](crate::Shield).
    ///
    /// ```
    /// # use mcp_question_throttle::{ClientSession, Pool};
    /// use rmcp::{model::ProtocolVersion, service::ClientLifecycleMode};
    ///
    /// # async fn connect(pool: &Pool, handler: impl rmcp::ClientHandler, transport: tokio::io::DuplexStream)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// // 2026-07-28 where the server knows it, and `initialize` where it does not.
    /// let lifecycle = ClientLifecycleMode::Auto {
    ///     preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    ///     legacy_version: None,
    /// };
    /// let throttled = pool.wrap("github", handler)?;
    /// let session = ClientSession::connect_with_lifecycle(throttled, transport, lifecycle).await?;
    /// # drop(session); Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As rmcp's `serve_with_lifecycle`.
    ///
    /// # Cancel safety
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_with_lifecycle<T, E, A>(
        throttled: Throttled<S>,
        transport: T,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, ClientInitializeError>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let transport = throttled.shield(transport);
        let running = throttled.serve_with_lifecycle(transport, lifecycle).await?;
        Ok(Self::new(running))
    }

    /// Takes over a running service.
    pub const fn new(running: RunningService<RoleClient, Throttled<S>>) -> Self {
        Self { running }
    }

    /// The throttled service.
    pub fn service(&self) -> &Throttled<S> {
        self.running.service()
    }

    /// The connection itself. What its calls bring back (rounds, tasks, errors `-32042`) is
    /// neither counted nor answered.
    #[must_use]
    pub fn peer(&self) -> &Peer<RoleClient> {
        self.running.peer()
    }

    /// The running service.
    #[must_use]
    pub const fn get_ref(&self) -> &RunningService<RoleClient, Throttled<S>> {
        &self.running
    }

    /// What the server said about itself when the session began.
    #[must_use]
    pub fn peer_info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.peer().peer_info()
    }

    /// Whether the session has ended, or ends: by the client, or since the server or the transport
    /// has gone, of which rmcp's own method knows nothing.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.running.is_closed() || self.peer().is_transport_closed()
    }

    /// Waits until the session ends, by the server or the transport.
    ///
    /// # Errors
    ///
    /// [`JoinError`] if rmcp's loop panicked.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the session.
    pub async fn waiting(self) -> Result<QuitReason, JoinError> {
        self.running.waiting().await
    }

    /// Ends the session from elsewhere, where it is shared: see [`is_closed`](Self::is_closed).
    #[must_use]
    pub fn cancellation_token(&self) -> RunningServiceCancellationToken {
        self.running.cancellation_token()
    }

    /// Ends the session, and waits for its end. Its calls fail from then on; the server's windows
    /// go on in the pool.
    ///
    /// # Errors
    ///
    /// As [`waiting`](Self::waiting).
    ///
    /// # Cancel safety
    ///
    /// The session ends all the same.
    pub async fn close(&mut self) -> Result<QuitReason, JoinError> {
        self.running.close().await
    }

    /// As [`close`](Self::close), and waits no longer than `timeout`: `None` if it had not ended.
    ///
    /// # Errors
    ///
    /// As [`waiting`](Self::waiting).
    ///
    /// # Cancel safety
    ///
    /// As [`close`](Self::close).
    pub async fn close_with_timeout(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<QuitReason>, JoinError> {
        self.running.close_with_timeout(timeout).await
    }

    /// Ends the session, and waits for its end. The server's windows go on in the pool.
    ///
    /// # Errors
    ///
    /// As [`waiting`](Self::waiting).
    ///
    /// # Cancel safety
    ///
    /// The session ends all the same.
    pub async fn cancel(self) -> Result<QuitReason, JoinError> {
        self.running.cancel().await
    }

    /// The running service.
    #[must_use]
    pub fn into_inner(self) -> RunningService<RoleClient, Throttled<S>> {
        self.running
    }
}
