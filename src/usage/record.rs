//! One server's record.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{
    ANSWER_TIMES, Asked, Ending, Endings, HISTORY_STEP, HISTORY_STEPS, HistoryStep, KEPT, Usage,
    UsageCount, Use,
};
use crate::{
    arrival::{Arrival, Origin, Outcome},
    clock,
    limits::LimitName,
    question::QuestionKind,
    refusal::{Cause, Refusal},
};

/// What came of a question, in one small number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reason(u8);

impl Reason {
    const ADMITTED: Self = Self(0);
    const SATURATED: u8 = 1;
    const MUTED: u8 = 2;
    const INTERNAL: u8 = 3;
    const LIMITS: u8 = 4;
    /// The causes so far.
    const CAUSES: u8 = Self::LIMITS + LimitName::WINDOWS.len() as u8;
    /// How many there are: each cause again, where it was only observed.
    const COUNT: usize = 2 * Self::CAUSES as usize;

    /// `None` for what ends a call or a question that was admitted before.
    fn of(refusal: &Refusal, observed: bool) -> Option<Self> {
        let cause = match refusal.cause() {
            Cause::LimitExceeded { limit, .. } => {
                let at = LimitName::WINDOWS.iter().position(|name| *name == limit)?;
                Self::LIMITS + u8::try_from(at).ok()?
            }
            Cause::LimiterSaturated { .. } => Self::SATURATED,
            Cause::ServerMuted => Self::MUTED,
            Cause::Internal => Self::INTERNAL,
            Cause::RoundsExceeded { .. } | Cause::QuestionExpired { .. } => return None,
        };
        Some(Self(cause + Self::CAUSES * u8::from(observed)))
    }

    const fn outcome(self) -> Outcome {
        match self.0 {
            0 => Outcome::Admitted,
            Self::CAUSES.. => Outcome::WouldRefuse,
            _ => Outcome::Refused,
        }
    }

    const fn cause(self) -> Option<&'static str> {
        match self.0 % Self::CAUSES {
            0 => None,
            Self::SATURATED => Some("limiter_saturated"),
            Self::MUTED => Some("server_muted"),
            Self::INTERNAL => Some("internal"),
            _ => Some("limit_exceeded"),
        }
    }

    fn limit(self) -> Option<LimitName> {
        let at = (self.0 % Self::CAUSES).checked_sub(Self::LIMITS)?;
        LimitName::WINDOWS.get(usize::from(at)).copied()
    }
}

/// What one server has asked.
#[derive(Debug)]
pub(crate) struct Record(Mutex<Book>);

#[derive(Debug)]
struct Book {
    began: Instant,
    counts: [[[u64; Reason::COUNT]; 3]; 2],
    endings: [Counted; 2],
    rounds_exceeded: u64,
    recent: VecDeque<Entry>,
    /// The number of the oldest entry that is kept.
    first: u64,
    history: VecDeque<[Asked; 2]>,
    /// The step of the last entry of the history, counted from the beginning.
    step: u64,
    /// When that step ends; at the beginning there is none.
    step_ends: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Instant,
    took: Duration,
    session: u64,
    questions: u32,
    open: u32,
    kind: QuestionKind,
    arrival: Arrival,
    reason: Reason,
    ending: Option<Ending>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    open: u64,
    expired: u64,
    cancelled: u64,
    answer_times: [u64; ANSWER_TIMES.len() + 1],
    answer_time: Duration,
}

/// Where a verdict's entries are, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Noted([Option<u64>; 2]);

impl Record {
    pub(super) fn new() -> Self {
        let began = clock::now();
        Self(Mutex::new(Book {
            began,
            step_ends: began,
            counts: [[[0; Reason::COUNT]; 3]; 2],
            endings: Default::default(),
            rounds_exceeded: 0,
            recent: VecDeque::new(),
            first: 0,
            history: VecDeque::new(),
            step: 0,
        }))
    }

    /// Notes a verdict on so many questions of each kind.
    pub(crate) fn note(
        &self,
        session: u64,
        arrival: Arrival,
        asked: [u32; 2],
        refusal: Option<(&Refusal, bool)>,
    ) -> Noted {
        let reason = match refusal {
            None => Reason::ADMITTED,
            Some((refusal, observed)) => match Reason::of(refusal, observed) {
                Some(reason) => reason,
                None => {
                    if matches!(refusal.cause(), Cause::RoundsExceeded { .. }) {
                        self.book().rounds_exceeded += 1;
                    }
                    return Noted::default();
                }
            },
        };
        let at = clock::now();
        let mut book = self.book();
        let mut noted = Noted::default();
        for kind in QuestionKind::ALL {
            let questions = asked[kind as usize];
            if questions > 0 {
                let entry = Entry {
                    at,
                    took: Duration::ZERO,
                    session,
                    questions,
                    open: 0,
                    kind,
                    arrival,
                    reason,
                    ending: None,
                };
                noted.0[kind as usize] = Some(book.push(entry));
            }
        }
        noted
    }

    /// An admitted question is asked now.
    pub(crate) fn open(self: &Arc<Self>, kind: QuestionKind, noted: Noted) -> OpenQuestion {
        let mut book = self.book();
        book.endings[kind as usize].open += 1;
        let number = noted.0[kind as usize];
        if let Some(entry) = number.and_then(|number| book.entry(number)) {
            entry.open += 1;
        }
        drop(book);
        OpenQuestion {
            record: Arc::clone(self),
            kind,
            number,
            since: clock::now(),
            ending: Some(Ending::Cancelled),
        }
    }

