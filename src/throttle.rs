//! Admission: who may ask, decided and charged in one critical section per configured server.
//!
//! It reads no clock and awaits nothing: time is an argument. It never refunds (D3), and it never
//! decides by anything a server says about itself (D2).

mod row;
mod seen;
mod snapshot;
mod windows;

use std::{collections::HashMap, fmt, sync::Arc, time::Instant};

use self::{
    row::{Obstacle, Row, Window, obstacle},
    windows::Windows,
};
pub use self::{
    seen::{Entry, TaskInput, TaskUse},
    snapshot::{KindSnapshot, ServerSnapshot, SessionSnapshot, Snapshot, WindowSnapshot},
};
use crate::{
    limits::{ProtoSettings, ServerName, Settings},
    question::{Method, QuestionKind},
    refusal::{Cause, Refusal, RetryAfter},
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
}

struct Table {
    rows: HashMap<ServerName, Arc<Row>>,
    /// At this many rows, ended ones are looked for.
    sweep_at: usize,
}

/// The settings, with those of each server worked out.
struct InForce {
    proto: Arc<ProtoSettings>,
    servers: HashMap<ServerName, Arc<ProtoSettings>>,
}

impl InForce {
    fn new(settings: &Settings) -> Self {
        Self {
            proto: Arc::new(settings.proto().clone()),
            servers: settings
                .servers()
                .map(|(name, overrides)| (name.clone(), Arc::new(overrides.over(settings.proto()))))
                .collect(),
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
        Self {
            epoch: Epoch::new(now),
            in_force: RwLock::new(Arc::new(InForce::new(&settings.into()))),
            table: Mutex::new(Table {
                rows: HashMap::new(),
                sweep_at: FEW_ROWS,
            }),
            capacity: DEFAULT_CAPACITY,
            next_session: AtomicU64::new(1),
            reclaim_from: AtomicU64::new(0),
            saturated: AtomicU64::new(0),
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
        let in_force = match self.in_force.read() {
            Ok(in_force) => in_force,
            Err(poisoned) => poisoned.into_inner(),
        };
        Arc::clone(in_force.of(server))
    }

    /// Changes the settings (D11): counts stay, and the new limits hold from the next question.
    pub fn update(&self, settings: &Settings) {
        let new = Arc::new(InForce::new(settings));
        // The table is held throughout, so no row is made with the old limits meanwhile.
        let table = match self.table.lock() {
            Ok(table) => table,
            Err(poisoned) => poisoned.into_inner(),
        };
        match self.in_force.write() {
            Ok(mut in_force) => *in_force = Arc::clone(&new),
            Err(poisoned) => *poisoned.into_inner() = Arc::clone(&new),
        }
        for (server, row) in &table.rows {
            row.set_bounds(new.of(server));
        }
    }

    /// Every window and counter at `now`, each server's own consistent in itself.
    #[must_use]
    pub fn snapshot(&self, now: Instant) -> Snapshot {
        let at = self.epoch.moment(now);
        let rows: Vec<_> = {
            let table = match self.table.lock() {
                Ok(table) => table,
                Err(poisoned) => poisoned.into_inner(),
            };
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
        }
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
        if table.rows.len() >= self.capacity {
            let from = self.reclaim_from.load(Ordering::Relaxed);
            let retry_after = (from != u64::MAX)
                .then(|| RetryAfter::from_wait(at.until(Moment::from_nanos(from))));
            return Err(Cause::LimiterSaturated { retry_after });
        }
        let row = Arc::new(Row::new(&self.settings(server)));
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
        table.rows.retain(|_, row| match row.reclaimable_from() {
            Some(from) if from <= at => false,
            Some(from) => {
                earliest = earliest.min(from.to_nanos());
                true
            }
            None => true,
        });
        self.reclaim_from.fetch_min(earliest, Ordering::Relaxed);
        table.sweep_at = FEW_ROWS.max(table.rows.len() * 2);
    }
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle")
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

/// What is asked at once: one question, or all of a round's (D7).
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask<'a> {
    counts: [u32; 2],
    /// The first entry's method of each kind, to be named in a refusal.
    methods: [Option<&'a Method>; 2],
}

impl<'a> Ask<'a> {
    /// Nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            counts: [0; 2],
            methods: [None; 2],
        }
    }

    /// One question.
    #[inline]
    #[must_use]
    pub const fn one(kind: QuestionKind, method: &'a Method) -> Self {
        Self::new().and(kind, method, 1)
    }

    /// Adds `count` questions of a kind. Of several methods, the first one added is named.
    #[inline]
    #[must_use]
    pub const fn and(mut self, kind: QuestionKind, method: &'a Method, count: u32) -> Self {
        let kind = kind as usize;
        if count > 0 {
            self.counts[kind] = self.counts[kind].saturating_add(count);
            if self.methods[kind].is_none() {
                self.methods[kind] = Some(method);
            }
        }
        self
    }

    /// How many questions of a kind.
    #[must_use]
    pub const fn count(&self, kind: QuestionKind) -> u32 {
        self.counts[kind as usize]
    }

    /// How many questions in all.
    #[must_use]
    pub const fn total(&self) -> u32 {
        self.counts[0].saturating_add(self.counts[1])
    }

    /// The kind, if it is a single question.
    #[inline]
    const fn single(&self) -> Option<QuestionKind> {
        match self.counts {
            [1, 0] => Some(QuestionKind::Sampling),
            [0, 1] => Some(QuestionKind::Elicitation),
            _ => None,
        }
    }

    /// The method to name where the limit in the way bounds `kind`, or, for none, any.
    fn method(&self, kind: Option<QuestionKind>) -> Method {
        let first = match kind {
            Some(kind) => self.methods[kind as usize],
            None => self.methods[0].or(self.methods[1]),
        };
        first
            .cloned()
            .unwrap_or_else(|| kind.unwrap_or(QuestionKind::Sampling).into())
    }
}

/// Proof that questions were admitted and charged. Only a throttle makes one.
///
/// Not `Clone`: it is used up by answering. Dropping it refunds nothing (D3).
#[derive(Debug)]
#[must_use = "the questions are charged whether they are answered or not"]
pub struct Admission {
    questions: u32,
}

impl Admission {
    /// How many questions were charged.
    #[must_use]
    pub const fn questions(&self) -> u32 {
        self.questions
    }

