//! Server-sent events out of a stream of bytes, in bounded memory.
//!
//! A line ends at `\r\n`, `\n` or a lone `\r`, as the standard has it; readers that split
//! elsewhere are thought of where an event is judged.

use std::mem;

use memchr::memchr2;

use super::broken::hides_data;

/// A buffer that grew for a long event shrinks to this after it. No memory is counted for so much.
pub(super) const KEPT: usize = 64 * 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A piece of the stream. All pieces together are the stream, byte for byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// White space between events.
    Blank(&'a [u8]),
    /// A line of comment between events.
    Comment(&'a [u8]),
    /// A whole event with the empty line that ends it, which only the last of a stream may lack.
    Event(&'a [u8]),
    /// A part of an event that is longer than the bound.
    Part {
        /// The bytes.
        bytes: &'a [u8],
        /// Whether the event ends here.
        last: bool,
    },
}

impl<'a> Piece<'a> {
    pub(super) const fn bytes(&self) -> &'a [u8] {
        let (Self::Blank(bytes)
        | Self::Comment(bytes)
        | Self::Event(bytes)
        | Self::Part { bytes, .. }) = *self;
        bytes
    }
}

/// Cuts a stream into events.
#[derive(Debug)]
pub(super) struct Events {
    buffer: Vec<u8>,
    /// What comes before was given out.
    start: usize,
    /// What comes before was searched for ends of lines.
    searched: usize,
    /// The line that is being searched has characters.
    in_line: bool,
    /// The line that is being searched began here, unless a part of it was given out.
    line: usize,
    /// The last line ended with `\r`; a `\n` right after it belongs to it.
    after_return: bool,
    at_start: bool,
    in_long_event: bool,
    ended: bool,
    longest: usize,
    /// There is no room for more than there is.
    no_room: bool,
}

impl Events {
    /// Cuts events of up to `longest` bytes, and gives longer ones out in parts.
    pub(super) const fn new(longest: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            in_line: false,
            line: 0,
            after_return: false,
            at_start: true,
            in_long_event: false,
            ended: false,
            longest,
            no_room: false,
        }
    }

    /// Takes what comes next in the stream.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.compact();
        self.no_room = false;
        self.buffer.extend_from_slice(bytes);
    }

    /// Forgets what was given out. A buffer that grew for a long event is given back after it.
    pub(super) fn compact(&mut self) {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.line = self.line.saturating_sub(self.start);
        self.start = 0;
        if self.buffer.capacity() / 4 > self.buffer.len() {
            self.buffer.shrink_to(KEPT);
        }
    }

    /// How much memory it takes.
    pub(super) const fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Gives out an event that is not whole by now in parts, as one beyond the bound.
    pub(super) const fn hold_no_more(&mut self) {
        self.no_room = true;
    }

    /// The stream has ended.
    pub(super) const fn end(&mut self) {
        self.ended = true;
    }

    /// The next piece that is complete.
    pub(super) fn next_piece(&mut self) -> Option<Piece<'_>> {
        if self.at_start {
            let mark = &self.buffer[..self.buffer.len().min(BYTE_ORDER_MARK.len())];
            if mark.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(mark) {
                if !self.ended {
                    return None;
                }
            } else if mark == BYTE_ORDER_MARK {
                self.at_start = false;
                self.searched = mark.len();
                self.line = mark.len();
                return Some(Piece::Blank(self.give(BYTE_ORDER_MARK.len())));
            }
            self.at_start = false;
        }
        loop {
            if self.after_return && self.searched < self.buffer.len() {
                self.after_return = false;
                if self.buffer[self.searched] == b'\n' {
                    self.searched += 1;
                    self.line = self.searched;
                    if self.start + 1 == self.searched && !self.in_long_event {
                        return Some(Piece::Blank(self.give(self.searched)));
                    }
                }
            }
            let Some(found) = memchr2(b'\r', b'\n', &self.buffer[self.searched..]) else {
                return self.without_end_of_line();
            };
            let has_characters = self.in_line || found > 0;
            let end = self.searched + found + 1;
            self.after_return = self.buffer[end - 1] == b'\r';
            if self.after_return && self.buffer.get(end) == Some(&b'\n') {
                self.after_return = false;
                self.searched = end + 1;
            } else {
                self.searched = end;
            }
            let line = mem::replace(&mut self.line, self.searched);
            self.in_line = false;
            let end = self.searched;
            if !has_characters {
                return Some(if mem::take(&mut self.in_long_event) {
                    let bytes = self.give(end);
                    Piece::Part { bytes, last: true }
                } else if line == self.start {
                    Piece::Blank(self.give(end))
                } else {
                    Piece::Event(self.give(end))
                });
            }
            if line == self.start
                && !self.in_long_event
                && self.buffer[line] == b':'
                && !hides_data(&self.buffer[line..end])
            {
                return Some(Piece::Comment(self.give(end)));
            }
        }
    }

    fn without_end_of_line(&mut self) -> Option<Piece<'_>> {
        let end = self.buffer.len();
        self.in_line |= end > self.searched;
        self.searched = end;
        let held = end - self.start;
        if held == 0 && !(self.ended && self.in_long_event) {
            return None;
        }
        if self.ended {
            return Some(if mem::take(&mut self.in_long_event) {
                let bytes = self.give(end);
                Piece::Part { bytes, last: true }
            } else {
                Piece::Event(self.give(end))
            });
        }
        if self.in_long_event || self.no_room || held > self.longest {
            self.in_long_event = true;
            let bytes = self.give(end);
            return Some(Piece::Part { bytes, last: false });
        }
        None
    }

    fn give(&mut self, end: usize) -> &[u8] {
        let start = mem::replace(&mut self.start, end);
        &self.buffer[start..end]
    }
}

