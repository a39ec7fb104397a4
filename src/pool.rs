//! The pool: one throttle for all the servers of a client.

use std::sync::Arc;

use crate::{
    clock,
    limits::{Invalid, ServerName, Settings},
    service::Throttled,
    throttle::{Snapshot, Throttle},
    usage::Recorder,
    verdict::{Reporter, Verdict},
};

/// Owns the windows of every configured server, and wraps the services that connect to them.
///
/// Keep it for as long as the client runs: a server that is connected anew through the same pool
/// meets the windows it left (D2). A clone shares everything with its original.
///
/// ```
/// use mcp_question_throttle::{Pool, limits::{ProtoSettings, Settings}};
///
/// let pool = Pool::new(Settings::new(ProtoSettings::default()));
/// let service = pool.wrap("github", ())?; // `()` is rmcp's handler that answers nothing
/// // let running = service.serve(transport).await?;
/// # drop(service);
/// # Ok::<(), mcp_question_throttle::limits::Invalid>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    throttle: Arc<Throttle>,
    reporter: Reporter,
    recorder: Arc<Recorder>,
}

impl Pool {
    /// A pool with these settings, and nothing counted yet.
    #[must_use]
    pub fn new(settings: impl Into<Settings>) -> Self {
        Self::with_throttle(Arc::new(Throttle::new(settings, clock::now())))
    }

    /// A pool on a throttle that was made elsewhere, with another capacity for instance.
    #[must_use]
    pub fn with_throttle(throttle: Arc<Throttle>) -> Self {
        let recorder = Arc::new(Recorder::new());
        Self {
            throttle,
            reporter: Reporter::recording(Arc::clone(&recorder)),
            recorder,
        }
    }

    /// Calls `observer` with every verdict on the servers that are wrapped from now on; see
    /// [`Throttled::with_observer`].
    #[must_use]
    pub fn with_observer(
        mut self,
        observer: impl Fn(&Verdict<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.reporter = self.reporter.observed(observer);
        self
    }

    /// Wraps the service of a new session with the server configured as `server`. The name is
    /// the key of its budget: take it from the settings, never from what the server says about
    /// itself. With many tenants, make the tenant part of it.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `server` is no [`ServerName`].
    pub fn wrap<S>(&self, server: &str, service: S) -> Result<Throttled<S>, Invalid> {
        let session = self.throttle.session(ServerName::new(server)?);
        Ok(Throttled::in_session(
            service,
            session,
            self.reporter.for_session(),
        ))
    }

    /// Changes the settings while everything runs (D11): counts stay, and the new limits hold
    /// from the next question.
    pub fn update(&self, settings: &Settings) {
        self.throttle.update(settings);
    }

    /// Refuses every question of a server with `server_muted`, until [`unmute`](Self::unmute);
    /// see [`Throttle::mute`].
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `server` is no [`ServerName`].
    pub fn mute(&self, server: &str) -> Result<(), Invalid> {
        self.throttle.mute(&ServerName::new(server)?);
        Ok(())
    }

    /// Lets a muted server ask again, as often as its limits allow.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `server` is no [`ServerName`].
    pub fn unmute(&self, server: &str) -> Result<(), Invalid> {
        self.throttle.unmute(&ServerName::new(server)?);
        Ok(())
    }

    /// Every window and counter, and the last questions of each server, now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_with([])
    }

    /// The same, with servers that have not asked yet.
    pub(crate) fn snapshot_with(&self, servers: impl IntoIterator<Item = ServerName>) -> Snapshot {
        let mut usage = self.recorder.usage();
        let servers = servers.into_iter().chain(usage.keys().cloned());
        let mut snapshot = self.throttle.snapshot_with(clock::now(), servers);
        for server in &mut snapshot.servers {
            server.usage = usage.remove(&server.server);
        }
        snapshot
    }

    /// Tells of the verdicts of this pool.
    #[cfg(feature = "serve")]
    pub(crate) const fn reporter(&self) -> &Reporter {
        &self.reporter
    }

    /// The throttle behind the pool.
    #[must_use]
    pub const fn throttle(&self) -> &Arc<Throttle> {
        &self.throttle
    }
}
