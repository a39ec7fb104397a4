//! Lines out of a stream of bytes, in bounded memory.

use std::{io, mem};

use memchr::memchr;

/// A line of more bytes than this is not read as a whole: it is searched and sent on in parts.
pub const LONGEST_FRAME: usize = 16 * 1024 * 1024;

/// How much is read at once.
const CHUNK: usize = 64 * 1024;
/// A buffer that grew beyond this for a long line is given back after it.
const KEPT: usize = 1024 * 1024;

/// A piece of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A whole line with its `\n`, which only the last one of a stream may lack.
    Line(&'a [u8]),
    /// A part of a line that is longer than the bound.
    Part {
        /// The bytes, with the line's `\n` if they have it.
        bytes: &'a [u8],
        /// Whether the line ends here.
        last: bool,
    },
}

/// Cuts a stream into lines at `\n`.
#[derive(Debug)]
pub struct Frames {
    buffer: Vec<u8>,
    /// What comes before was given out.
    start: usize,
    /// What comes before holds no end of line.
    searched: usize,
    /// What comes after is room.
    end: usize,
    longest: usize,
    in_long_line: bool,
}

impl Default for Frames {
    fn default() -> Self {
        Self::new(LONGEST_FRAME)
    }
}

impl Frames {
    /// Cuts lines of up to `longest` bytes, and gives longer ones out in parts.
    #[must_use]
    pub const fn new(longest: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            end: 0,
            longest,
            in_long_line: false,
        }
    }

    /// Reads once from `source`; 0 is the end of the stream.
    ///
    /// # Errors
    ///
    /// Those of `source`, except that an interrupted read is done again.
    pub fn read_from(&mut self, source: &mut impl io::Read) -> io::Result<usize> {
        self.make_room();
        loop {
            match source.read(&mut self.buffer[self.end..]) {
                Ok(read) => {
                    self.end += read;
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The next piece that is complete.
    pub fn next_piece(&mut self) -> Option<Piece<'_>> {
        let start = self.start;
        if let Some(found) = memchr(b'\n', &self.buffer[self.searched..self.end]) {
            self.start = self.searched + found + 1;
            self.searched = self.start;
            let bytes = &self.buffer[start..self.start];
            return Some(if mem::take(&mut self.in_long_line) {
                Piece::Part { bytes, last: true }
            } else {
                Piece::Line(bytes)
            });
        }
        self.searched = self.end;
        let held = self.end - start;
        if held > self.longest || (self.in_long_line && held > 0) {
            self.in_long_line = true;
            self.start = self.end;
            return Some(Piece::Part {
                bytes: &self.buffer[start..self.end],
                last: false,
            });
        }
        None
    }

    /// What is left at the end of the stream: half a line.
    pub fn rest(&mut self) -> Option<Piece<'_>> {
        let bytes = &self.buffer[mem::replace(&mut self.start, self.end)..self.end];
        if mem::take(&mut self.in_long_line) {
            Some(Piece::Part { bytes, last: true })
        } else {
            (!bytes.is_empty()).then_some(Piece::Line(bytes))
        }
    }

    /// Makes room for a chunk, behind what is not given out yet.
    fn make_room(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.searched -= self.start;
        self.end -= self.start;
        self.start = 0;
        if self.end == 0 && self.buffer.len() > KEPT {
            self.buffer = Vec::new();
        }
        if self.buffer.len() < self.end + CHUNK {
            // In steps that grow with it, so that a long line is copied a few times only; and
            // no further than a line can get before it is given out in parts.
            let most = self.longest.saturating_add(2 * CHUNK);
            let room = (2 * self.end).min(most).max(self.end + CHUNK);
            self.buffer.resize(room, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Every piece of a stream that arrives `step` bytes at a time.
    fn pieces(mut stream: &[u8], longest: usize, step: u64) -> Vec<(Vec<u8>, Option<bool>)> {
        let mut frames = Frames::new(longest);
        let mut all = Vec::new();
        let keep = |piece: Piece<'_>| match piece {
            Piece::Line(bytes) => (bytes.to_vec(), None),
            Piece::Part { bytes, last } => (bytes.to_vec(), Some(last)),
        };
        while frames.read_from(&mut stream.by_ref().take(step)).unwrap() > 0 {
            while let Some(piece) = frames.next_piece() {
                all.push(keep(piece));
            }
        }
        all.extend(frames.rest().map(keep));
        all
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let stream = b"a\n\nbcd\r\nhalf";
        for step in 1..20 {
            let lines: Vec<_> = pieces(stream, 100, step).into_iter().map(|p| p.0).collect();
            assert_eq!(lines, [&b"a\n"[..], b"\n", b"bcd\r\n", b"half"], "{step}");
        }
    }

    #[test]
    fn a_line_beyond_the_bound_comes_in_parts() {
        for step in 1..20 {
            let pieces = pieces(b"ab\n0123456789\ncd\n0123456789", 5, step);
            let whole: Vec<u8> = pieces.iter().flat_map(|piece| piece.0.clone()).collect();
            assert_eq!(whole, b"ab\n0123456789\ncd\n0123456789");
            let ends = pieces.iter().filter(|piece| piece.1 == Some(true)).count();
            assert!(ends <= 2, "{step}");
            for (bytes, part) in pieces {
                assert!(part.is_some() || bytes.len() <= 11, "{step}");
            }
        }
    }

    #[test]
    fn the_memory_of_a_long_line_is_given_back() {
        let long = [vec![b'x'; 4 * KEPT], b"\n".to_vec()].concat();
        let mut frames = Frames::default();
        let mut stream = &long[..];
        while frames.read_from(&mut stream).unwrap() > 0 {
            while frames.next_piece().is_some() {}
        }
        assert!(frames.buffer.len() <= KEPT);
    }
}
