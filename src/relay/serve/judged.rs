//! What is left of an event or of a body when it has been judged.

use std::{io, time::Instant};

use super::{
    broken::{Broken, Ends, hides_data},
    events::{Line, lines},
};
use crate::relay::{Fate, Judge, Outlet, Reply};

/// Replies to one frame that are kept; a frame that asks for more gets no more.
const MOST_REPLY_BYTES: usize = 4 * 1024 * 1024;

/// What is left of something.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// All, as it came.
    Whole,
    /// Something else.
    Changed(Vec<u8>),
    /// Nothing.
    Nothing,
}

/// What became of a text.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) left: Left,
    pub(super) fate: Fate,
    /// What its server is told.
    pub(super) replies: Vec<Reply>,
    /// What its server is not told, since it would be too much.
    pub(super) dropped: u64,
}

/// Holds a text to the limits.
pub(super) fn text(judge: &mut Judge, text: &[u8], now: Instant) -> Judged {
    let mut parts = Parts {
        text,
        whole: false,
        bytes: Vec::new(),
        replies: Vec::new(),
        reply_bytes: 0,
        dropped: 0,
    };
    let fate = match judge.frame(text, now, &mut parts) {
        Ok(fate) => fate,
        // These parts never fail; nothing leaves if they do.
        Err(_) => Fate::Withheld,
    };
    let left = match fate {
        Fate::Withheld | Fate::Unreadable => Left::Nothing,
        _ if parts.whole || parts.bytes == text => Left::Whole,
        _ => Left::Changed(parts.bytes),
    };
    Judged {
        left,
        fate,
        replies: parts.replies,
        dropped: parts.dropped,
    }
}

/// What is left of an event, and what its server is told.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) left: Left,
    pub(super) replies: Vec<Reply>,
    pub(super) dropped: u64,
    /// It is the first event of HTTP+SSE (2024-11-05), and leads around the relay.
    pub(super) is_endpoint: bool,
}

/// Holds an event to the limits, whatever its name.
///
/// Its data is what any reader may make of it: the lines put together, in one way or another, or
/// each line alone. What
/// is in no line of data is only searched: readers that end lines elsewhere, at U+2028 for
/// instance, find data there.
pub(super) fn event(judge: &mut Judge, raw: &[u8], now: Instant) -> Event {
    let mut event = Event {
        left: Left::Whole,
        replies: Vec::new(),
        dropped: 0,
        is_endpoint: false,
    };
    let mut data: Vec<&[u8]> = Vec::new();
    let mut is_suspect = false;
    for line in lines(raw) {
        match line.field() {
            (b"data", value) => data.push(value),
            (name, value) => {
                event.is_endpoint |= name == b"event" && value.trim_ascii() == b"endpoint";
                is_suspect |= judge.suspects(line.text);
            }
        }
    }
    if event.is_endpoint {
        event.left = Left::Nothing;
        return event;
    }
    if is_suspect || breaks_a_name(judge, raw) {
        judge.withhold();
        event.left = Left::Changed(withheld(judge, raw));
        return event;
    }
    let joined;
    let text = match data[..] {
        [] => return event,
        [line] => line,
        _ => {
            // A lone return is white space to JSON, and the end of a line to the judge.
            joined = data.join(&b'\r');
            &joined[..]
        }
    };
    if text.trim_ascii().is_empty() {
        return event;
    }
    let judged = self::text(judge, text, now);
    event.replies = judged.replies;
    event.dropped = judged.dropped;
    event.left = match judged.left {
        Left::Whole => Left::Whole,
        Left::Changed(data) => Left::Changed(replaced(raw, &data)),
        Left::Nothing => Left::Changed(withheld(judge, raw)),
    };
    event
}

/// Whether some reader that puts lines together without anything between them sees a name there
/// that no line holds.
fn breaks_a_name(judge: &Judge, raw: &[u8]) -> bool {
    Broken::may_be_in(raw)
        && Ends::ALL
            .into_iter()
            .any(|ends| Broken::new(ends, judge.search_in_parts()).finds_in(raw))
}

/// What a withheld event leaves: its place in the stream, or a client that resumes would get it
/// again for ever.
pub(super) fn withheld(judge: &Judge, event: &[u8]) -> Vec<u8> {
    let mut left = Vec::new();
    for line in lines(event) {
        let is_kept = matches!(line.field().0, b"id" | b"retry");
        if is_kept && !judge.suspects(line.text) && !hides_data(line.text) {
            push(&mut left, line);
        }
    }
    if !left.is_empty() {
        left.extend_from_slice(b"data:\n\n");
    }
    left
}

/// An event with other data, and all its other fields.
fn replaced(event: &[u8], data: &[u8]) -> Vec<u8> {
    let mut left = Vec::with_capacity(event.len().min(4096) + data.len());
    let mut is_written = false;
    for line in lines(event) {
        let is_last = line.text.is_empty();
        if line.field().0 != b"data" && !is_last {
            push(&mut left, line);
        } else if !is_written {
            is_written = true;
            for line in data.split(|byte| matches!(byte, b'\r' | b'\n')) {
                left.extend_from_slice(b"data: ");
                left.extend_from_slice(line);
                left.push(b'\n');
            }
        }
    }
    left.push(b'\n');
    left
}

fn push(out: &mut Vec<u8>, line: Line<'_>) {
    out.extend_from_slice(line.raw);
    if line.raw.len() == line.text.len() {
        out.push(b'\n');
    }
}

/// Collects what leaves, without a copy of what leaves as it came.
#[derive(Debug)]
struct Parts<'t> {
    text: &'t [u8],
    whole: bool,
    bytes: Vec<u8>,
    replies: Vec<Reply>,
    reply_bytes: usize,
    dropped: u64,
}

impl Outlet for Parts<'_> {
    fn pass(&mut self, bytes: &[u8]) -> io::Result<()> {
        if std::ptr::eq(bytes, self.text) && self.bytes.is_empty() && !self.whole {
            self.whole = true;
            return Ok(());
        }
        if std::mem::take(&mut self.whole) {
            self.bytes.extend_from_slice(self.text);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn refuse(&mut self, reply: Reply) -> io::Result<()> {
        self.reply_bytes += reply.size();
        if self.reply_bytes > MOST_REPLY_BYTES && !self.replies.is_empty() {
            self.dropped += 1;
        } else {
            self.replies.push(reply);
        }
        Ok(())
    }
}