    /// One admission for each question of a round.
    pub(crate) fn into_single(self) -> impl Iterator<Item = Self> {
        (0..self.questions).map(|_| Self { questions: 1 })
    }
}

/// One running client connected to one configured server.
///
/// It takes its place in the server's row with its first question. Dropping it ends its windows
/// and leaves the server's as they are (D2).
pub struct Session {
    throttle: Arc<Throttle>,
    server: ServerName,
    number: u64,
    seat: OnceLock<Seat>,
}

/// A session's place in its server's row.
struct Seat {
    row: Arc<Row>,
    windows: Arc<Windows>,
    key: usize,
}

impl Session {
    /// The configured server.
    #[must_use]
    pub const fn server(&self) -> &ServerName {
        &self.server
    }

    /// A number for logs and snapshots, unique within the throttle.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The settings in force for this session's server.
    #[must_use]
    pub fn settings(&self) -> Arc<ProtoSettings> {
        self.throttle.settings(&self.server)
    }

    /// The throttle this is a session of.
    #[must_use]
    pub const fn throttle(&self) -> &Arc<Throttle> {
        &self.throttle
    }

    /// Admits all of `ask` and charges it, or refuses all of it and charges nothing (D4, D7).
    ///
    /// # Errors
    ///
    /// The [`Refusal`], naming the limit in the way whose window ends last.
    pub fn admit(&self, now: Instant, ask: &Ask<'_>) -> Result<Admission, Refusal> {
        self.admit_at(self.throttle.moment(now), ask)
    }

