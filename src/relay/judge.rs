//! What leaves of a frame: as it came, in part, replaced, or not at all.

use std::{convert::Infallible, io, mem, path::PathBuf, sync::Arc, time::Instant};

use memchr::memchr;

use super::{
    look::{Batch, Counting, Message, Value, read, task_entries},
    notices::Notices,
    open::Questions,
    polls::Polls,
    refused::{MOST_IN_ARRAY, Refused, Reply},
    search::Search,
};
use crate::{
    arrival::{Arrival, Door, Origin},
    refusal::Refusal,
    throttle::{Session, TaskUse},
    verdict::{Reporter, Told},
};

/// Entries of one task that can be told from those seen before; a state with more is charged
/// each time it comes.
const MOST_TASK_ENTRIES: usize = 1024;

/// Where the parts of a frame go.
pub trait Outlet {
    /// Sends bytes on to the client.
    ///
    /// # Errors
    ///
    /// When the client cannot be reached any more.
    fn pass(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Answers the server in the client's place.
    ///
    /// # Errors
    ///
    /// When the frame cannot be gone on with. A server that does not take its answers is no
    /// reason: they are dropped then.
    fn refuse(&mut self, reply: Reply) -> io::Result<()>;
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It left, whole or in part, as complete JSON values.
    Passed,
    /// It left as it came, and is no complete JSON value.
    PassedRaw,
    /// Nothing of it left.
    Withheld,
    /// Nothing of it left, since nobody can read it for sure.
    Unreadable,
}

/// Holds one session's frames to the limits.
#[derive(Debug)]
pub struct Judge {
    session: Arc<Session>,
    polls: Arc<Polls>,
    reporter: Reporter,
    notices: Arc<Notices>,
    questions: Arc<Questions>,
}

impl Judge {
    /// Judges what the server of `session` sends.
    #[must_use]
    pub fn new(session: Session) -> Self {
        Self {
            session: Arc::new(session),
            polls: Arc::default(),
            reporter: Reporter::default(),
            notices: Arc::default(),
            questions: Arc::default(),
        }
    }

    /// One of several judges of a session, for a stream of its own: with polls of its own, since
    /// those who share a session may use the same ids.
    #[cfg(feature = "serve")]
    pub(super) fn of_stream(
        session: Arc<Session>,
        reporter: Reporter,
        notices: Arc<Notices>,
        questions: Arc<Questions>,
    ) -> Self {
        Self {
            session,
            polls: Arc::default(),
            reporter,
            notices,
            questions,
        }
    }

    /// Says where the limits are set, so that the first refusal can tell people what to change.
    #[must_use]
    pub fn with_settings_file(mut self, file: Option<PathBuf>) -> Self {
        self.notices = Arc::new(Notices::new(file));
        self
    }

    /// The session whose limits hold.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The polls of the client, to be noted before they are sent.
    #[must_use]
    pub const fn polls(&self) -> &Arc<Polls> {
        &self.polls
    }

    /// How many frames were withheld because they could not be read for sure.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.notices.unreadable()
    }

