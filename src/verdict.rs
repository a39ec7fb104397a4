//! Telling the operator: one `tracing` event per verdict, and the embedder's observer.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Instant,
};

use tracing::level_filters::LevelFilter;

use crate::{
    arrival::{Arrival, Door, Origin, Outcome},
    limits::ServerName,
    question::QuestionKind,
    refusal::{Cause, Refusal},
    throttle::{Ask, Session},
    usage::{Noted, OpenQuestion, Record, Recorder},
    window::WINDOW,
};

/// One decision of the throttle, for an observer.
///
/// It holds names from the settings and numbers of ours, and nothing that a server wrote.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Verdict<'a> {
    /// The configured server that asked.
    pub server: &'a ServerName,
    /// The session's number within the throttle.
    pub session: u64,
    /// How the question arrived.
    pub door: Door,
    /// Whether it belongs to a call that the user made.
    pub origin: Origin,
    /// How many sampling questions were asked at once.
    pub sampling: u32,
    /// How many elicitation questions were asked at once.
    pub elicitation: u32,
    /// Why they were refused; `None` if they were admitted.
    pub refusal: Option<&'a Refusal>,
    /// Why they would have been refused, were the limits of this server enforced; see
    /// [`ThrottleMode`](crate::limits::ThrottleMode).
    pub would_refuse: Option<&'a Refusal>,
}

impl Verdict<'_> {
    /// What came of the question.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match (self.refusal, self.would_refuse) {
            (Some(_), _) => Outcome::Refused,
            (None, Some(_)) => Outcome::WouldRefuse,
            (None, None) => Outcome::Admitted,
        }
    }
}

