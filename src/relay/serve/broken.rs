//! Names and numbers that are broken over several lines of data.
//!
//! Where one stands in a line as a whole, it is found there. Careless readers put lines together
//! with nothing between them, and end lines in places of their own: to them these are whole, too.

use crate::relay::search::Search;

const DATA: &[u8] = b"data:";

/// Where a reader's lines end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// At `\n` alone.
    LineFeed,
    /// At `\r\n`, `\n` or `\r`, as the standard has it.
    Standard,
    /// Wherever Unicode ends a line, as Python's `splitlines` does.
    Unicode,
}

impl Ends {
    pub(super) const ALL: [Self; 3] = [Self::LineFeed, Self::Standard, Self::Unicode];

    const fn are_at(self, byte: u8) -> bool {
        match self {
            Self::LineFeed => byte == b'\n',
            Self::Standard => matches!(byte, b'\n' | b'\r'),
            Self::Unicode => matches!(byte, b'\n' | b'\r' | 0x0B | 0x0C | 0x1C..=0x1E),
        }
    }
}

/// Searches a stream of events, as one reader ends its lines, for what is broken over them.
#[derive(Debug)]
pub(super) struct Broken {
    ends: Ends,
    search: Search,
    at: At,
    /// Bytes that may be the beginning of an end beyond ASCII.
    held: &'static [u8],
    /// A line of data began since the last quote, or within the number that is being read.
    word: bool,
    number: bool,
    in_number: bool,
    line_is_empty: bool,
    event_ended: bool,
}

/// The place in a line.
#[derive(Clone, Copy, Debug)]
enum At {
    /// So much of the field's name fits.
    Name(usize),
    Data {
        is_first: bool,
    },
    Elsewhere,
}

impl Broken {
    pub(super) const fn new(ends: Ends, search: Search) -> Self {
        Self {
            ends,
            search,
            at: At::Name(0),
            held: b"",
            word: false,
            number: false,
            in_number: false,
            line_is_empty: true,
            event_ended: false,
        }
    }

    /// Whether the last line was the empty one at the end of an event.
    pub(super) const fn is_between_events(&self) -> bool {
        self.event_ended && self.line_is_empty
    }

    /// Whether more than one line of an event may be data: else nothing can be broken.
    pub(super) fn may_be_in(event: &[u8]) -> bool {
        memchr::memmem::find_iter(event, DATA).nth(1).is_some()
    }

    /// Goes on over `bytes`, and says whether something was found that ends here.
    pub(super) fn finds_in(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while let Some((&byte, tail)) = rest.split_first() {
            if self.step(byte) {
                return true;
            }
            rest = &tail[self.passes_over(tail)..];
        }
        false
    }

    /// Goes on to the next byte that may end a line, if until then nothing can be broken. Says how
    /// far that was.
    fn passes_over(&mut self, bytes: &[u8]) -> usize {
        let is_within = matches!(self.at, At::Data { is_first: false }) && self.held.is_empty();
        if !is_within || self.word || self.number {
            return 0;
        }
        let may_end = |byte: &u8| Ends::Unicode.are_at(*byte) || matches!(byte, 0xC2 | 0xE2);
        let end = bytes.iter().position(may_end).unwrap_or(bytes.len());
        if let Some(last) = bytes[..end].last() {
            self.search.pass_over(&bytes[..end]);
            self.in_number = is_of_number(*last);
        }
        end
    }

