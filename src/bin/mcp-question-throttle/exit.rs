//! How the command ends: the documented exit codes.

use std::{
    fmt,
    io::{self, Write},
    process::ExitCode,
};

use crate::style::{ERROR, HEADER};

/// An exit code of ours. From 64 up they are those of `sysexits.h`, which few programs use
/// otherwise, so that they can be told from the status of a wrapped server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well.
    Success = 0,
    /// `demo`: a count differs from what the limits allow.
    Differs = 1,
    /// The arguments, or the log filter, are wrong. clap ends with the same.
    Usage = 2,
    /// A file cannot be read.
    NoInput = 66,
    /// A server cannot be started or reached, or an address listened on.
    Unavailable = 69,
    /// A mistake of ours.
    Internal = 70,
    /// The settings are wrong.
    Config = 78,
}

impl Exit {
    const ALL: [Self; 7] = [
        Self::Success,
        Self::Differs,
        Self::Usage,
        Self::NoInput,
        Self::Unavailable,
        Self::Internal,
        Self::Config,
    ];

    const fn meaning(self) -> &'static str {
        match self {
            Self::Success => "all is well",
            Self::Differs => "demo: a count differs from what the limits allow",
            Self::Usage => "the arguments or the log filter are wrong",
            Self::NoInput => "the settings file cannot be read",
            Self::Unavailable => "a server cannot be started or reached, or an address listened on",
            Self::Internal => "a mistake of this program",
            Self::Config => "the settings are wrong, in the file or in a variable",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The exit codes, for `--help`.
pub(crate) fn help() -> String {
    let codes = Exit::ALL
        .iter()
        .map(|exit| format!("\n  {:>2}  {}", *exit as u8, exit.meaning()));
    format!("{HEADER}Exit codes:{HEADER:#}{}", codes.collect::<String>())
}

/// Prints an error, and gives back how to end.
pub(crate) fn fail(exit: Exit, error: impl fmt::Display) -> Exit {
    say(format_args!("{ERROR}error:{ERROR:#} {error}"));
    exit
}

/// Prints what to do about the error before it.
pub(crate) fn tip(tip: impl fmt::Display) {
    say(format_args!("  tip: {tip}"));
}

/// Prints a line on stderr. Where that fails the exit code still tells.
fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// How to end when the result has been printed: with `exit`, unless that failed. A reader that
/// has seen enough and closed the pipe is no failure.
pub(crate) fn after_printing(printed: io::Result<()>, exit: Exit) -> Exit {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            fail(Exit::Internal, format_args!("cannot print: {error}"))
        }
        _ => exit,
    }
}