/// What was decided, to be told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told<'a> {
    Admitted,
    WouldRefuse(&'a Refusal),
    Refused(&'a Refusal),
}

impl<'a> Told<'a> {
    pub(crate) fn admitted(would_refuse: Option<&'a Refusal>) -> Self {
        would_refuse.map_or(Self::Admitted, Self::WouldRefuse)
    }

    const fn refusal(self) -> Option<&'a Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    const fn would_refuse(self) -> Option<&'a Refusal> {
        match self {
            Self::WouldRefuse(refusal) => Some(refusal),
            _ => None,
        }
    }
}

/// What an embedder does with a verdict.
type Observer = dyn Fn(&Verdict<'_>) + Send + Sync;

/// Tells of verdicts, outside of every lock.
#[derive(Clone, Default)]
pub(crate) struct Reporter {
    observer: Option<Arc<Observer>>,
    recorder: Option<Arc<Recorder>>,
    /// The record of the server that this reporter is of, from its first question on.
    record: Arc<OnceLock<Option<Arc<Record>>>>,
}

impl Reporter {
    /// Records verdicts as well.
    pub(crate) fn recording(recorder: Arc<Recorder>) -> Self {
        Self {
            recorder: Some(recorder),
            ..Self::default()
        }
    }

    /// Calls `observer`, and not the one before.
    pub(crate) fn observed(
        mut self,
        observer: impl Fn(&Verdict<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// The same for a session of its own.
    pub(crate) fn for_session(&self) -> Self {
        Self {
            record: Arc::default(),
            ..self.clone()
        }
    }

    /// Whether anybody would hear of a verdict.
    #[inline]
    pub(crate) fn is_heard(&self) -> bool {
        self.observer.is_some()
            || self.recorder.is_some()
            || LevelFilter::current() != LevelFilter::OFF
    }

    /// Tells of a verdict, and gives back where it was noted.
    #[inline]
    pub(crate) fn report(
        &self,
        session: &Session,
        arrival: Arrival,
        ask: &Ask<'_>,
        told: Told<'_>,
    ) -> Noted {
        if self.is_heard() {
            self.tell(session, arrival, ask, told)
        } else {
            Noted::default()
        }
    }

    fn tell(&self, session: &Session, arrival: Arrival, ask: &Ask<'_>, told: Told<'_>) -> Noted {
        let verdict = Verdict {
            server: session.server(),
            session: session.number(),
            door: arrival.door,
            origin: arrival.origin,
            sampling: ask.count(QuestionKind::Sampling),
            elicitation: ask.count(QuestionKind::Elicitation),
            refusal: told.refusal(),
            would_refuse: told.would_refuse(),
        };
        // A sink that panics changes no verdict (D13). The panic hook has shown the panic; there
        // is nothing to add, and nobody to tell.
        let _logged = catch_unwind(|| log(&verdict));
        if let Some(observer) = &self.observer {
            let _observed = catch_unwind(AssertUnwindSafe(|| observer(&verdict)));
        }
        match self.record(session.server()) {
            Some(record) => {
                let refusal = match told {
                    Told::Admitted => None,
                    Told::WouldRefuse(refusal) => Some((refusal, true)),
                    Told::Refused(refusal) => Some((refusal, false)),
                };
                let asked = QuestionKind::ALL.map(|kind| ask.count(kind));
                record.note(session.number(), arrival, asked, refusal)
            }
            None => Noted::default(),
        }
    }

    /// Notes that a question is asked, which was admitted where `noted` says.
    pub(crate) fn open(
        &self,
        session: &Session,
        kind: QuestionKind,
        noted: Noted,
    ) -> Option<OpenQuestion> {
        Some(self.record(session.server())?.open(kind, noted))
    }

    fn record(&self, server: &ServerName) -> Option<&Arc<Record>> {
        let recorder = self.recorder.as_ref()?;
        self.record.get_or_init(|| recorder.record(server)).as_ref()
    }
}

/// Counts the refusals that no window of the throttle counts, so that they cannot flood a log
/// either: expired questions, calls with too many rounds, failures of our own.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<[Count; 3]>);

/// Refusals of one cause in the window that began with the first of them.
#[derive(Debug, Default)]
struct Count {
    opened: Option<Instant>,
    refused: u64,
}

impl Tally {
    /// Counts `refusal` at `now`, and says in it how many came before it. One that a window of the
    /// throttle has counted is left as it is.
    pub(crate) fn count(&self, now: Instant, refusal: Refusal) -> Refusal {
        let index = match refusal.cause() {
            Cause::RoundsExceeded { .. } => 0,
            Cause::QuestionExpired { .. } => 1,
            Cause::Internal => 2,
            Cause::LimitExceeded { .. } | Cause::LimiterSaturated { .. } | Cause::ServerMuted => {
                return refusal;
            }
        };
        // Numbers alone are guarded, so they are sound even after a panic.
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = &mut counts[index];
        match count.opened {
            Some(opened) if now.saturating_duration_since(opened) < WINDOW => {}
            _ => {
                *count = Count {
                    opened: Some(now),
                    refused: 0,
                }
            }
        }
        let questions = refusal.questions();
        let before = count.refused;
        count.refused += u64::from(questions);
        refusal.counted(before, questions)
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter")
            .field("observed", &self.observer.is_some())
            .finish()
    }
}

fn log(verdict: &Verdict<'_>) {
    let Some(refusal) = verdict.refusal.or(verdict.would_refuse) else {
        tracing::debug!(
            server = verdict.server.as_str(),
            session = verdict.session,
            door = verdict.door.as_str(),
            origin = verdict.origin.as_str(),
            sampling = verdict.sampling,
            elicitation = verdict.elicitation,
            "question admitted"
        );
        return;
    };
    let observed = match verdict.outcome() {
        Outcome::WouldRefuse => "observed only; enforced, it would be: ",
        _ => "",
    };
    // The level of an event is part of its call site, hence one for each.
    macro_rules! refused {
        ($level:ident) => {
            tracing::$level!(
                server = verdict.server.as_str(),
                session = verdict.session,
                door = verdict.door.as_str(),
                origin = verdict.origin.as_str(),
                verdict = verdict.outcome().as_str(),
                sampling = verdict.sampling,
                elicitation = verdict.elicitation,
                cause = refusal.cause().as_str(),
                limit = refusal.limit().map(|limit| limit.as_str()),
                max = max_of(refusal),
                retry_after_s = refusal.retry_after().map(|retry| retry.as_secs()),
                refused_in_window = refusal.refused_in_window(),
                "{observed}{refusal}"
            )
        };
    }
    if is_landmark(refusal) {
        refused!(warn);
    } else {
        refused!(debug);
    }
}

fn max_of(refusal: &Refusal) -> Option<u32> {
    match refusal.cause() {
        Cause::LimitExceeded { max, .. } | Cause::RoundsExceeded { max } => Some(max),
        _ => None,
    }
}

/// Whether this is the 1st, 10th, 100th, ... refusal of its limit in this window, or a round that
/// passes one: a flood of questions must not become a flood of log lines.
fn is_landmark(refusal: &Refusal) -> bool {
    let after = refusal.refused_in_window();
    let before = after.saturating_sub(u64::from(refusal.questions()));
    // The largest power of ten that was reached. Most refusals pass no multiple of ten, which is
    // quicker to see.
    (before == 0 || after / 10 > before / 10) && after > 0 && before < 10_u64.pow(after.ilog10())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_window_counts_is_counted_for_a_minute() {
        let tally = Tally::default();
        let epoch = crate::clock::now();
        let refused = |seconds, cause| {
            let refusal = Refusal::new(cause, QuestionKind::Sampling.into());
            let at = epoch + std::time::Duration::from_secs(seconds);
            tally.count(at, refusal).refused_in_window()
        };
        let rounds = Cause::RoundsExceeded { max: 8 };
        assert_eq!(refused(0, rounds), 1);
        assert_eq!(refused(59, rounds), 2);
        assert_eq!(refused(59, Cause::Internal), 1, "each cause by itself");
        assert_eq!(refused(60, rounds), 1);
    }

    #[test]
    fn warnings_thin_out_by_powers_of_ten() {
        let at = |before, questions| is_landmark(&Refusal::internal().counted(before, questions));
        let landmarks: Vec<u64> = (0..2000).filter(|before| at(*before, 1)).collect();
        assert_eq!(landmarks, [0, 9, 99, 999]);
        assert!(at(7, 5), "a round that passes the 10th");
        assert!(!at(10, 5));
        assert!(!at(3, 0));
    }
}
