//! A configured server's row: its windows and its sessions', under one lock.

use std::sync::Arc;

use slab::Slab;

use super::{
    Ask,
    seen::Seen,
    snapshot::{KindSnapshot, ServerSnapshot, SessionSnapshot, WindowSnapshot},
    windows::Windows,
};
use crate::{
    limits::{ProtoSettings, ServerName, ThrottleMode},
    question::QuestionKind,
    refusal::limit_of,
    sync::{AtomicU32, AtomicU64, Mutex, Ordering},
    window::{FixedWindow, Full, Moment, Owner, WINDOW},
};

/// Everything counted for one configured server.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) windows: Windows,
    pub(super) bounds: Bounds,
    pub(super) mute: Mute,
    pub(super) book: Mutex<Book>,
    /// Its own lock, always taken before the book's.
    pub(super) seen: Mutex<Seen>,
    /// No question counts as asked before this: rows that were reclaimed had windows until then,
    /// and this server's may have been among them (D5).
    since: Moment,
}

/// The limits in force, per kind, for the server and for each session; 0 is off. Written under
/// the book's lock; a refusal reads the number it names without it.
#[derive(Debug)]
pub(super) struct Bounds {
    limits: [[AtomicU32; 2]; 2],
    /// How often they changed. It goes up after the windows that the old limits shut were opened,
    /// and before the new limits are there: a window that is found shut, and a limit that is read
    /// after it, belong together if this is the same before and after both.
    changes: AtomicU32,
}

impl Bounds {
    fn new(settings: &ProtoSettings) -> Self {
        Self {
            limits: QuestionKind::ALL.map(|kind| {
                [Owner::Server, Owner::Session]
                    .map(|owner| AtomicU32::new(limit_in(settings, kind, owner)))
            }),
            changes: AtomicU32::new(0),
        }
    }

    /// How often the limits changed.
    #[inline]
    pub(super) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    /// Whether a window found shut since [`changes`](Self::changes) was asked, and the limit read
    /// after it, belong together.
    #[inline]
    pub(super) fn unchanged_since(&self, changes: u32) -> bool {
        // The reads in between acquire: whichever of them met a change's release sees its count.
        self.changes.load(Ordering::Relaxed) == changes
    }

    pub(super) fn of(&self, kind: QuestionKind, owner: Owner) -> u32 {
        self.limits[kind as usize][owner as usize].load(Ordering::Acquire)
    }

    fn bound(&self, kind: QuestionKind, owner: Owner) -> Option<u32> {
        match self.of(kind, owner) {
            0 => None,
            bound => Some(bound),
        }
    }
}

fn limit_in(settings: &ProtoSettings, kind: QuestionKind, owner: Owner) -> u32 {
    settings
        .window_limit(limit_of(kind, owner))
        .map_or(0, crate::limits::Limit::get)
}

/// Whether the server is muted. Written under the book's lock; a shield reads it without.
#[derive(Debug)]
pub(super) struct Mute {
    on: AtomicU32,
    /// Refused since it was muted last.
    refused: [AtomicU64; 2],
}

impl Mute {
    fn new(on: bool) -> Self {
        Self {
            on: AtomicU32::new(on.into()),
            refused: Default::default(),
        }
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire) != 0
    }

    /// Counts refused questions, and says how many there were before.
    pub(super) fn count_refused(&self, ask: &Ask<'_>) -> u64 {
        let before = QuestionKind::ALL.map(|kind| {
            let questions = u64::from(ask.count(kind));
            self.refused[kind as usize].fetch_add(questions, Ordering::Relaxed)
        });
        before.into_iter().sum()
    }
}

/// What is done with questions, apart from counting them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Those over a limit are refused. Only then are windows ever shut.
    Enforced,
    /// Those over a limit are admitted, and charge nothing.
    Observed,
    /// All are refused.
    Muted,
}

impl Standing {
    const fn new(mode: ThrottleMode, muted: bool) -> Self {
        match (mode, muted) {
            (_, true) => Self::Muted,
            (ThrottleMode::Enforce, _) => Self::Enforced,
            (ThrottleMode::Observe, _) => Self::Observed,
        }
    }

    /// The limit under which a window is shut, so that it refuses without the lock.
    fn shuts(self, limit: Option<u32>) -> Option<u32> {
        limit.filter(|_| self == Self::Enforced)
    }
}

/// What came of asking the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Admitted and charged.
    Admit,
    /// A window lacks room, so it is refused.
    Refuse,
    /// A window lacks room, which is only observed.
    Observe,
    /// The server is muted.
    Mute,
}

/// Questions that would have been refused.
#[derive(Clone, Copy, Debug, Default)]
struct Observed {
    total: u64,
    /// When the first of the last minute came.
    since: Moment,
    in_window: u64,
}

