//! Admission: who may ask, decided and charged in one critical section per configured server.
//!
//! It reads no clock and awaits nothing: time is an argument. It never refunds (D3), and it never
//! decides by anything a server says about itself (D2).

mod ask;
mod book;
mod bounds;
mod charge;
mod row;
mod seat;
mod seen;
mod session;
mod snapshot;
mod standing;
mod windows;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, PoisonError},
    time::Instant,
};

use self::row::Row;
pub use self::{
    ask::{Admission, Ask},
    seen::{Entry, TaskInput, TaskUse},
    session::Session,
    snapshot::{KindSnapshot, ServerSnapshot, SessionSnapshot, Snapshot, WindowSnapshot},
};
use crate::{
    limits::{ProtoSettings, ServerName, Settings},
    refusal::{Cause, RetryAfter},
    sync::{AtomicU64, Mutex, MutexGuard, OnceLock, Ordering, RwLock},
    window::{Epoch, Moment},
};

/// How many servers are counted at once, unless set otherwise (D10).
pub const DEFAULT_CAPACITY: usize = 10_000;

/// Below this many rows, ended ones are not worth looking for.
const FEW_ROWS: usize = 64;

/// Bounds how often configured servers may ask.
///
/// It owns a row per server, made by the server's first question, and hands out [`Session`]s.
/// Share it in an [`Arc`]; every session of a server shares that server's windows (D2).
///
/// ```
/// use std::{sync::Arc, time::{Duration, Instant}};
/// use mcp_question_throttle::{
///     limits::{Limit, ProtoSettings, ServerName, Settings},
///     question::{Method, QuestionKind},
///     throttle::{Ask, Throttle},
/// };
///
/// let settings = ProtoSettings::default().with_sampling_per_minute(Limit::new(1)?);
/// let start = Instant::now();
/// let throttle = Arc::new(Throttle::new(Settings::new(settings), start));
/// let session = throttle.session(ServerName::new("github")?);
///
/// let method = Method::from(QuestionKind::Sampling);
/// let ask = Ask::one(QuestionKind::Sampling, &method);
/// assert!(session.admit(start, &ask).is_ok());
/// let refusal = session.admit(start + Duration::from_secs(22), &ask).unwrap_err();
/// assert_eq!(refusal.retry_after().unwrap().as_secs(), 38);
/// assert!(session.admit(start + Duration::from_secs(60), &ask).is_ok());
/// # Ok::<(), mcp_question_throttle::limits::Invalid>(())
/// ```
pub struct Throttle {
    epoch: Epoch,
    in_force: RwLock<Arc<InForce>>,
    table: Mutex<Table>,
    capacity: usize,
    next_session: AtomicU64,
    /// No row can be reclaimed before this moment; `u64::MAX` while none has lost its sessions,
    /// 0 if that has to be found out.
    reclaim_from: AtomicU64,
    saturated: AtomicU64,
    would_saturate: AtomicU64,
}

struct Table {
    rows: HashMap<ServerName, Arc<Row>>,
    muted: HashSet<ServerName>,
    /// At this many rows, ended ones are looked for.
    sweep_at: usize,
    /// When the last window of any row that was reclaimed ended.
    reclaimed_until: Moment,
}

/// The settings, with those of each server worked out.
struct InForce {
    proto: Arc<ProtoSettings>,
    servers: HashMap<ServerName, Arc<ProtoSettings>>,
    muted: HashSet<ServerName>,
}

impl InForce {
    fn new(settings: &Settings) -> Self {
        Self {
            proto: Arc::new(settings.proto().clone()),
            servers: settings
                .servers()
                .map(|(name, overrides)| (name.clone(), Arc::new(overrides.over(settings.proto()))))
                .collect(),
            muted: settings.muted().iter().cloned().collect(),
        }
    }

    fn of(&self, server: &ServerName) -> &Arc<ProtoSettings> {
        self.servers.get(server).unwrap_or(&self.proto)
    }
}

