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
/// meets the windows it left (D2). A clone shares everything with its original, but for an
/// observer that one of them gets later.
///
/// ```
/// use mcp_question_throttle::Pool;
///
/// let pool = Pool::default(); // or `Pool::new` with `Settings`, or with `ProtoSettings` for all
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

/// A pool with the default limits.
impl Default for Pool {
    fn default() -> Self {
        Self::new(Settings::default())
    }
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

    /// Calls `observer`, and not the one before, with every verdict on the servers that are wrapped
    /// from now on; see [`Throttled::with_observer`].
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use mcp_question_throttle::{Pool, question::QuestionKind};
    ///
    /// let (notices, shown) = mpsc::channel();
    /// let pool = Pool::default().with_observer(move |verdict| {
    ///     let Some(refusal) = verdict.refusal else { return };
    ///     // A flood of questions is no flood of notices.
    ///     if refusal.is_first_in_window() {
    ///         let _ = notices.send(format!("{} is held back: {refusal}", verdict.server));
    ///     }
    /// });
    /// pool.mute("github")?;
    /// let throttled = pool.wrap("github", ())?;
    /// for _ in 0..3 {
    ///     assert!(throttled.admit_kind(QuestionKind::Sampling).is_err());
    /// }
    /// let notices: Vec<_> = shown.try_iter().collect();
    /// assert_eq!(notices.len(), 1);
    /// assert!(notices[0].starts_with("github is held back: question refused: "));
    /// # Ok::<(), mcp_question_throttle::limits::Invalid>(())
    /// ```
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
    /// The settings need not have the name. A server without a table there is held to the common
    /// limits, and so is one whose name here is not the name there, letter for letter.
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
    /// from the next question. Servers without a table in them get the common limits.
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

    /// Every window and counter, and the last questions of each server, now. A server is in it from
    /// its first question on, or while it is muted.
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
