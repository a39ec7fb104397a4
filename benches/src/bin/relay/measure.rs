//! Runs with something in the middle, and what they cost.

use std::{
    env,
    error::Error,
    io::{self, BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::Instant,
};

use super::{
    frames::{Direction, frame},
    middle::Middle,
};

/// Bytes that pass in a run under callgrind, and in one whose time is taken.
const COUNTED: usize = 8 << 20;
const TIMED: usize = 256 << 20;
/// Frames that pass in a run at most: small ones cost more for each byte.
const MOST_FRAMES: usize = 400_000;
/// How often the time is taken; the least counts.
const TIMES: usize = 3;
/// What the kernel counts CPU time in: a hundredth of a second.
const TICK_MICROS: f64 = 10_000.0;

/// Round trips in one turn, and turns.
const ROUND_TRIPS: usize = 50;
const TURNS: usize = 60;
/// The bytes of a line that goes round.
const LINE: usize = 300;

/// Instructions that the process in the middle spends on one more frame.
pub(crate) fn instructions(
    middle: Middle,
    direction: Direction,
    size: usize,
) -> Result<f64, Box<dyn Error>> {
    let count = COUNTED / size.max(400);
    let collected = |count: usize| {
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(env::current_exe()?);
        number_after(
            &pass(command, middle, direction, size, count)?,
            "Collected :",
        )
    };
    Ok((collected(2 * count)? - collected(count)?) / float(count))
}

/// Microseconds of CPU time that a frame costs, with `wrap` and with a pipe in the middle.
pub(crate) fn cpu_time(direction: Direction, size: usize) -> Result<[f64; 2], Box<dyn Error>> {
    let count = (TIMED / size).min(MOST_FRAMES);
    let mut least = [f64::INFINITY; 2];
    for _ in 0..TIMES {
        for (middle, least) in [Middle::Wrap, Middle::Pipe].into_iter().zip(&mut least) {
            let said = pass(super::ourselves()?, middle, direction, size, count)?;
            let micros = number_after(&said, "ticks ")? * TICK_MICROS / float(count);
            *least = least.min(micros);
        }
    }
    Ok(least)
}

/// Passes frames through, sees that all arrive, and gives back standard error.
fn pass(
    mut command: Command,
    middle: Middle,
    direction: Direction,
    size: usize,
    count: usize,
) -> Result<String, Box<dyn Error>> {
    command.args(["middle", &middle.to_string()]);
    match direction {
        Direction::Down => command.args(["write", &size.to_string(), &count.to_string()]),
        Direction::Up => command.arg("count"),
    };
    let mut running = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let mut input = running.stdin.take().ok_or("no input")?;
    let mut output = running.stdout.take().ok_or("no output")?;
    let arrived = match direction {
        Direction::Down => {
            let arrived = io::copy(&mut output, &mut io::sink())?;
            // Only now, since closing it would end the server.
            drop(input);
            arrived
        }
        Direction::Up => {
            let frames = frame(size).repeat((64 * 1024 / size).max(1));
            let bytes = size * count;
            let writing = thread::spawn(move || {
                let mut left = bytes;
                while left > 0 {
                    let now = left.min(frames.len());
                    input.write_all(&frames[..now])?;
                    left -= now;
                }
                Ok::<_, io::Error>(())
            });
            let mut told = String::new();
            output.read_to_string(&mut told)?;
            writing.join().map_err(|_| "the writer panicked")??;
            told.trim().parse()?
        }
    };
    let output = running.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() || arrived != u64::try_from(size * count)? {
        return Err(format!("{arrived} bytes of {count} frames arrived: {said}").into());
    }
    Ok(said)
}

/// Microseconds that a line takes to a server and back: alone, with a pipe and with `wrap` in the
/// middle.
pub(crate) fn round_trips() -> Result<[f64; 3], Box<dyn Error>> {
    let mut peers = [
        Peer::start(&["echo"])?,
        Peer::start(&["middle", "pipe", "echo"])?,
        Peer::start(&["middle", "wrap", "echo"])?,
    ];
    let mut took = [const { Vec::new() }; 3];
    for turn in 0..=TURNS {
        for (peer, took) in peers.iter_mut().zip(&mut took) {
            for _ in 0..ROUND_TRIPS {
                let micros = peer.round_trip()?;
                // The first turn is for starting.
                if turn > 0 {
                    took.push(micros);
                }
            }
        }
    }
    Ok(took.map(|mut took| {
        took.sort_by(f64::total_cmp);
        took[took.len() / 2]
    }))
}

struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    back: Vec<u8>,
}

impl Peer {
    fn start(arguments: &[&str]) -> Result<Self, Box<dyn Error>> {
        let mut child = super::ourselves()?
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self {
            input: child.stdin.take().ok_or("no input")?,
            output: BufReader::new(child.stdout.take().ok_or("no output")?),
            child,
            line: frame(LINE),
            back: Vec::new(),
        })
    }

    fn round_trip(&mut self) -> Result<f64, Box<dyn Error>> {
        self.back.clear();
        let started = Instant::now();
        self.input.write_all(&self.line)?;
        self.output.read_until(b'\n', &mut self.back)?;
        let took = started.elapsed();
        if self.back != self.line {
            return Err("another line came back".into());
        }
        Ok(took.as_secs_f64() * 1e6)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // What it measured is known; how it ends is not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn number_after(text: &str, word: &str) -> Result<f64, Box<dyn Error>> {
    let (_, rest) = text
        .split_once(word)
        .ok_or_else(|| format!("no {word:?} in {text:?}"))?;
    let digits: String = rest
        .trim_start()
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == ',')
        .filter(char::is_ascii_digit)
        .collect();
    Ok(digits.parse()?)
}

#[expect(clippy::cast_precision_loss, reason = "it is small")]
fn float(count: usize) -> f64 {
    count as f64
}
