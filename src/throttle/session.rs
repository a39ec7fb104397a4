//! A session: where one running client asks.

use std::{fmt, sync::Arc, time::Instant};

use super::{Admission, Ask, Entry, TaskInput, TaskUse, Throttle, seat::Seat, windows::Windows};
use crate::{
    limits::{ProtoSettings, ServerName, ThrottleMode},
    question::{Method, QuestionKind},
    refusal::Refusal,
    sync::{AtomicU64, OnceLock, Ordering},
    window::Moment,
};

/// One running client connected to one configured server.
///
/// It takes its place in the server's row with its first question. Dropping it ends its windows
/// and leaves the server's as they are (D2).
pub struct Session {
    pub(super) throttle: Arc<Throttle>,
    pub(super) server: ServerName,
    pub(super) number: u64,
    pub(super) seat: OnceLock<Seat>,
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
        let Some(seat) = self.seat.get() else {
            return self.admit_all(at, ask);
        };
        // Each kind is compiled by itself, so that a refusal finds its windows at fixed places.
        match ask.single() {
            Some(QuestionKind::Sampling) => seat.decide_one(at, QuestionKind::Sampling, ask),
            Some(QuestionKind::Elicitation) => seat.decide_one(at, QuestionKind::Elicitation, ask),
            None => self.admit_all(at, ask),
        }
    }

    /// Admits a round, or a session's first question.
    #[inline(never)]
    fn admit_all(&self, at: Moment, ask: &Ask<'_>) -> Result<Admission, Refusal> {
        if ask.total() == 0 {
            // Not a question, so it makes no row.
            return Ok(Admission::of(0));
        }
        match self.seat(at, ask)? {
            Ok(seat) => seat.admit_all(at, ask),
            Err(full) => Ok(Admission::observed(ask.total(), full)),
        }
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
        if seat.row.mute.is_on() {
            return Some(seat.refuse_muted(&Ask::one(kind, method)));
        }
        seat.refuse_if_full(at, kind, &Ask::one(kind, method))
    }

    /// For how many questions of a kind there is room at any moment, if nobody else asks and no
    /// settings change: a look without clock and lock, which may say too little. None before the
    /// session's first question, since other sessions may have filled the server's window.
    pub(crate) fn room(&self, kind: QuestionKind) -> u32 {
        self.seat.get().map_or(0, |seat| seat.room(kind))
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
        self.look_at_task(now, task, entries, task_use)
            .map_err(|(refusal, _)| refusal)
    }

    /// As [`admit_task`](Self::admit_task), and says of a refusal what it refuses: those that were
    /// not seen before, or all of a muted server's.
    pub(crate) fn look_at_task<'e>(
        &self,
        now: Instant,
        task: &str,
        entries: &'e [Entry],
        task_use: TaskUse,
    ) -> Result<TaskInput<'e>, (Refusal, Ask<'e>)> {
        let at = self.throttle.moment(now);
        if entries.is_empty() {
            return Ok(TaskInput {
                charged: Ask::new(),
                admission: Admission::of(0),
                entries: Vec::new(),
            });
        }
        let all = Entry::ask(entries);
        let taken = task_use == TaskUse::Take;
        let seat = match self.seat(at, &all).map_err(|refusal| (refusal, all))? {
            Ok(seat) => seat,
            // Without a row there is no memory of what was seen.
            Err(full) => {
                return Ok(TaskInput {
                    charged: all,
                    admission: Admission::observed(all.total(), full),
                    entries: if taken {
                        entries.iter().collect()
                    } else {
                        Vec::new()
                    },
                });
            }
        };
        // What was charged before is not shown either.
        if seat.row.mute.is_on() {
            return Err((seat.refuse_muted(&all), all));
        }
        // Held over the decision, so that two polls of one task cannot both find an entry new.
        let seen = seat.row.seen.lock();
        let mut seen = seen.map_err(|_| (Refusal::internal(), all))?;
        let seen = seen.get_or_insert_default();
        let sorted = seen.sort(task, entries);
        let ask = Entry::ask(sorted.fresh.iter().copied());
        let mut would_refuse = None;
        if ask.total() > 0 {
            // The admission of what is taken is made below, of what is charged here or was before.
            let admitted = seat.admit_all(at, &ask);
            would_refuse = admitted.map_err(|refusal| (refusal, ask))?.would_refuse;
        }
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
                would_refuse,
            },
            entries,
        })
    }

    /// Forgets entries of a task that were taken and never answered: whoever shows them again
    /// pays for them again.
    pub fn forget_entries(&self, task: &str, entries: &[Entry]) {
        if let Some(seat) = self.seat.get()
            && let Ok(mut seen) = seat.row.seen.lock()
            && let Some(seen) = &mut *seen
        {
            seen.forget_entries(task, entries);
        }
    }

    /// Forgets a task that has ended.
    pub fn forget_task(&self, task: &str) {
        if let Some(seat) = self.seat.get()
            && let Ok(mut seen) = seat.row.seen.lock()
            && let Some(seen) = &mut *seen
        {
            seen.forget(task);
        }
    }

    /// The session's seat, or why there is none: what would have been a refusal where limits are
    /// only observed.
    fn seat(&self, at: Moment, ask: &Ask<'_>) -> Result<Result<&Seat, Refusal>, Refusal> {
        match self.seat.get() {
            Some(seat) => Ok(Ok(seat)),
            None => self.take_seat(at, ask),
        }
    }

    /// The session's first question.
    #[cold]
    fn take_seat(&self, at: Moment, ask: &Ask<'_>) -> Result<Result<&Seat, Refusal>, Refusal> {
        let throttle = &*self.throttle;
        let mut table = throttle.table.lock().map_err(|_| Refusal::internal())?;
        // Another question of this session may have been first; the table's lock orders them.
        if let Some(seat) = self.seat.get() {
            return Ok(Ok(seat));
        }
        let row = match throttle.row(&mut table, &self.server, at) {
            Ok(row) => row,
            Err(cause) => {
                let refusal = Refusal::new(cause, ask.first_method());
                let questions = u64::from(ask.total());
                let count = |counter: &AtomicU64| {
                    let before = counter.fetch_add(questions, Ordering::Relaxed);
                    refusal.counted(before, ask.total())
                };
                return match self.settings().throttle_mode {
                    ThrottleMode::Enforce => Err(count(&throttle.saturated)),
                    ThrottleMode::Observe => Ok(Err(count(&throttle.would_saturate))),
                };
            }
        };
        let windows = Arc::new(Windows::default());
        let mut book = row.book.lock().map_err(|_| Refusal::internal())?;
        if !book.has_sessions() {
            // It may have been the row to be reclaimed next.
            throttle.reclaim_from.store(0, Ordering::Relaxed);
        }
        let key = book.add_session(self.number, Arc::clone(&windows));
        drop(book);
        Ok(Ok(self.seat.get_or_init(|| Seat { row, windows, key })))
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