impl Throttle {
    /// Counts from `now`, with room for [`DEFAULT_CAPACITY`] servers.
    #[must_use]
    pub fn new(settings: impl Into<Settings>, now: Instant) -> Self {
        let in_force = InForce::new(&settings.into());
        Self {
            epoch: Epoch::new(now),
            table: Mutex::new(Table {
                rows: HashMap::new(),
                muted: in_force.muted.clone(),
                sweep_at: FEW_ROWS,
                reclaimed_until: Moment::START,
            }),
            in_force: RwLock::new(Arc::new(in_force)),
            capacity: DEFAULT_CAPACITY,
            next_session: AtomicU64::new(1),
            reclaim_from: AtomicU64::new(0),
            saturated: AtomicU64::new(0),
            would_saturate: AtomicU64::new(0),
        }
    }

    /// Sets how many servers are counted at once (D10). At the bound a new server is refused.
    #[must_use]
    pub const fn with_capacity(mut self, servers: usize) -> Self {
        self.capacity = servers;
        self
    }

    /// A session of the server configured as `server`. Its windows end when it is dropped; the
    /// server's go on.
    #[must_use]
    pub fn session(self: &Arc<Self>, server: ServerName) -> Session {
        Session {
            number: self.next_session.fetch_add(1, Ordering::Relaxed),
            throttle: Arc::clone(self),
            server,
            seat: OnceLock::new(),
        }
    }

    /// `now` as this throttle counts time.
    #[must_use]
    pub fn moment(&self, now: Instant) -> Moment {
        self.epoch.moment(now)
    }

    /// The settings in force for `server`.
    #[must_use]
    pub fn settings(&self, server: &ServerName) -> Arc<ProtoSettings> {
        // The guarded value is only ever replaced whole, so it is sound even after a panic.
        let in_force = self.in_force.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(in_force.of(server))
    }