    pub(super) fn show(&self) -> Usage {
        let now = clock::now();
        let mut book = self.book();
        book.advance(now);
        let [sampling, elicitation] = book.endings.each_ref().map(Counted::show);
        Usage {
            counts: book.show_counts(),
            sampling,
            elicitation,
            rounds_exceeded: book.rounds_exceeded,
            recent: book.recent.iter().rev().map(|it| it.show(now)).collect(),
            history: book
                .history
                .iter()
                .map(|[sampling, elicitation]| HistoryStep {
                    sampling: *sampling,
                    elicitation: *elicitation,
                })
                .collect(),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Numbers for people, which no decision rests on: a panic does not end them.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn push(&mut self, entry: Entry) -> u64 {
        let (kind, questions) = (entry.kind as usize, entry.questions);
        let origin = Origin::ALL
            .iter()
            .position(|origin| *origin == entry.arrival.origin)
            .unwrap_or_default();
        self.counts[kind][origin][usize::from(entry.reason.0)] += u64::from(questions);
        self.advance(entry.at);
        if let Some(step) = self.history.back_mut() {
            let asked = &mut step[kind];
            let count = match entry.reason.outcome() {
                Outcome::Admitted => &mut asked.admitted,
                Outcome::WouldRefuse => &mut asked.would_refuse,
                Outcome::Refused => &mut asked.refused,
            };
            *count = count.saturating_add(questions);
        }
        if self.recent.len() == KEPT {
            self.recent.pop_front();
            self.first += 1;
        }
        self.recent.push_back(entry);
        self.first + self.recent.len() as u64 - 1
    }

    /// An entry, unless newer ones have taken its place.
    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        let at = number.checked_sub(self.first)?;
        self.recent.get_mut(usize::try_from(at).ok()?)
    }

    /// Brings the history up to `now`.
    fn advance(&mut self, now: Instant) {
        if now < self.step_ends {
            return;
        }
        let since = now.saturating_duration_since(self.began);
        let step = (since.as_secs() / HISTORY_STEP.as_secs()).max(self.step);
        let missing = step - self.step + u64::from(self.history.is_empty());
        for _ in 0..missing.min(HISTORY_STEPS as u64) {
            if self.history.len() == HISTORY_STEPS {
                self.history.pop_front();
            }
            self.history.push_back(Default::default());
        }
        self.step = step;
        let ended = HISTORY_STEP.saturating_mul(u32::try_from(step + 1).unwrap_or(u32::MAX));
        self.step_ends = self.began + ended;
    }

    fn show_counts(&self) -> Vec<UsageCount> {
        let mut shown = Vec::new();
        for kind in QuestionKind::ALL {
            for (origin, counts) in Origin::ALL.into_iter().zip(&self.counts[kind as usize]) {
                let reasons = (0..).map(Reason).zip(counts);
                shown.extend(reasons.filter(|(_, questions)| **questions > 0).map(
                    |(reason, questions)| UsageCount {
                        kind,
                        origin,
                        verdict: reason.outcome(),
                        cause: reason.cause(),
                        limit: reason.limit(),
                        questions: *questions,
                    },
                ));
            }
        }
        shown
    }
}

impl Entry {
    fn show(&self, now: Instant) -> Use {
        let is_over = self.open == 0;
        Use {
            ago_ms: millis(now.saturating_duration_since(self.at)),
            session: self.session,
            kind: self.kind,
            questions: self.questions,
            door: self.arrival.door,
            origin: self.arrival.origin,
            verdict: self.reason.outcome(),
            cause: self.reason.cause(),
            limit: self.reason.limit(),
            ending: self.ending.filter(|_| is_over),
            took_ms: self.ending.filter(|_| is_over).map(|_| millis(self.took)),
        }
    }
}

impl Counted {
    fn show(&self) -> Endings {
        Endings {
            open: self.open,
            answered: self.answer_times.iter().sum(),
            expired: self.expired,
            cancelled: self.cancelled,
            answer_times: self.answer_times.to_vec(),
            answer_seconds: self.answer_time.as_secs_f64(),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// An admitted question that has no answer yet. Dropped without one, it counts as cancelled.
#[derive(Debug)]
pub(crate) struct OpenQuestion {
    record: Arc<Record>,
    kind: QuestionKind,
    number: Option<u64>,
    since: Instant,
    ending: Option<Ending>,
}

impl OpenQuestion {
    /// It was answered, by whatever answer or error.
    pub(crate) fn answered(mut self) {
        self.ending = Some(Ending::Answered);
    }

    /// How it ends will not be known.
    #[cfg(any(feature = "command", feature = "serve"))]
    pub(crate) fn unwatched(mut self) {
        self.ending = None;
    }

    /// Nobody answered in time.
    pub(crate) fn expired(mut self) {
        self.ending = Some(Ending::Expired);
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let took = clock::now().saturating_duration_since(self.since);
        let mut book = self.record.book();
        let counted = &mut book.endings[self.kind as usize];
        counted.open -= 1;
        match self.ending {
            Some(Ending::Answered) => {
                let seconds = took.as_secs_f64();
                let bucket = ANSWER_TIMES.partition_point(|bound| *bound < seconds);
                counted.answer_times[bucket] += 1;
                counted.answer_time += took;
            }
            Some(Ending::Expired) => counted.expired += 1,
            Some(Ending::Cancelled) => counted.cancelled += 1,
            None => {}
        }
        if let Some(entry) = self.number.and_then(|number| book.entry(number)) {
            entry.open -= 1;
            entry.took = took;
            entry.ending = self.ending;
        }
    }
}