/// One line of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// With its end.
    pub(super) raw: &'a [u8],
    /// Without it.
    pub(super) text: &'a [u8],
}

impl<'a> Line<'a> {
    /// The field's name and value; a comment has no name.
    pub(super) fn field(self) -> (&'a [u8], &'a [u8]) {
        match memchr::memchr(b':', self.text) {
            Some(colon) => {
                let value = &self.text[colon + 1..];
                let value = value.strip_prefix(b" ").unwrap_or(value);
                (&self.text[..colon], value)
            }
            None => (self.text, b""),
        }
    }
}

/// The lines of an event, the empty one at its end included.
pub(super) fn lines(event: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let mut rest = event;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (text, end) = match memchr2(b'\r', b'\n', rest) {
            Some(at) if rest[at..].starts_with(b"\r\n") => (at, at + 2),
            Some(at) => (at, at + 1),
            None => (rest.len(), rest.len()),
        };
        let line = Line {
            raw: &rest[..end],
            text: &rest[..text],
        };
        rest = &rest[end..];
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(stream: &[u8], longest: usize, step: usize) -> Vec<(char, String)> {
        let mut events = Events::new(longest);
        let mut all = Vec::new();
        let mut take = |events: &mut Events| {
            while let Some(piece) = events.next_piece() {
                let (letter, bytes) = match piece {
                    Piece::Blank(bytes) => ('b', bytes),
                    Piece::Comment(bytes) => ('c', bytes),
                    Piece::Event(bytes) => ('e', bytes),
                    Piece::Part { bytes, last: false } => ('p', bytes),
                    Piece::Part { bytes, last: true } => ('l', bytes),
                };
                all.push((letter, String::from_utf8_lossy(bytes).into_owned()));
            }
        };
        for chunk in stream.chunks(step) {
            events.feed(chunk);
            take(&mut events);
        }
        events.end();
        take(&mut events);
        all
    }

    /// What the pieces are, apart from white space, which may come with an event or after it.
    fn shown(stream: &[u8], step: usize) -> Vec<(char, String)> {
        let all = pieces(stream, 1000, step);
        let whole: String = all.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(whole.as_bytes(), stream, "{step}");
        all.into_iter()
            .filter(|(letter, _)| *letter != 'b')
            .map(|(letter, text)| (letter, text.trim_end_matches('\n').replace('\r', "|")))
            .collect()
    }

    #[test]
    fn events_are_the_same_however_they_arrive() {
        let stream = b"\xEF\xBB\xBF: hello\n\nid: 1\r\ndata: a\r\n\r\ndata: b\rdata: c\r\r:x\n\n\
                       event: m\n: inside\ndata\n\ndata: last";
        let whole = shown(stream, stream.len());
        let kinds: String = whole.iter().map(|(letter, _)| *letter).collect();
        assert_eq!(kinds, "ceecee");
        assert_eq!(whole[2].1, "data: b|data: c||");
        assert_eq!(whole[5].1, "data: last");
        for step in 1..20 {
            let of_step: Vec<_> = shown(stream, step)
                .into_iter()
                .map(|(letter, text)| (letter, text.trim_end_matches('|').to_owned()))
                .collect();
            let of_whole: Vec<_> = whole
                .iter()
                .map(|(letter, text)| (*letter, text.trim_end_matches('|').to_owned()))
                .collect();
            assert_eq!(of_step, of_whole, "{step}");
        }
    }

    #[test]
    fn a_lone_return_ends_a_line_at_once() {
        let mut events = Events::new(100);
        events.feed(b"data: a\r\r");
        assert_eq!(events.next_piece(), Some(Piece::Event(b"data: a\r\r")));
        events.feed(b"\ndata: b\n\n");
        assert_eq!(events.next_piece(), Some(Piece::Blank(b"\n")));
        assert_eq!(events.next_piece(), Some(Piece::Event(b"data: b\n\n")));
    }

    #[test]
    fn an_event_beyond_the_bound_comes_in_parts() {
        let stream = b"data: 1\n\ndata: 0123456789\nid: 7\n\ndata: 2\n\ndata: 0123456789";
        for step in 1..20 {
            let pieces = pieces(stream, 10, step);
            let whole: String = pieces.iter().map(|(_, text)| text.as_str()).collect();
            assert_eq!(whole.as_bytes(), stream, "{step}");
            for small in ["data: 1\n\n", "data: 2\n\n"] {
                assert!(
                    pieces.contains(&('e', small.to_owned())),
                    "{step}: {pieces:?}"
                );
            }
            let ends = pieces.iter().filter(|(letter, _)| *letter == 'l').count();
            assert!(ends <= 2, "{step}: {pieces:?}");
        }
    }

    #[test]
    fn fields_are_split_as_the_standard_has_it() {
        let fields: Vec<_> = lines(b"data:  a:b\r\ndata\r: c\nid:7\n\n")
            .map(Line::field)
            .collect();
        let expected: [(&[u8], &[u8]); 5] = [
            (b"data", b" a:b"),
            (b"data", b""),
            (b"", b"c"),
            (b"id", b"7"),
            (b"", b""),
        ];
        assert_eq!(fields, expected);
    }
}
