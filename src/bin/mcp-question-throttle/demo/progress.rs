//! The progress of a run: one line that is written over and over where somebody looks on, and
//! one line at its end elsewhere.

use std::{
    env,
    io::{self, IsTerminal, Write},
};

use super::{
    client::Tally,
    run::{Plan, Run},
};
use crate::style::{ERROR, FAINT, GOOD};

/// How wide the bar is, in characters: the line fits into 80, or it could not be overwritten.
const BAR: u32 = 14;

/// The progress line of one run.
#[derive(Debug)]
pub(super) struct Progress {
    plan: Plan,
    live: bool,
}

impl Progress {
    /// Whether stdout is a terminal that can return to the start of a line.
    pub(super) fn is_watched() -> bool {
        io::stdout().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    pub(super) const fn new(plan: Plan, live: bool) -> Self {
        Self { plan, live }
    }

    /// Shows how far the run is.
    pub(super) fn update(&mut self, tally: &Tally) {
        if self.live {
            self.draw("\r", tally.admitted, tally.refused, "");
        }
    }

    /// Leaves the last state standing.
    pub(super) fn finish(&mut self, run: &Run) {
        let start = if self.live { "\r" } else { "" };
        self.draw(start, run.admitted, run.refused, "\n");
    }

    /// Goes on on the next line.
    pub(super) fn abandon(&mut self) {
        if self.live {
            anstream::println!();
        }
    }

    fn draw(&self, start: &str, admitted: u32, refused: u32, end: &str) {
        let Plan {
            era,
            kind,
            questions,
            ..
        } = self.plan;
        let decided = admitted + refused;
        let bar = if self.live {
            bar(admitted, refused, questions)
        } else {
            String::new()
        };
        let mut out = anstream::stdout();
        // Whoever closed stdout sees no progress; the result at the end says so.
        let _ = write!(
            out,
            "{start}{era}  {kind:<11}  {bar}{decided:>5} asked {admitted:>4} admitted \
             {refused:>5} refused{end}",
            kind = kind.as_str(),
        )
        .and_then(|()| out.flush());
    }
}

/// Admitted green, refused red, the rest to come.
fn bar(admitted: u32, refused: u32, questions: u32) -> String {
    let width = |count: u32| (count * BAR).div_ceil(questions).min(BAR);
    let green = width(admitted);
    let red = width(admitted + refused).saturating_sub(green);
    let part = |width: u32, block: &str| block.repeat(usize::try_from(width).unwrap_or(0));
    format!(
        "{GOOD}{}{GOOD:#}{ERROR}{}{ERROR:#}{FAINT}{}{FAINT:#}",
        part(green, "█"),
        part(red, "█"),
        part(BAR - green - red, "░"),
    )
}