/// What is counted of a server that is, or was, observed or muted.
#[derive(Debug, Default)]
struct Rare {
    /// Would have been refused by the server's and by the sessions' limits.
    observed: [[Observed; 2]; 2],
    /// Refused while it was muted, before it was muted last.
    muted: [u64; 2],
}

/// What the row's lock guards, besides all the windows.
#[derive(Debug)]
pub(super) struct Book {
    mode: ThrottleMode,
    standing: Standing,
    /// Made when it is needed: hardly any server is observed or muted.
    rare: Option<Box<Rare>>,
    /// Since the row was made.
    admitted: [u64; 2],
    /// By the server's and by the sessions' limits, in windows that are over.
    refused: [[u64; 2]; 2],
    sessions: Slab<Place>,
}

/// A session's place in the book.
#[derive(Debug)]
struct Place {
    number: u64,
    windows: Arc<Windows>,
}

/// A window that stands in the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Obstacle {
    pub(super) kind: QuestionKind,
    pub(super) owner: Owner,
    /// The limit.
    pub(super) max: u32,
    /// `None` if the ask can never fit.
    pub(super) ends: Option<Moment>,
}

impl Obstacle {
    /// Whether this one is named rather than `other`, which comes before it in the settings
    /// table: what can never fit wins, then what ends last.
    fn outlasts(&self, other: &Self) -> bool {
        match (self.ends, other.ends) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(mine), Some(others)) => mine > others,
        }
    }
}

impl Row {
    pub(super) fn new(settings: &ProtoSettings, since: Moment, muted: bool) -> Self {
        let mode = settings.throttle_mode;
        Self {
            windows: Windows::default(),
            bounds: Bounds::new(settings),
            mute: Mute::new(muted),
            book: Mutex::new(Book {
                mode,
                standing: Standing::new(mode, muted),
                rare: None,
                admitted: [0; 2],
                refused: [[0; 2]; 2],
                sessions: Slab::new(),
            }),
            seen: Mutex::new(Seen::default()),
            since,
        }
    }

    /// Puts new limits in force. Counts stay; a window that is open goes on as it is (D11).
    pub(super) fn set_bounds(&self, settings: &ProtoSettings) {
        // A poisoned row refuses everything, whatever its limits are (D13).
        let Ok(mut book) = self.book.lock() else {
            return;
        };
        book.mode = settings.throttle_mode;
        self.each_window(&book, |kind, _, windows| {
            windows.set(kind, windows.window(kind), None);
        });
        self.bounds.changes.fetch_add(1, Ordering::Release);
        for kind in QuestionKind::ALL {
            for owner in [Owner::Server, Owner::Session] {
                self.bounds.limits[kind as usize][owner as usize]
                    .store(limit_in(settings, kind, owner), Ordering::Release);
            }
        }
        self.shut_windows(&mut book);
    }

    /// Mutes the server, or lets it ask again. Counts and windows stay.
    pub(super) fn set_muted(&self, muted: bool) {
        // A poisoned row refuses everything as it is (D13).
        let Ok(mut book) = self.book.lock() else {
            return;
        };
        if muted && !self.mute.is_on() {
            let rare = book.rare.get_or_insert_default();
            for kind in QuestionKind::ALL {
                let refused = self.mute.refused[kind as usize].swap(0, Ordering::Relaxed);
                rare.muted[kind as usize] += refused;
            }
        }
        self.mute.on.store(muted.into(), Ordering::Release);
        self.shut_windows(&mut book);
    }

    /// Shuts the windows that are full, if that is to refuse what comes, and opens all others.
    fn shut_windows(&self, book: &mut Book) {
        book.standing = Standing::new(book.mode, self.mute.is_on());
        let standing = book.standing;
        self.each_window(book, |kind, owner, windows| {
            let limit = standing.shuts(self.bounds.bound(kind, owner));
            windows.set(kind, windows.window(kind), limit);
        });
    }

    fn each_window(&self, book: &Book, f: impl Fn(QuestionKind, Owner, &Windows)) {
        for kind in QuestionKind::ALL {
            f(kind, Owner::Server, &self.windows);
            for (_, place) in &book.sessions {
                f(kind, Owner::Session, &place.windows);
            }
        }
    }

    /// Ends a session's windows. Gives back from when the row can be reclaimed, if this was its
    /// last session.
    pub(super) fn end_session(&self, key: usize) -> Option<Moment> {
        // Even a poisoned row lets go of its sessions: nothing is decided by that.
        let mut book = match self.book.lock() {
            Ok(book) => book,
            Err(poisoned) => poisoned.into_inner(),
        };
        let place = book.sessions.try_remove(key)?;
        for kind in QuestionKind::ALL {
            book.refused[kind as usize][Owner::Session as usize] +=
                place.windows.take_refused(kind);
        }
        if !book.sessions.is_empty() {
            return None;
        }
        book.sessions.shrink_to_fit();
        Some(self.all_ended())
    }

