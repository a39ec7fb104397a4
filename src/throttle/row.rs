//! A configured server's row: its windows and its sessions', under one lock.

use std::sync::Arc;

use slab::Slab;

use super::{
    Ask,
    gate::{Gate, Gates},
    seen::Seen,
    snapshot::{KindSnapshot, ServerSnapshot, SessionSnapshot, WindowSnapshot},
};
use crate::{
    limits::{LimitName, ProtoSettings, ServerName},
    question::QuestionKind,
    sync::{AtomicU32, Mutex, Ordering},
    window::{FixedWindow, Full, Moment},
};

/// Everything counted for one configured server.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) gates: Gates,
    pub(super) bounds: Bounds,
    pub(super) book: Mutex<Book>,
    /// Its own lock, always taken before the book's.
    pub(super) seen: Mutex<Seen>,
}

/// Whose window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    Server,
    Session,
}

/// The limits in force, per kind, for the server and for each session; 0 is off. Written under
/// the book's lock while every gate is open; a refusal reads the number it names without it.
#[derive(Debug)]
pub(super) struct Bounds([[AtomicU32; 2]; 2]);

impl Bounds {
    fn new(settings: &ProtoSettings) -> Self {
        Self(QuestionKind::ALL.map(|kind| {
            [Window::Server, Window::Session]
                .map(|scope| AtomicU32::new(limit_in(settings, kind, scope)))
        }))
    }

    pub(super) fn of(&self, kind: QuestionKind, scope: Window) -> u32 {
        self.0[kind as usize][scope as usize].load(Ordering::Acquire)
    }

    fn bound(&self, kind: QuestionKind, scope: Window) -> Option<u32> {
        match self.of(kind, scope) {
            0 => None,
            bound => Some(bound),
        }
    }
}

fn limit_in(settings: &ProtoSettings, kind: QuestionKind, scope: Window) -> u32 {
    settings
        .window_limit(limit_name(kind, scope))
        .map_or(0, crate::limits::Limit::get)
}

const fn limit_name(kind: QuestionKind, scope: Window) -> LimitName {
    match scope {
        Window::Server => LimitName::per_server(kind),
        Window::Session => LimitName::per_session(kind),
    }
}

/// What the row's lock guards.
#[derive(Debug)]
pub(super) struct Book {
    windows: [FixedWindow; 2],
    /// Since the row was made.
    admitted: [u64; 2],
    /// By the server's and by the sessions' limits, in windows that are over.
    refused: [[u64; 2]; 2],
    sessions: Slab<Place>,
}

/// A session's place in the book.
#[derive(Debug)]
struct Place {
    windows: [FixedWindow; 2],
    gates: Arc<Gates>,
}

/// A window that stands in the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Obstacle {
    pub(super) kind: QuestionKind,
    pub(super) scope: Window,
    /// The limit.
    pub(super) max: u32,
    /// `None` if the ask can never fit.
    pub(super) ends: Option<Moment>,
}

impl Obstacle {
    pub(super) const fn limit(&self) -> LimitName {
        limit_name(self.kind, self.scope)
    }

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
    pub(super) fn new(settings: &ProtoSettings) -> Self {
        Self {
            gates: Gates::new(0),
            bounds: Bounds::new(settings),
            book: Mutex::new(Book {
                windows: Default::default(),
                admitted: [0; 2],
                refused: [[0; 2]; 2],
                sessions: Slab::new(),
            }),
            seen: Mutex::new(Seen::default()),
        }
    }

    /// Puts new limits in force. Counts stay; a window that is open goes on as it is (D11).
    pub(super) fn set_bounds(&self, settings: &ProtoSettings) {
        // A poisoned row refuses everything, whatever its limits are (D13).
        let Ok(book) = self.book.lock() else { return };
        // Opened first: a refusal that finds a gate shut on both sides of reading the limit knows
        // that this limit shut it.
        self.each_gate(&book, |_, _, _, gate| gate.set_full_until(Moment::START));
        for kind in QuestionKind::ALL {
            for scope in [Window::Server, Window::Session] {
                self.bounds.0[kind as usize][scope as usize]
                    .store(limit_in(settings, kind, scope), Ordering::Release);
            }
        }
        self.each_gate(&book, |kind, scope, window, gate| {
            if let Some(bound) = self.bounds.bound(kind, scope) {
                gate.set_full_until(window.full_until(bound));
            }
        });
    }