    /// Judges a frame that stands alone: what was sent is complete before and after it. `text`
    /// has no end of line.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn frame(&mut self, text: &[u8], now: Instant, out: &mut impl Outlet) -> io::Result<Fate> {
        let settings = self.session.settings();
        let counting = Counting::by(&settings);
        // NUL is no part of JSON, yet of JSON in UTF-16.
        if memchr(0, text).is_some() {
            return self.search(text, &counting, out);
        }
        if memchr(b'\r', text).is_some() {
            return self.segments(text, &counting, now, out);
        }
        match read(text, &counting) {
            Ok(value) => self.value(text, value, &counting, now, out),
            Err(_) => self.search(text, &counting, out),
        }
    }

    /// A frame with a carriage return inside: one value to some readers, several to others.
    fn segments(
        &mut self,
        text: &[u8],
        counting: &Counting<'_>,
        now: Instant,
        out: &mut impl Outlet,
    ) -> io::Result<Fate> {
        let segments = || text.split_inclusive(|byte| *byte == b'\r');
        let inhabited = |segment: &&[u8]| !segment.trim_ascii().is_empty();
        if segments().filter(inhabited).count() == 0 {
            out.pass(text)?;
            return Ok(Fate::Passed);
        }
        let asks =
            |segment: &[u8]| read(segment, counting).is_ok_and(|value| !asks_nothing(&value));
        if let Ok(value) = read(text, counting) {
            // White space inside one value, unless a segment of it would be a question itself.
            if segments().filter(inhabited).count() > 1 && segments().any(asks) {
                return Ok(self.withhold());
            }
            return self.value(text, value, counting, now, out);
        }
        if segments()
            .filter(inhabited)
            .any(|segment| read(segment, counting).is_err())
        {
            return self.search(text, counting, out);
        }
        let mut fate = Fate::Withheld;
        for segment in segments() {
            let body = segment.strip_suffix(b"\r").unwrap_or(segment);
            if let Ok(value) = read(body, counting) {
                if self.value(body, value, counting, now, out)? == Fate::Withheld {
                    continue;
                }
                fate = Fate::Passed;
            } else {
                out.pass(body)?;
            }
            out.pass(&segment[body.len()..])?;
        }
        Ok(fate)
    }

    /// A frame that is not exactly one value.
    pub(super) fn search(
        &mut self,
        text: &[u8],
        counting: &Counting<'_>,
        out: &mut impl Outlet,
    ) -> io::Result<Fate> {
        let mut search = Search::new(counting.methods());
        if search.finds_in(text) || search.finds_at_end() {
            return Ok(self.withhold());
        }
        out.pass(text)?;
        Ok(Fate::PassedRaw)
    }

    /// Counts a frame that nobody can read for sure.
    pub(super) fn withhold(&self) -> Fate {
        self.notices.withheld(self.session.server());
        Fate::Unreadable
    }

    /// Whether something like a question is in a text that should be no frame.
    #[cfg(any(feature = "serve", fuzzing))]
    pub(super) fn suspects(&self, text: &[u8]) -> bool {
        // Without a quote or a sign there is neither a name nor a number to find.
        if memchr::memchr2(b'"', b'-', text).is_none() {
            return false;
        }
        let mut search = self.search_in_parts();
        search.finds_in(text) || search.finds_at_end()
    }

    /// To search something that is too long to be judged as a whole.
    #[cfg(any(feature = "serve", fuzzing))]
    pub(super) fn search_in_parts(&self) -> Search {
        Search::new(&self.session.settings().questions)
    }

    fn value(
        &mut self,
        text: &[u8],
        value: Value<'_>,
        counting: &Counting<'_>,
        now: Instant,
        out: &mut impl Outlet,
    ) -> io::Result<Fate> {
        match value {
            Value::Scalar => {}
            Value::Message(message) => {
                if let Some(denied) = self.message(text, *message, counting, now) {
                    if let Some(refused) = denied.to_server() {
                        out.refuse(Reply::One(refused))?;
                    }
                    let Some(answer) = denied.to_client() else {
                        return Ok(Fate::Withheld);
                    };
                    pass_refusal(&answer, out)?;
                    return Ok(Fate::Passed);
                }
            }
            Value::Batch(batch) if !batch.asks_nothing() => {
                return self.batch(&batch, counting, now, out);
            }
            Value::Batch(batch) => self.note_answers(&batch, counting),
        }
        out.pass(text)?;
        Ok(Fate::Passed)
    }

    /// Cuts refused members out of a batch; the rest leaves as bytes.
    fn batch(
        &mut self,
        batch: &Batch<'_>,
        counting: &Counting<'_>,
        now: Instant,
        out: &mut impl Outlet,
    ) -> io::Result<Fate> {
        let mut before: &[u8] = b"[";
        let mut refused = Vec::new();
        batch.for_each(counting, |member, message| {
            let denied = match message {
                Some(message) => self.message(member, message, counting, now),
                None if is_unreadable_member(member, counting) => {
                    self.withhold();
                    return Ok(());
                }
                None => None,
            };
            let Some(denied) = denied else {
                out.pass(before)?;
                before = b",";
                return out.pass(member);
            };
            if let Some(answer) = denied.to_client() {
                out.pass(before)?;
                before = b",";
                pass_refusal(&answer, out)?;
            }
            refused.extend(denied.to_server());
            if refused.len() >= MOST_IN_ARRAY {
                out.refuse(Reply::Batch(mem::take(&mut refused)))?;
            }
            Ok(())
        })?;
        if !refused.is_empty() {
            out.refuse(Reply::Batch(refused))?;
        }
        if before == b"[" {
            return Ok(Fate::Withheld);
        }
        out.pass(b"]")?;
        Ok(Fate::Passed)
    }

    /// Takes note of the answers to polls in a batch that asks nothing.
    fn note_answers(&self, batch: &Batch<'_>, counting: &Counting<'_>) {
        let Ok(()) = batch.for_each(counting, |_, message| {
            if let Some(message) = message {
                self.note_answer(&message);
            }
            Ok::<(), Infallible>(())
        });
    }

    /// The task whose poll this answers. One that has ended is forgotten.
    fn note_answer(&self, message: &Message<'_>) -> Option<String> {
        let task = match message.is_answer() {
            true => self.polls.answered(message.id()?)?,
            false if message.is_task_notification() => message.task_id()?,
            false => return None,
        };
        if message.ends_task() {
            self.session.forget_task(&task);
        }
        Some(task)
    }

    /// Admits all that a message asks, or denies all of it.
    fn message<'a>(
        &mut self,
        text: &[u8],
        message: Message<'a>,
        counting: &Counting<'_>,
        now: Instant,
    ) -> Option<Denied<'a>> {
        let task = self.note_answer(&message);
        if message.asks_nothing() {
            self.questions.note_cancel(text);
            return None;
        }
        let arrival = self.arrival(&message, task.is_some());
        let (id, is_request) = (message.id(), !message.asks().is_empty());
        let answers = !message.round().is_empty() || !message.urls().is_empty();
        let is_only_task = !is_request && message.urls().is_empty();
        let all = message.all();
        let ask = all.ask();
        let entries = task.filter(|_| is_only_task).and_then(|task| {
            let entries = task_entries(text, counting, MOST_TASK_ENTRIES)?;
            // What is repeated elsewhere in the message is charged like any round.
            let listed = u32::try_from(entries.len()).ok()?;
            (listed == ask.total()).then_some((task, entries))
        });
        let verdict = match &entries {
            Some((task, entries)) => self
                .session
                .look_at_task(now, task, entries, TaskUse::Charge)
                .map(|input| (input.charged, input.admission)),
            None => match self.session.admit(now, &ask) {
                Ok(admission) => Ok((ask, admission)),
                Err(refusal) => Err((refusal, ask)),
            },
        };
        match verdict {
            Ok((charged, admission)) => {
                if charged.total() > 0 {
                    let told = Told::admitted(admission.would_refuse());
                    let noted = self.reporter.report(&self.session, arrival, &charged, told);
                    if arrival.door == Door::ServerRequest
                        && let (Some(id), Some(kind)) = (id, charged.single())
                        && let Some(question) = self.reporter.open(&self.session, kind, noted)
                    {
                        self.questions.add(id, question);
                    }
                }
                None
            }
            Err((refusal, asked)) => {
                self.reporter
                    .report(&self.session, arrival, &asked, Told::Refused(&refusal));
                self.notices.advise(self.session.server(), &refusal);
                Some(Denied {
                    refusal,
                    id,
                    is_request,
                    answers,
                })
            }
        }
    }

    fn arrival(&self, message: &Message<'_>, is_poll: bool) -> Arrival {
        if !message.asks().is_empty() {
            let door = match message.id() {
                Some(_) => Door::ServerRequest,
                None => Door::WithoutId,
            };
            return Arrival::new(door, self.polls.origin());
        }
        if !message.urls().is_empty() {
            return Arrival::in_answer(Door::UrlElicitationRequired);
        }
        match is_poll {
            true => Arrival::in_answer(Door::Task),
            // Whether the task is one that the user's calls began, nobody can tell.
            false if !message.task().is_empty() => Arrival::new(Door::Task, Origin::Unknown),
            false => Arrival::in_answer(Door::Round),
        }
    }
}

