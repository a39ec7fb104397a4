//! A stream of events, without what is over the limits.

use std::time::Instant;

use memchr::memchr_iter;

use super::{
    broken::{Broken, Ends},
    events::{Events, Piece, lines},
    judged::{self, Left},
};
use crate::relay::{Judge, LONGEST_FRAME, Reply, search::Search};

/// Holds the events of a stream to the limits, one after another.
#[derive(Debug)]
pub(super) struct Sieve {
    judge: Judge,
    events: Events,
    long: Option<LongEvent>,
    /// Where a lone `\r` ended an event, a reader that knows no such end is still in it.
    across: Option<Box<Broken>>,
}

/// An event that comes in parts.
#[derive(Debug)]
enum LongEvent {
    /// Nothing was found in it so far, and all of it was sent on.
    Passing(Box<Searches>),
    /// Something was found, and the rest is withheld.
    Withheld,
}

/// What became of a piece of the stream, apart from what of it passed.
#[derive(Debug, Default)]
pub(super) struct Sifted {
    pub(super) replies: Vec<Reply>,
    /// Replies that were not kept.
    pub(super) dropped: u64,
    /// It leads around the relay, and the stream ends here.
    pub(super) is_endpoint: bool,
}

impl Sieve {
    pub(super) fn new(judge: Judge) -> Self {
        Self::of_events(judge, LONGEST_FRAME)
    }

    /// With another bound on what is judged as a whole.
    pub(super) fn of_events(judge: Judge, longest: usize) -> Self {
        Self {
            judge,
            events: Events::new(longest),
            long: None,
            across: None,
        }
    }

    /// Who judges.
    #[cfg(fuzzing)]
    pub(super) const fn judge(&self) -> &Judge {
        &self.judge
    }

    /// Takes what comes next in the stream.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.events.feed(bytes);
    }

    /// There is no room for more: an event that is not whole by now comes in parts.
    pub(super) const fn hold_no_more(&mut self) {
        self.events.hold_no_more();
    }

    /// Gives back memory that is not needed any more.
    pub(super) fn compact(&mut self) {
        self.events.compact();
    }

    /// How many bytes it holds.
    pub(super) const fn capacity(&self) -> usize {
        self.events.capacity()
    }

    /// The stream has ended.
    pub(super) const fn end(&mut self) {
        self.events.end();
    }

    /// Sends on to `out` what may pass of the next piece; `None` if no piece is complete.
    pub(super) fn next(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Sifted> {
        let mut sifted = Sifted::default();
        let piece = self.events.next_piece()?;
        let is_broken = across(&self.judge, &mut self.across, piece.bytes());
        match piece {
            Piece::Blank(bytes) => out.extend_from_slice(bytes),
            Piece::Comment(line) if is_broken || self.judge.suspects(line) => {
                self.judge.withhold();
            }
            Piece::Comment(line) => out.extend_from_slice(line),
            Piece::Part { bytes, last } => {
                part(&self.judge, &mut self.long, bytes, last, is_broken, out);
            }
            Piece::Event(raw) if is_broken => {
                self.judge.withhold();
                out.extend_from_slice(&judged::withheld(&self.judge, raw));
            }
            Piece::Event(raw) => {
                let event = judged::event(&mut self.judge, raw, now);
                match &event.left {
                    Left::Whole => out.extend_from_slice(raw),
                    Left::Changed(bytes) => out.extend_from_slice(bytes),
                    Left::Nothing => {}
                }
                sifted = Sifted {
                    replies: event.replies,
                    dropped: event.dropped,
                    is_endpoint: event.is_endpoint,
                };
            }
        }
        Some(sifted)
    }
}

/// Whether something ends here that is broken over lines for a reader that ends them at `\n`
/// alone, and so events later than others.
fn across(judge: &Judge, across: &mut Option<Box<Broken>>, bytes: &[u8]) -> bool {
    let is_lone = |at: usize| bytes.get(at + 1) != Some(&b'\n');
    if across.is_none() && !memchr_iter(b'\r', bytes).any(is_lone) {
        return false;
    }
    let broken = across
        .get_or_insert_with(|| Box::new(Broken::new(Ends::LineFeed, judge.search_in_parts())));
    let found = broken.finds_in(bytes);
    if broken.is_between_events() {
        *across = None;
    }
    found
}

/// Everything that an event is searched for that comes in parts.
#[derive(Debug)]
struct Searches {
    whole: Search,
    broken: [Broken; 3],
}

impl Searches {
    fn new(judge: &Judge) -> Self {
        Self {
            whole: judge.search_in_parts(),
            broken: Ends::ALL.map(|ends| Broken::new(ends, judge.search_in_parts())),
        }
    }

    fn finds_in(&mut self, bytes: &[u8]) -> bool {
        self.whole.finds_in(bytes) || self.broken.iter_mut().any(|broken| broken.finds_in(bytes))
    }

    fn finds_at_end(&mut self) -> bool {
        self.whole.finds_at_end()
    }
}

