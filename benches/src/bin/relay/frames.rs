//! Frames, and the servers that write, count and echo them.

use std::{
    error::Error,
    fmt,
    io::{self, BufRead, BufWriter, Write},
    process::ExitCode,
};

/// Which way frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the server to the client: these are looked at.
    Down,
    /// From the client to the server.
    Up,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down => "to the client",
            Self::Up => "to the server",
        })
    }
}

/// A line of `size` bytes with its end: the result of a tool call.
pub(crate) fn frame(size: usize) -> Vec<u8> {
    const START: &str = r#"{"jsonrpc":"2.0","id":4711,"result":{"isError":false,"content":[{"type":"text","text":""#;
    const END: &str = "\"}]}}\n";
    // Prose with an escape now and then, as results have it.
    const PROSE: &str =
        r"The call has found 12 entries, \u201cfirst\u201d to \u201clast\u201d.\nSee them below. ";
    let room = size - START.len() - END.len();
    let mut text = PROSE.repeat(room / PROSE.len());
    text.push_str(&" ".repeat(room - text.len()));
    format!("{START}{text}{END}").into_bytes()
}

/// A server that writes frames and ends.
pub(crate) fn write(size: usize, count: usize) -> Result<ExitCode, Box<dyn Error>> {
    let mut out = BufWriter::with_capacity(64 * 1024, io::stdout().lock());
    let frame = frame(size);
    for _ in 0..count {
        out.write_all(&frame)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// A server that reads to the end and says how many bytes there were.
pub(crate) fn count() -> Result<ExitCode, Box<dyn Error>> {
    let bytes = io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    println!("{bytes}");
    Ok(ExitCode::SUCCESS)
}

/// A server that gives each line back at once.
pub(crate) fn echo() -> Result<ExitCode, Box<dyn Error>> {
    let (mut input, mut out) = (io::stdin().lock(), io::stdout().lock());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        out.write_all(&line)?;
        out.flush()?;
        line.clear();
    }
    Ok(ExitCode::SUCCESS)
}