/// A message that was refused, and who waits for an answer because of it.
#[derive(Debug)]
struct Denied<'a> {
    refusal: Refusal,
    id: Option<&'a [u8]>,
    /// It asks by its method, and its server waits if it has an id.
    is_request: bool,
    /// It asks as the answer to a call, and the client waits.
    answers: bool,
}

impl Denied<'_> {
    /// The answer in the client's place.
    fn to_server(&self) -> Option<Refused> {
        self.answer(self.is_request)
    }

    /// The answer in the server's place.
    fn to_client(&self) -> Option<Refused> {
        self.answer(self.answers)
    }

    fn answer(&self, is_awaited: bool) -> Option<Refused> {
        let id = self.id.filter(|_| is_awaited)?;
        Some(Refused::new(id, self.refusal.clone()))
    }
}

fn pass_refusal(refused: &Refused, out: &mut impl Outlet) -> io::Result<()> {
    let mut error = Vec::new();
    refused.write(&mut error);
    out.pass(&error)
}

fn asks_nothing(value: &Value<'_>) -> bool {
    match value {
        Value::Message(message) => message.asks_nothing(),
        Value::Batch(batch) => batch.asks_nothing(),
        Value::Scalar => true,
    }
}

/// A member of a batch that is no message may be a batch itself.
fn is_unreadable_member(member: &[u8], counting: &Counting<'_>) -> bool {
    member.starts_with(b"[") && Search::new(counting.methods()).finds_in(member)
}