/// Sends on a part of an event that is too long to be judged as a whole, unless something like a
/// question is in it, or was found to end in it.
fn part(
    judge: &Judge,
    long: &mut Option<LongEvent>,
    bytes: &[u8],
    last: bool,
    is_broken: bool,
    out: &mut Vec<u8>,
) {
    let is_first = long.is_none();
    let state = match long.take() {
        Some(LongEvent::Withheld) => LongEvent::Withheld,
        state => {
            let mut search = match state {
                Some(LongEvent::Passing(search)) => search,
                _ => Box::new(Searches::new(judge)),
            };
            if is_broken || search.finds_in(bytes) || (last && search.finds_at_end()) {
                judge.withhold();
                if is_first {
                    // Its last line may not be complete.
                    let complete: usize = lines(bytes)
                        .filter(|line| line.raw.len() > line.text.len())
                        .map(|line| line.raw.len())
                        .sum();
                    out.extend_from_slice(&judged::withheld(judge, &bytes[..complete]));
                } else {
                    // What was sent already can't be taken back; ended here, it spoils no other.
                    out.extend_from_slice(b"\n\n");
                }
                LongEvent::Withheld
            } else {
                out.extend_from_slice(bytes);
                LongEvent::Passing(search)
            }
        }
    };
    *long = (!last).then_some(state);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::{
        clock,
        limits::{Limit, ProtoSettings, ServerName},
        throttle::Throttle,
    };

    /// What passes of a stream, and how many questions were admitted for it. There is no room after
    /// the parts of it whose bits are set in `short`, over and over.
    fn sift(stream: &[u8], step: usize, longest: usize, short: u8) -> (Vec<u8>, u64) {
        let room = Limit::new(1_000_000).unwrap();
        let settings = ProtoSettings::default()
            .with_sampling_session_per_minute(Limit::OFF)
            .with_elicitation_per_minute(room)
            .with_sampling_per_minute(room);
        let throttle = Arc::new(Throttle::new(settings, clock::now()));
        let session = throttle.session(ServerName::new("github").unwrap());
        let mut sieve = Sieve::of_events(Judge::new(session), longest);
        let mut out = Vec::new();
        for (nth, chunk) in stream.chunks(step).enumerate() {
            sieve.feed(chunk);
            if short & (1 << (nth % 8)) != 0 {
                sieve.hold_no_more();
            }
            while sieve.next(clock::now(), &mut out).is_some() {}
        }
        sieve.end();
        while sieve.next(clock::now(), &mut out).is_some() {}
        let servers = throttle.snapshot(clock::now()).servers;
        let admitted = servers.iter().map(|it| it.elicitation.admitted).sum();
        (out, admitted)
    }

    /// Where a reader's lines end.
    type IsEnd = fn(char) -> bool;
    const ENDS: [IsEnd; 3] = [
        |letter| letter == '\n',
        |letter| matches!(letter, '\n' | '\r'),
        // As Python splits lines.
        |letter| {
            matches!(
                letter,
                '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}'
            ) || matches!(letter, '\u{85}' | '\u{2028}' | '\u{2029}')
        },
    ];

    fn asks(data: &str) -> usize {
        let is_question = |value: &Value| value["method"] == "elicitation/create";
        match serde_json::from_str::<Value>(data) {
            Ok(Value::Array(all)) => all.iter().filter(|one| is_question(one)).count(),
            Ok(value) => usize::from(is_question(&value)),
            Err(_) => 0,
        }
    }

    /// How many questions a reader sees; `between` is what it puts between lines of data, if it
    /// does not take each for itself.
    fn seen(stream: &str, is_end: IsEnd, between: Option<&str>) -> usize {
        let stream = stream.strip_prefix('\u{feff}').unwrap_or(stream);
        let stream = stream.replace("\r\n", "\n");
        let mut data: Vec<&str> = Vec::new();
        let mut count = 0;
        for line in stream.split(is_end).chain([""]) {
            let line = line.trim_end_matches('\r');
            if let Some(value) = line.strip_prefix("data:") {
                data.push(value.strip_prefix(' ').unwrap_or(value));
            } else if line.is_empty() {
                count += match between {
                    Some(between) => asks(&data.join(between)),
                    None => data.iter().map(|data| asks(data)).sum(),
                };
                data.clear();
            }
        }
        count
    }

    /// Streams of the pieces that a hostile server would try.
    fn streams() -> impl Strategy<Value = String> {
        let piece = |pieces: &[&'static str]| prop::sample::select(pieces.to_vec());
        let piece = prop_oneof![
            3 => piece(&["data: ", "data:", "data", "id: ", ": ", "event: m", "retry: 1", "Data: "]),
            3 => piece(&["\n", "\n\n", "\r", "\r\n", "\r\r", "\u{2028}", "\u{85}", "\u{b}"]),
            1 => piece(&["\0", "\u{feff}", "[", "]", ",", "{", "1", "\"", "\\", "\\u0065"]),
            3 => piece(&["\ndata: ", "\rdata:", "{\"a\":", "}", "data: {\"a\":\n", "\ndata: }\n\n"]),
            3 => piece(&[
                "{\"id\":1,\"method\":\"elicitation/create\"}", "{\"method\":",
                "\"elicitation/create\"", "{\"method\":\"elicitation/", "create\"}",
            ]),
        ];
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]

        #[test]
        fn no_reader_sees_a_question_that_was_not_counted(
            stream in streams(), step in 1..40_usize, longest in prop::sample::select(vec![30, 10_000]),
            short in prop_oneof![Just(0), any::<u8>()]
        ) {
            let (out, admitted) = sift(stream.as_bytes(), step, longest, short);
            // Within a long event it may be cut anywhere.
            let out = String::from_utf8_lossy(&out);
            for is_end in ENDS {
                for between in [Some("\n"), Some(""), None] {
                    let seen = seen(&out, is_end, between);
                    prop_assert!(seen as u64 <= admitted, "{out:?} shows {seen} to {between:?}");
                }
            }
        }

        #[test]
        fn what_is_no_question_passes_byte_for_byte(
            stream in streams(), step in 1..40_usize, longest in prop::sample::select(vec![30, 10_000]),
            short in prop_oneof![Just(0), any::<u8>()]
        ) {
            let stream = stream.replace("elicitation", "elicited");
            let (out, admitted) = sift(stream.as_bytes(), step, longest, short);
            prop_assert_eq!(admitted, 0);
            prop_assert_eq!(String::from_utf8(out).unwrap(), stream);
        }
    }
}