    /// As [`admit`](Self::admit), for callers that have the throttle's
    /// [`moment`](Throttle::moment) already.
    ///
    /// # Errors
    ///
    /// Those of [`admit`](Self::admit).
    pub fn admit_at(&self, at: Moment, ask: &Ask<'_>) -> Result<Admission, Refusal> {
        // A single question cannot ask for more than the limit, so a full window settles it
        // without the lock. That keeps a flood from slowing the sessions it shares the row with.
        if let Some(kind) = ask.single()
            && let Some(seat) = self.seat.get()
        {
            return match seat.full(at, kind) {
                Some(obstacle) => Err(seat.refuse(at, obstacle, ask, 1)),
                None => seat.admit_one(at, kind, ask),
            };
        }
        self.admit_all(at, ask)
    }

    /// Admits a round, or a session's first question.
    #[inline(never)]
    fn admit_all(&self, at: Moment, ask: &Ask<'_>) -> Result<Admission, Refusal> {
        if ask.total() == 0 {
            // Not a question, so it makes no row.
            return Ok(Admission { questions: 0 });
        }
        self.seat(at, ask)?.admit_all(at, ask)
    }

    /// Refuses a question if a window has no room for it, and counts the refusal; charges
    /// nothing and takes no lock.
    ///
    /// For a shield in front of the dispatch (D12): `None` means "ask [`admit`](Self::admit)".
    #[must_use]
    pub fn refuse_early(
        &self,
        now: Instant,
        kind: QuestionKind,
        method: &Method,
    ) -> Option<Refusal> {
        let at = self.throttle.moment(now);
        let seat = self.seat.get()?;
        let obstacle = seat.full(at, kind)?;
        Some(seat.refuse(at, obstacle, &Ask::one(kind, method), 1))
    }

