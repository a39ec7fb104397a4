//! What stands between the client and the server.

use std::{
    error::Error,
    fmt, fs,
    io::{self, Read, Write},
    process::{Command, ExitCode, Stdio},
    str::FromStr,
    sync::Arc,
    thread,
};

use mcp_question_throttle::{
    clock,
    limits::{ProtoSettings, ServerName},
    relay::{Judge, wrap},
    throttle::Throttle,
};

/// How much a pipe copies at once; `wrap` reads as much.
const CHUNK: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Middle {
    /// The relay.
    Wrap,
    /// A thread for each direction that copies what it reads, and nothing else.
    Pipe,
}

impl fmt::Display for Middle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wrap => "wrap",
            Self::Pipe => "pipe",
        })
    }
}

impl FromStr for Middle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "wrap" => Ok(Self::Wrap),
            "pipe" => Ok(Self::Pipe),
            _ => Err(format!("neither wrap nor pipe: {text:?}")),
        }
    }
}

/// Starts a server that is this program with `arguments`, passes everything on until it ends,
/// and says on standard error how much CPU time that took, in ticks.
pub(crate) fn run(middle: Middle, arguments: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let mut server = super::ourselves()?;
    server.args(arguments);
    match middle {
        Middle::Wrap => relay(server)?,
        Middle::Pipe => pipe(server)?,
    }
    eprintln!("ticks {}", ticks()?);
    Ok(ExitCode::SUCCESS)
}

fn relay(server: Command) -> Result<(), Box<dyn Error>> {
    let throttle = Arc::new(Throttle::new(ProtoSettings::default(), clock::now()));
    let session = throttle.session(ServerName::new("measured")?);
    let outcome = wrap::wrap(server, Judge::new(session))?;
    match outcome.code() {
        0 => Ok(()),
        code => Err(format!("the server ended with {code}").into()),
    }
}

fn pipe(mut server: Command) -> Result<(), Box<dyn Error>> {
    let mut server = server
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let input = server.stdin.take().ok_or("no input")?;
    let output = server.stdout.take().ok_or("no output")?;
    // It ends with the process, as the relay's does, unless the client closes its end before.
    thread::spawn(move || copy(io::stdin().lock(), input));
    copy(output, io::stdout().lock())?;
    server.wait()?;
    Ok(())
}

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            read => {
                to.write_all(&buffer[..read])?;
                to.flush()?;
            }
        }
    }
}

/// The CPU time of this process, in user mode and in the kernel.
fn ticks() -> Result<u64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name, which comes before, may have anything in it.
    let (_, rest) = stat.rsplit_once(')').ok_or("no stat")?;
    let fields: Vec<_> = rest.split_whitespace().collect();
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}