    /// From when this row can be reclaimed; `None` while it has a session or is poisoned.
    pub(super) fn reclaimable_from(&self) -> Option<Moment> {
        let book = self.book.lock().ok()?;
        book.sessions.is_empty().then(|| self.all_ended())
    }

    /// When the last of the server's windows ends or has ended. The caller holds the lock.
    fn all_ended(&self) -> Moment {
        QuestionKind::ALL
            .map(|kind| self.windows.window(kind).last_ends())
            .into_iter()
            .fold(Moment::START, Moment::max)
    }

    pub(super) fn snapshot(&self, server: ServerName, at: Moment) -> ServerSnapshot {
        let book = match self.book.lock() {
            Ok(book) => book,
            Err(poisoned) => poisoned.into_inner(),
        };
        let show = |kind, owner, windows: &Windows| {
            let bound = self.bounds.bound(kind, owner);
            WindowSnapshot::new(&windows.window(kind), bound, windows.refused(kind), at)
        };
        let kinds = QuestionKind::ALL.map(|kind| {
            let [server, session] = book.refused[kind as usize];
            let open: u64 = book
                .sessions
                .iter()
                .map(|(_, place)| place.windows.refused(kind))
                .sum();
            let rare = book.rare.as_deref();
            let [observed_server, observed_session] = rare.map_or([0; 2], |rare| {
                rare.observed[kind as usize].map(|it| it.total)
            });
            let muted = rare.map_or(0, |rare| rare.muted[kind as usize]);
            KindSnapshot {
                window: show(kind, Owner::Server, &self.windows),
                admitted: book.admitted[kind as usize],
                would_refuse_by_server_limit: observed_server,
                would_refuse_by_session_limit: observed_session,
                refused_while_muted: muted
                    + self.mute.refused[kind as usize].load(Ordering::Relaxed),
                refused_by_server_limit: server + self.windows.refused(kind),
                refused_by_session_limit: session + open,
            }
        });
        let mut sessions: Vec<_> = book
            .sessions
            .iter()
            .map(|(_, place)| {
                let [sampling, elicitation] =
                    QuestionKind::ALL.map(|kind| show(kind, Owner::Session, &place.windows));
                SessionSnapshot {
                    session: place.number,
                    sampling,
                    elicitation,
                }
            })
            .collect();
        sessions.sort_unstable_by_key(|session| session.session);
        let [sampling, elicitation] = kinds;
        ServerSnapshot {
            server,
            mode: book.mode,
            muted: book.standing == Standing::Muted,
            sampling,
            elicitation,
            sessions,
            usage: None,
        }
    }
}

impl Book {
    pub(super) fn has_sessions(&self) -> bool {
        !self.sessions.is_empty()
    }

    pub(super) fn add_session(&mut self, number: u64, windows: Arc<Windows>) -> usize {
        // A vector that doubles could hold twice what its sessions need.
        if self.sessions.len() == self.sessions.capacity() {
            self.sessions.reserve_exact(1 + self.sessions.len() / 8);
        }
        self.sessions.insert(Place { number, windows })
    }

    /// Admits and charges one question, or charges nothing.
    #[inline]
    pub(super) fn admit_one(
        &mut self,
        at: Moment,
        kind: QuestionKind,
        row: &Row,
        session: &Windows,
    ) -> Decision {
        if self.standing != Standing::Enforced {
            let method = kind.into();
            return self.admit_otherwise(at, &Ask::one(kind, &method), row, session);
        }
        match Charge::new(at, kind, 1, row, session) {
            Some(charge) => {
                self.make(Standing::Enforced, &charge, row, session);
                Decision::Admit
            }
            None => Decision::Refuse,
        }
    }

    /// Admits and charges all of `ask`, or charges nothing.
    pub(super) fn admit_all(
        &mut self,
        at: Moment,
        ask: &Ask<'_>,
        row: &Row,
        session: &Windows,
    ) -> Decision {
        if self.standing != Standing::Enforced {
            return self.admit_otherwise(at, ask, row, session);
        }
        if self.charge_all(Standing::Enforced, at, ask, row, session) {
            Decision::Admit
        } else {
            Decision::Refuse
        }
    }

    /// The decision where limits are not enforced.
    #[cold]
    fn admit_otherwise(
        &mut self,
        at: Moment,
        ask: &Ask<'_>,
        row: &Row,
        session: &Windows,
    ) -> Decision {
        if self.standing == Standing::Muted {
            return Decision::Mute;
        }
        if self.charge_all(Standing::Observed, at, ask, row, session) {
            Decision::Admit
        } else {
            Decision::Observe
        }
    }

