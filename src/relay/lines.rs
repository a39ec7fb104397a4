//! The frames of a stdio server, with what lines alone don't tell: a value over several of them,
//! and a line that is too long to be read as a whole.

use std::{io, time::Instant};

use super::{
    frame::Piece,
    judge::{Fate, Judge, Outlet},
    look::Counting,
    position::Position,
    search::Search,
};

/// Holds a stream of lines to the limits.
#[derive(Debug)]
pub struct Lines {
    judge: Judge,
    position: Position,
    long: Option<LongLine>,
}

/// A line that comes in parts.
#[derive(Debug)]
enum LongLine {
    /// Nothing was found in it so far, and all of it was sent on.
    Passing(Box<Search>),
    /// Something was found, and the rest is withheld.
    Withheld,
}

impl Lines {
    /// Judges lines with `judge`.
    #[must_use]
    pub fn new(judge: Judge) -> Self {
        Self {
            judge,
            position: Position::default(),
            long: None,
        }
    }

    /// The judge of each frame.
    #[must_use]
    pub const fn judge(&self) -> &Judge {
        &self.judge
    }

    /// Sends on of a piece what may leave.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn piece(
        &mut self,
        piece: Piece<'_>,
        now: Instant,
        out: &mut impl Outlet,
    ) -> io::Result<()> {
        match piece {
            Piece::Line(line) => self.line(line, now, out),
            Piece::Part { bytes, last } => self.part(bytes, last, out),
        }
    }

    fn line(&mut self, line: &[u8], now: Instant, out: &mut impl Outlet) -> io::Result<()> {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let fate = if text.is_empty() {
            Fate::Passed
        } else if self.position.is_between_values() {
            self.judge.frame(text, now, out)?
        } else {
            let settings = self.judge.session().settings();
            self.judge.search(text, &Counting::by(&settings), out)?
        };
        match fate {
            Fate::Withheld | Fate::Unreadable => return Ok(()),
            Fate::Passed => {}
            Fate::PassedRaw => self.position.advance(line),
        }
        out.pass(&line[text.len()..])
    }

    fn part(&mut self, part: &[u8], last: bool, out: &mut impl Outlet) -> io::Result<()> {
        let line = self.long.take();
        let is_first = line.is_none();
        let line = match line {
            Some(LongLine::Withheld) => LongLine::Withheld,
            Some(LongLine::Passing(search)) => self.go_on(search, is_first, part, last, out)?,
            None => {
                let settings = self.judge.session().settings();
                let search = Box::new(Search::new(&settings.questions));
                self.go_on(search, is_first, part, last, out)?
            }
        };
        self.long = (!last).then_some(line);
        Ok(())
    }

    fn go_on(
        &mut self,
        mut search: Box<Search>,
        is_first: bool,
        part: &[u8],
        last: bool,
        out: &mut impl Outlet,
    ) -> io::Result<LongLine> {
        let found = search.finds_in(part) || (last && search.finds_at_end());
        if !found {
            self.position.advance(part);
            out.pass(part)?;
            return Ok(LongLine::Passing(search));
        }
        self.judge.withhold();
        if !is_first {
            // What was sent already can't be taken back; ended here, it spoils no other line.
            self.position.advance(b"\n");
            out.pass(b"\n")?;
        }
        Ok(LongLine::Withheld)
    }
}