    /// Looks at a task's entries: charges for those that were not seen before, all or none, and
    /// remembers them. Entries that were seen are free.
    ///
    /// # Errors
    ///
    /// The [`Refusal`]; nothing is charged, remembered or taken then.
    pub fn admit_task<'e>(
        &self,
        now: Instant,
        task: &str,
        entries: &'e [Entry],
        task_use: TaskUse,
    ) -> Result<TaskInput<'e>, Refusal> {
        let at = self.throttle.moment(now);
        if entries.is_empty() {
            return Ok(TaskInput {
                charged: Ask::new(),
                admission: Admission { questions: 0 },
                entries: Vec::new(),
            });
        }
        let seat = self.seat(at, &Entry::ask(entries))?;
        // Held over the decision, so that two polls of one task cannot both find an entry new.
        let mut seen = seat.row.seen.lock().map_err(|_| Refusal::internal())?;
        let sorted = seen.sort(task, entries);
        let ask = Entry::ask(sorted.fresh.iter().copied());
        if ask.total() > 0 {
            // The admission of what is taken is made below, of what is charged here or was before.
            drop(seat.admit_all(at, &ask)?);
        }
        let taken = task_use == TaskUse::Take;
        seen.remember(task, &sorted, taken);
        let mut entries = Vec::new();
        if taken {
            entries.extend(sorted.fresh);
            entries.extend(sorted.waiting);
        }
        Ok(TaskInput {
            charged: ask,
            admission: Admission {
                questions: u32::try_from(entries.len()).unwrap_or(u32::MAX),
            },
            entries,
        })
    }

    /// Forgets entries of a task that were taken and never answered: whoever shows them again
    /// pays for them again.
    pub fn forget_entries(&self, task: &str, entries: &[Entry]) {
        if let Some(seat) = self.seat.get()
            && let Ok(mut seen) = seat.row.seen.lock()
        {
            seen.forget_entries(task, entries);
        }
    }

    /// Forgets a task that has ended.
    pub fn forget_task(&self, task: &str) {
        if let Some(seat) = self.seat.get()
            && let Ok(mut seen) = seat.row.seen.lock()
        {
            seen.forget(task);
        }
    }

    fn seat(&self, at: Moment, ask: &Ask<'_>) -> Result<&Seat, Refusal> {
        match self.seat.get() {
            Some(seat) => Ok(seat),
            None => self.take_seat(at, ask),
        }
    }

    /// The session's first question.
    #[cold]
    fn take_seat(&self, at: Moment, ask: &Ask<'_>) -> Result<&Seat, Refusal> {
        let throttle = &*self.throttle;
        let mut table = throttle.table.lock().map_err(|_| Refusal::internal())?;
        // Another question of this session may have been first; the table's lock orders them.
        if let Some(seat) = self.seat.get() {
            return Ok(seat);
        }
        let row = throttle
            .row(&mut table, &self.server, at)
            .map_err(|cause| {
                let questions = u64::from(ask.total());
                let before = throttle.saturated.fetch_add(questions, Ordering::Relaxed);
                Refusal::new(cause, ask.method(None)).counted(before, ask.total())
            })?;
        let windows = Arc::new(Windows::default());
        let mut book = row.book.lock().map_err(|_| Refusal::internal())?;
        if !book.has_sessions() {
            // It may have been the row to be reclaimed next.
            throttle.reclaim_from.store(0, Ordering::Relaxed);
        }
        let key = book.add_session(self.number, Arc::clone(&windows));
        drop(book);
        Ok(self.seat.get_or_init(|| Seat { row, windows, key }))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.get()
            && let Some(from) = seat.row.end_session(seat.key)
        {
            self.throttle
                .reclaim_from
                .fetch_min(from.to_nanos(), Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("server", &self.server)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Seat {
    #[inline(never)] // The refusals before it need none of its registers.
    fn admit_one(
        &self,
        at: Moment,
        kind: QuestionKind,
        ask: &Ask<'_>,
    ) -> Result<Admission, Refusal> {
        let Ok(mut book) = self.row.book.lock() else {
            return Err(Refusal::internal());
        };
        if book.admit_one(at, kind, &self.row, &self.windows) {
            return Ok(Admission { questions: 1 });
        }
        Err(self.refuse_under_lock(at, ask))
    }

    fn admit_all(&self, at: Moment, ask: &Ask<'_>) -> Result<Admission, Refusal> {
        let Ok(mut book) = self.row.book.lock() else {
            return Err(Refusal::internal());
        };
        if book.admit_all(at, ask, &self.row, &self.windows) {
            return Ok(Admission {
                questions: ask.total(),
            });
        }
        Err(self.refuse_under_lock(at, ask))
    }

    /// The refusal where a window lacks room, while the book is held.
    #[cold]
    fn refuse_under_lock(&self, at: Moment, ask: &Ask<'_>) -> Refusal {
        match obstacle(at, ask, &self.row, &self.windows) {
            Some(obstacle) => self.refuse(at, obstacle, ask, ask.total()),
            // A state that cannot be (D13).
            None => Refusal::internal(),
        }
    }

    /// The window that is full, if one is. Takes no lock.
    #[inline]
    fn full(&self, at: Moment, kind: QuestionKind) -> Option<Obstacle> {
        let server = self.row.windows.shut(kind);
        let session = self.windows.shut(kind);
        // The one that ends last, on a tie the server's.
        let (scope, shut) = if session > server {
            (Window::Session, session)
        } else {
            (Window::Server, server)
        };
        let ends = shut.until(at)?;
        let max = self.row.bounds.of(kind, scope);
        // A change of settings opens the windows before it sets the limits. If that happened
        // between the two looks, the number may belong to another verdict: the lock decides.
        (self.windows(scope).shut(kind) == shut).then_some(Obstacle {
            kind,
            scope,
            max,
            ends: Some(ends),
        })
    }

    /// Counts refused questions at the window that is in the way.
    #[inline]
    fn refuse(&self, at: Moment, obstacle: Obstacle, ask: &Ask<'_>, questions: u32) -> Refusal {
        let before = self
            .windows(obstacle.scope)
            .count_refused(obstacle.kind, questions);
        let cause = Cause::LimitExceeded {
            limit: obstacle.limit(),
            max: obstacle.max,
            retry_after: obstacle
                .ends
                .map(|ends| RetryAfter::from_nanos(ends.to_nanos().saturating_sub(at.to_nanos()))),
        };
        Refusal::new(cause, ask.method(Some(obstacle.kind))).counted(before, questions)
    }

    fn windows(&self, scope: Window) -> &Windows {
        match scope {
            Window::Server => &self.row.windows,
            Window::Session => &self.windows,
        }
    }
}