    /// Counts questions that a window lacks room for, and says how many there were in the last
    /// minute before.
    pub(super) fn count_observed(
        &mut self,
        at: Moment,
        obstacle: &Obstacle,
        questions: u32,
    ) -> u64 {
        let rare = self.rare.get_or_insert_default();
        let observed = &mut rare.observed[obstacle.kind as usize][obstacle.owner as usize];
        if observed.in_window == 0 || observed.since.until(at) >= WINDOW {
            observed.since = at;
            observed.in_window = 0;
        }
        let before = observed.in_window;
        observed.in_window += u64::from(questions);
        observed.total += u64::from(questions);
        before
    }

    /// Charges all of `ask`, or charges nothing and says `false`.
    #[inline]
    fn charge_all(
        &mut self,
        standing: Standing,
        at: Moment,
        ask: &Ask<'_>,
        row: &Row,
        session: &Windows,
    ) -> bool {
        let mut charges = [None, None];
        for kind in QuestionKind::ALL {
            let asked = ask.count(kind);
            // A kind that is not asked for can be over a lowered limit and is in nobody's way.
            if asked > 0 {
                let Some(charge) = Charge::new(at, kind, asked, row, session) else {
                    return false;
                };
                charges[kind as usize] = Some(charge);
            }
        }
        for charge in charges.iter().flatten() {
            self.make(standing, charge, row, session);
        }
        true
    }

    #[inline]
    fn make(&mut self, standing: Standing, charge: &Charge, row: &Row, session: &Windows) {
        let kind = charge.kind;
        self.admitted[kind as usize] += u64::from(charge.asked);
        let [server, own] = &mut self.refused[kind as usize];
        charge.server.make(standing, kind, &row.windows, server);
        charge.session.make(standing, kind, session, own);
    }
}

/// What a question, or a round's questions of one kind, will have charged.
#[derive(Debug)]
struct Charge {
    kind: QuestionKind,
    asked: u32,
    server: Charged,
    session: Charged,
}

/// One window, charged.
#[derive(Debug)]
enum Charged {
    /// What is admitted while a limit is off is not counted (D11).
    Off,
    Counted {
        before: FixedWindow,
        after: FixedWindow,
        bound: u32,
    },
}

impl Charge {
    /// `None` if a window lacks room.
    #[inline]
    fn new(
        at: Moment,
        kind: QuestionKind,
        asked: u32,
        row: &Row,
        session: &Windows,
    ) -> Option<Self> {
        let charged = |owner, windows: &Windows| {
            let bound = row.bounds.of(kind, owner);
            if bound == 0 {
                return Some(Charged::Off);
            }
            let before = windows.window(kind);
            let after = before.charged_within(at, row.since, bound, asked)?;
            Some(Charged::Counted {
                before,
                after,
                bound,
            })
        };
        Some(Self {
            kind,
            asked,
            server: charged(Owner::Server, &row.windows)?,
            session: charged(Owner::Session, session)?,
        })
    }
}

impl Charged {
    /// Puts the charged window in its place. `refused` takes the refusals of a window that ended.
    #[inline]
    fn make(&self, standing: Standing, kind: QuestionKind, windows: &Windows, refused: &mut u64) {
        let Self::Counted {
            before,
            after,
            bound,
        } = *self
        else {
            return;
        };
        let opens = after.last_ends() != before.last_ends();
        if opens {
            *refused += windows.take_refused(kind);
        }
        // Most questions neither open a window nor take its last room, which is all that is to be
        // seen without the lock.
        if opens || after.is_full(bound) {
            windows.set(kind, after, standing.shuts(Some(bound)));
        } else {
            windows.set_used(kind, after.last_used());
        }
    }
}

/// The limit to name where a window lacks room: there always is one. The caller holds the lock.
#[cold]
pub(super) fn obstacle(
    at: Moment,
    ask: &Ask<'_>,
    row: &Row,
    session: &Windows,
) -> Option<Obstacle> {
    let kinds = QuestionKind::ALL
        .into_iter()
        .filter(|kind| ask.count(*kind) > 0);
    let mut worst: Option<Obstacle> = None;
    for kind in kinds {
        for (owner, windows) in [(Owner::Server, &row.windows), (Owner::Session, session)] {
            let Some(bound) = row.bounds.bound(kind, owner) else {
                continue;
            };
            let Err(Full { ends }) = windows.window(kind).room(at, bound, ask.count(kind)) else {
                continue;
            };
            let obstacle = Obstacle {
                kind,
                owner,
                max: bound,
                ends,
            };
            if worst.is_none_or(|worst| obstacle.outlasts(&worst)) {
                worst = Some(obstacle);
            }
        }
    }
    worst
}