    fn each_gate(&self, book: &Book, mut f: impl FnMut(QuestionKind, Window, &FixedWindow, &Gate)) {
        for kind in QuestionKind::ALL {
            let index = kind as usize;
            f(
                kind,
                Window::Server,
                &book.windows[index],
                self.gates.of(kind),
            );
            for (_, place) in &book.sessions {
                f(
                    kind,
                    Window::Session,
                    &place.windows[index],
                    place.gates.of(kind),
                );
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
            book.refused[kind as usize][Window::Session as usize] +=
                place.gates.of(kind).take_refused();
        }
        if !book.sessions.is_empty() {
            return None;
        }
        book.sessions.shrink_to_fit();
        Some(book.all_ended())
    }

    /// From when this row can be reclaimed; `None` while it has a session or is poisoned.
    pub(super) fn reclaimable_from(&self) -> Option<Moment> {
        let book = self.book.lock().ok()?;
        book.sessions.is_empty().then(|| book.all_ended())
    }

    pub(super) fn snapshot(&self, server: ServerName, at: Moment) -> ServerSnapshot {
        let book = match self.book.lock() {
            Ok(book) => book,
            Err(poisoned) => poisoned.into_inner(),
        };
        let window = |kind: QuestionKind, scope, window: &FixedWindow, gate: &Gate| {
            WindowSnapshot::new(window, self.bounds.bound(kind, scope), gate.refused(), at)
        };
        let kinds = QuestionKind::ALL.map(|kind| {
            let index = kind as usize;
            let [server, session] = book.refused[index];
            let open: u64 = book
                .sessions
                .iter()
                .map(|(_, place)| place.gates.of(kind).refused())
                .sum();
            KindSnapshot {
                window: window(
                    kind,
                    Window::Server,
                    &book.windows[index],
                    self.gates.of(kind),
                ),
                admitted: book.admitted[index],
                refused_by_server_limit: server + self.gates.of(kind).refused(),
                refused_by_session_limit: session + open,
            }
        });
        let mut sessions: Vec<_> = book
            .sessions
            .iter()
            .map(|(_, place)| {
                let [sampling, elicitation] = QuestionKind::ALL.map(|kind| {
                    window(
                        kind,
                        Window::Session,
                        &place.windows[kind as usize],
                        place.gates.of(kind),
                    )
                });
                SessionSnapshot {
                    session: place.gates.session(),
                    sampling,
                    elicitation,
                }
            })
            .collect();
        sessions.sort_unstable_by_key(|session| session.session);
        let [sampling, elicitation] = kinds;
        ServerSnapshot {
            server,
            sampling,
            elicitation,
            sessions,
        }
    }
}

impl Book {
    /// When the last of the server's windows ends or has ended.
    fn all_ended(&self) -> Moment {
        // At the beginning of time every window that was ever opened is open.
        self.windows
            .iter()
            .filter_map(|window| window.ends(Moment::START))
            .max()
            .unwrap_or(Moment::START)
    }

    pub(super) fn has_sessions(&self) -> bool {
        !self.sessions.is_empty()
    }

    pub(super) fn add_session(&mut self, gates: Arc<Gates>) -> usize {
        // A vector that doubles could hold twice what its sessions need.
        if self.sessions.len() == self.sessions.capacity() {
            self.sessions.reserve_exact(1 + self.sessions.len() / 4);
        }
        self.sessions.insert(Place {
            windows: Default::default(),
            gates,
        })
    }

    /// Admits and charges all of `ask`, or charges nothing and gives back the limit to name.
    pub(super) fn admit(
        &mut self,
        at: Moment,
        ask: &Ask<'_>,
        session: usize,
        row: &Row,
    ) -> Result<(), Denied> {
        let place = self
            .sessions
            .get_mut(session)
            .ok_or(Denied::NoSuchSession)?;
        if let Some(obstacle) = obstacle(at, ask, &self.windows, &place.windows, &row.bounds) {
            return Err(Denied::By(obstacle));
        }
        for kind in QuestionKind::ALL {
            let asked = ask.count(kind);
            if asked == 0 {
                continue;
            }
            let index = kind as usize;
            self.admitted[index] += u64::from(asked);
            for (scope, window, gate) in [
                (Window::Server, &mut self.windows[index], row.gates.of(kind)),
                (
                    Window::Session,
                    &mut place.windows[index],
                    place.gates.of(kind),
                ),
            ] {
                // What is admitted while a limit is off is not counted (D11).
                let Some(bound) = row.bounds.bound(kind, scope) else {
                    continue;
                };
                if window.ends(at).is_none() {
                    self.refused[index][scope as usize] += gate.take_refused();
                }
                window.charge(at, asked);
                gate.set_full_until(window.full_until(bound));
            }
        }
        Ok(())
    }
}

/// Why a book charged nothing.
#[derive(Debug)]
pub(super) enum Denied {
    By(Obstacle),
    /// A state that cannot be (D13): sessions hold on to their places.
    NoSuchSession,
}

/// The limit to name if any of the windows concerned lacks room.
fn obstacle(
    at: Moment,
    ask: &Ask<'_>,
    server: &[FixedWindow; 2],
    session: &[FixedWindow; 2],
    bounds: &Bounds,
) -> Option<Obstacle> {
    let mut worst: Option<Obstacle> = None;
    for kind in QuestionKind::ALL {
        let asked = ask.count(kind);
        if asked == 0 {
            continue;
        }
        let index = kind as usize;
        for (scope, window) in [
            (Window::Server, &server[index]),
            (Window::Session, &session[index]),
        ] {
            let Some(bound) = bounds.bound(kind, scope) else {
                continue;
            };
            let Err(Full { ends }) = window.room(at, bound, asked) else {
                continue;
            };
            let obstacle = Obstacle {
                kind,
                scope,
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