    fn step(&mut self, byte: u8) -> bool {
        let mut found = false;
        if self.ends == Ends::Unicode {
            let goes_on: &'static [u8] = match (self.held, byte) {
                (b"\xC2", 0x85) | (b"\xE2\x80", 0xA8 | 0xA9) => {
                    self.held = b"";
                    self.line_ends();
                    return false;
                }
                (b"\xE2", 0x80) => {
                    self.held = b"\xE2\x80";
                    return false;
                }
                (_, 0xC2) => b"\xC2",
                (_, 0xE2) => b"\xE2",
                _ => b"",
            };
            for byte in std::mem::replace(&mut self.held, goes_on) {
                found |= self.put(*byte);
            }
            if !goes_on.is_empty() {
                return found;
            }
        }
        if self.ends.are_at(byte) {
            self.line_ends();
            return found;
        }
        found | self.put(byte)
    }

    fn line_ends(&mut self) {
        self.at = At::Name(0);
        self.event_ended = self.line_is_empty;
        self.line_is_empty = true;
    }

    /// Takes a byte that ends no line.
    fn put(&mut self, byte: u8) -> bool {
        self.line_is_empty &= byte == b'\r';
        match self.at {
            At::Name(fits) if DATA[fits] == byte => {
                self.at = At::Name(fits + 1);
                if fits + 1 == DATA.len() {
                    self.at = At::Data { is_first: true };
                    self.word = true;
                    self.number |= self.in_number;
                }
                false
            }
            At::Name(_) | At::Elsewhere => {
                self.at = At::Elsewhere;
                false
            }
            At::Data { is_first } => {
                self.at = At::Data { is_first: false };
                // The space after the colon is no data, nor is a return before the line's end.
                let is_data = !(is_first && byte == b' ') && byte != b'\r';
                is_data && self.data(byte)
            }
        }
    }

    fn data(&mut self, byte: u8) -> bool {
        let is_broken = if byte == b'"' { self.word } else { self.number };
        let found = self.search.finds_in(&[byte]) && is_broken;
        if byte == b'"' {
            self.word = false;
        }
        self.in_number = is_of_number(byte);
        self.number &= self.in_number;
        found
    }
}

const fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
}

/// Whether a line of something else holds a line of data for readers that end lines elsewhere.
pub(super) fn hides_data(line: &[u8]) -> bool {
    memchr::memmem::find(line, DATA).is_some()
        && line.iter().any(|byte| {
            // An end of Unicode's begins with one of the last two.
            (Ends::Unicode.are_at(*byte) && !matches!(byte, b'\n' | b'\r'))
                || matches!(byte, 0xC2 | 0xE2)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::QuestionMethods;

    fn finds(ends: Ends, stream: &str) -> bool {
        let search = || Search::new(&QuestionMethods::new());
        let whole = Broken::new(ends, search()).finds_in(stream.as_bytes());
        for step in 1..6 {
            let mut broken = Broken::new(ends, search());
            let found = stream.as_bytes().chunks(step).any(|it| broken.finds_in(it));
            assert_eq!(found, whole, "{stream:?} by {step}");
        }
        whole
    }

    #[test]
    fn a_broken_name_is_found_by_every_end_of_lines() {
        let by = |stream: &str| Ends::ALL.map(|ends| finds(ends, stream));
        let name = |end: &str| format!("data: {{\"method\":\"elicitation/{end}data: create\"}}");
        assert_eq!(by(&name("\n")), [true; 3]);
        assert_eq!(by(&name("\r\n")), [true; 3]);
        assert_eq!(by(&name("\nid: 1\ndata\n")), [true; 3]);
        assert_eq!(by(&name("\r")), [false, true, true]);
        for end in ["\u{2028}", "\u{2029}", "\u{85}", "\u{b}", "\u{1d}"] {
            assert_eq!(by(&name(end)), [false, false, true], "{end:?}");
        }
        // To one reader a line of something else, to the other more of the data.
        assert_eq!(
            by("data: {\"a\":1,\r\"method\":\"elicitation/\ndata: create\"}"),
            [true, false, false]
        );
        assert_eq!(by("data: {\"code\":-320\ndata:42,"), [true; 3]);
    }

    #[test]
    fn what_is_whole_is_for_others_to_find() {
        for stream in [
            "data: {\"method\":\ndata: \"elicitation/create\"}",
            "data: {\"a\":\"\u{20ac}\u{2027}\",\ndata: \"method\":\"elicitation/create\",\ndata: \"b\":1}",
            "data: {\"code\":\ndata: -32042,\"a\":\"b\ndata: c\"}",
            "data: \"elicitation/\nid: create\"",
        ] {
            for ends in Ends::ALL {
                assert!(!finds(ends, stream), "{stream:?} {ends:?}");
            }
        }
    }
}
