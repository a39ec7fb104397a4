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

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Not at all.
    Silent,
    /// A line for each run.
    Lines,
    /// A line for each run that is written over while it goes on.
    Live,
}

impl Mode {
    /// What suits stdout: live on a terminal that can return to the start of a line.
    pub(super) fn of_stdout() -> Self {
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        if io::stdout().is_terminal() && !dumb {
            Self::Live
        } else {
            Self::Lines
        }
    }
}

/// The progress line of one run.
#[derive(Debug)]
pub(super) struct Progress {
    plan: Plan,
    mode: Mode,
}

impl Progress {
    pub(super) const fn new(plan: Plan, mode: Mode) -> Self {
        Self { plan, mode }
    }

    /// Shows how far the run is.
    pub(super) fn update(&self, tally: &Tally) {
        if self.mode == Mode::Live {
            self.draw(tally.admitted, tally.refused, "");
        }
    }

    /// Leaves the last state standing.
    pub(super) fn finish(self, run: &Run) {
        if self.mode != Mode::Silent {
            self.draw(run.admitted, run.refused, "\n");
        }
    }

    /// Leaves the line as it is, and goes on below it.
    pub(super) fn abandon(self) {
        if self.mode == Mode::Live {
            anstream::println!();
        }
    }

    fn draw(&self, admitted: u32, refused: u32, end: &str) {
        let Plan {
            era,
            kind,
            questions,
            ..
        } = self.plan;
        let decided = admitted + refused;
        let (start, bar) = match self.mode {
            Mode::Live => ("\r", bar(admitted, refused, questions)),
            Mode::Lines | Mode::Silent => ("", String::new()),
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