    /// Changes the settings (D11): counts stay, and the new limits hold from the next question.
    ///
    /// A server is muted or not as these settings say where that differs from the last ones.
    /// Otherwise it stays as [`mute`](Self::mute) and [`unmute`](Self::unmute) have left it, so
    /// that reading the same file again undoes nothing.
    pub fn update(&self, settings: &Settings) {
        let new = Arc::new(InForce::new(settings));
        // The table is held throughout, so no row is made with the old limits meanwhile.
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let old = {
            let mut in_force = self
                .in_force
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *in_force, Arc::clone(&new))
        };
        for (server, row) in &table.rows {
            row.set_bounds(new.of(server));
        }
        for server in old.muted.symmetric_difference(&new.muted) {
            table.set_muted(server, new.muted.contains(server));
        }
    }

    /// Refuses every question of `server` with `server_muted`, until [`unmute`](Self::unmute).
    /// Such a refusal charges nothing, windows and counts go on as they are, and what was
    /// admitted before stays admitted. It holds under `proto.throttleMode = "observe"` too.
    ///
    /// This is the way to refuse all of a server: a limit of 0 means that there is no bound.
    pub fn mute(&self, server: &ServerName) {
        self.set_muted(server, true);
    }

    /// Undoes [`mute`](Self::mute), or `muted = true` in the settings.
    pub fn unmute(&self, server: &ServerName) {
        self.set_muted(server, false);
    }

    fn set_muted(&self, server: &ServerName, muted: bool) {
        let table = self.table.lock();
        table
            .unwrap_or_else(PoisonError::into_inner)
            .set_muted(server, muted);
    }

    /// The servers that are muted, in byte order, whether they have asked or not.
    #[must_use]
    pub fn muted(&self) -> Vec<ServerName> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let mut muted: Vec<_> = table.muted.iter().cloned().collect();
        muted.sort_unstable();
        muted
    }

    /// Every window and counter at `now`, each server's own consistent in itself.
    #[must_use]
    pub fn snapshot(&self, now: Instant) -> Snapshot {
        let at = self.epoch.moment(now);
        let rows: Vec<_> = {
            let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
            table
                .rows
                .iter()
                .map(|(name, row)| (name.clone(), Arc::clone(row)))
                .collect()
        };
        let mut servers: Vec<_> = rows
            .into_iter()
            .map(|(name, row)| row.snapshot(name, at))
            .collect();
        servers.sort_unstable_by(|a, b| a.server.cmp(&b.server));
        Snapshot {
            servers,
            saturated: self.saturated.load(Ordering::Relaxed),
            would_saturate: self.would_saturate.load(Ordering::Relaxed),
        }
    }

    /// As [`snapshot`](Self::snapshot), with servers that have no row as well: those given, and
    /// those that are muted.
    pub(crate) fn snapshot_with(
        &self,
        now: Instant,
        servers: impl IntoIterator<Item = ServerName>,
    ) -> Snapshot {
        let mut snapshot = self.snapshot(now);
        let muted = self.muted();
        let known: HashSet<_> = snapshot
            .servers
            .iter()
            .map(|it| it.server.clone())
            .collect();
        let missing: HashSet<_> = servers
            .into_iter()
            .chain(muted.iter().cloned())
            .filter(|server| !known.contains(server))
            .collect();
        let at = self.epoch.moment(now);
        snapshot.servers.extend(missing.into_iter().map(|server| {
            let muted = muted.contains(&server);
            let row = Row::new(&self.settings(&server), Moment::START, muted);
            row.snapshot(server, at)
        }));
        snapshot
            .servers
            .sort_unstable_by(|a, b| a.server.cmp(&b.server));
        snapshot
    }

    /// The row of `server`, made if there is room for it.
    fn row(
        &self,
        table: &mut MutexGuard<'_, Table>,
        server: &ServerName,
        at: Moment,
    ) -> Result<Arc<Row>, Cause> {
        if let Some(row) = table.rows.get(server) {
            return Ok(Arc::clone(row));
        }
        if table.rows.len() >= table.sweep_at.min(self.capacity) {
            self.sweep(table, at);
        }
        let muted = table.muted.contains(server);
        // A muted server is named by the operator, and is told so even where the table is full.
        if table.rows.len() >= self.capacity && !muted {
            let from = self.reclaim_from.load(Ordering::Relaxed);
            let retry_after = (from != u64::MAX)
                .then(|| RetryAfter::from_wait(at.until(Moment::from_nanos(from))));
            return Err(Cause::LimiterSaturated { retry_after });
        }
        // A thread that took its time before a window's end may ask here after the row of that
        // window is gone: counted from its own time, the new window would overlap the old one.
        let row = Arc::new(Row::new(
            &self.settings(server),
            table.reclaimed_until,
            muted,
        ));
        table.rows.insert(server.clone(), Arc::clone(&row));
        Ok(row)
    }

    /// Reclaims the rows that have no session and no open window (D10). Looks at every row, so it
    /// is not done again before one of them can have ended: a refused flood of new servers stays
    /// cheap.
    fn sweep(&self, table: &mut Table, at: Moment) {
        if at.to_nanos() < self.reclaim_from.load(Ordering::Relaxed) {
            return;
        }
        // A session that ends while we look lowers this, and the minimum keeps that.
        self.reclaim_from.store(u64::MAX, Ordering::Relaxed);
        let mut earliest = u64::MAX;
        let mut reclaimed_until = table.reclaimed_until;
        table.rows.retain(|_, row| match row.reclaimable_from() {
            Some(from) if from <= at => {
                reclaimed_until = reclaimed_until.max(from);
                false
            }
            Some(from) => {
                earliest = earliest.min(from.to_nanos());
                true
            }
            None => true,
        });
        self.reclaim_from.fetch_min(earliest, Ordering::Relaxed);
        table.reclaimed_until = reclaimed_until;
        table.sweep_at = FEW_ROWS.max(table.rows.len() * 2);
    }
}

impl Table {
    fn set_muted(&mut self, server: &ServerName, muted: bool) {
        if muted {
            self.muted.insert(server.clone());
        } else {
            self.muted.remove(server);
        }
        if let Some(row) = self.rows.get(server) {
            row.set_muted(muted);
        }
    }
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle")
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}
