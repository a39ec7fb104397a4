//! The three threads that move bytes: the server's output, the client's input, and refusals.
//!
//! Plain threads with blocking calls, since the ends towards the client can be anything that a
//! process can be started with, and for a pipe of bytes nothing is cheaper.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::mpsc::UnboundedSender;

use super::{
    super::{Frames, Lines, Outlet, Piece, Polls, Reply},
    input::ServerInput,
    queue::Queue,
};
use crate::clock;

/// A client's line of more bytes than this is sent on before it ends, and refusals wait for its
/// end then.
const LONGEST_HELD_LINE: usize = 1024 * 1024;
/// How much is written at once.
const CHUNK: usize = 64 * 1024;

/// What a pump tells when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The client has closed our input.
    ClientInput,
    /// The client does not take our output any more.
    ClientOutput,
    /// The server has closed its output, and all of it was sent on.
    ServerOutput,
}

/// The server's output to the client.
pub(super) struct Downward {
    pub(super) lines: Lines,
    pub(super) server: File,
    pub(super) client: File,
    pub(super) queue: Arc<Queue>,
    /// Set while the server is waited for.
    pub(super) waits: Arc<AtomicBool>,
    pub(super) ended: UnboundedSender<Ended>,
}

impl Downward {
    pub(super) fn run(mut self) {
        let mut out = ClientOutput {
            client: BufWriter::with_capacity(CHUNK, &self.client),
            queue: &self.queue,
            warned: false,
        };
        let mut frames = Frames::default();
        let ended = match pump(
            &mut frames,
            &self.server,
            &mut self.lines,
            &mut out,
            &self.waits,
        ) {
            Ok(()) => Ended::ServerOutput,
            Err(error) => {
                if error.kind() != io::ErrorKind::BrokenPipe {
                    tracing::warn!(%error, "the client's end of the output failed");
                }
                Ended::ClientOutput
            }
        };
        // Nobody is left to be told; the process ends then.
        let _ = self.ended.send(ended);
        if ended == Ended::ClientOutput {
            // A server that is stuck writing would not notice that its input was closed.
            let _ = io::copy(&mut &self.server, &mut io::sink());
        }
    }
}

fn pump(
    frames: &mut Frames,
    mut server: &File,
    lines: &mut Lines,
    out: &mut ClientOutput<'_>,
    waits: &AtomicBool,
) -> io::Result<()> {
    loop {
        // What was judged must have left before we wait: the client may have to act on it first.
        out.client.flush()?;
        waits.store(true, Ordering::SeqCst);
        let read = frames.read_from(&mut server);
        waits.store(false, Ordering::SeqCst);
        let read = read.unwrap_or_else(|error| {
            tracing::warn!(%error, "the server's output failed");
            0
        });
        let now = clock::now();
        while let Some(piece) = frames.next_piece() {
            lines.piece(piece, now, out)?;
        }
        if read == 0 {
            break;
        }
    }
    if let Some(piece) = frames.rest() {
        let (Piece::Line(bytes) | Piece::Part { bytes, .. }) = piece;
        tracing::warn!(
            bytes = bytes.len(),
            "the server's output ended in the middle of a line, which was passed on as it is"
        );
        lines.piece(piece, clock::now(), out)?;
    }
    out.client.flush()
}

struct ClientOutput<'a> {
    client: BufWriter<&'a File>,
    queue: &'a Queue,
    warned: bool,
}

impl Outlet for ClientOutput<'_> {
    fn pass(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.client.write_all(bytes)
    }

    fn refuse(&mut self, reply: Reply) -> io::Result<()> {
        if let Err(reply) = self.queue.try_push(reply) {
            if !self.warned {
                self.warned = true;
                tracing::warn!(
                    "the server does not read its input: it is not read either until it does"
                );
            }
            self.client.flush()?;
            self.queue.push(reply);
        }
        Ok(())
    }
}

/// The client's input to the server.
pub(super) struct Upward {
    pub(super) client: File,
    pub(super) server: Arc<ServerInput>,
    pub(super) polls: Arc<Polls>,
    pub(super) ended: UnboundedSender<Ended>,
}

impl Upward {
    pub(super) fn run(self) {
        let mut frames = Frames::new(LONGEST_HELD_LINE);
        let mut lines = Vec::with_capacity(CHUNK);
        let mut open = true;
        loop {
            let read = frames.read_from(&mut &self.client);
            let ended = !matches!(read, Ok(1..));
            while let Some(piece) = frames.next_piece() {
                self.add(piece, &mut lines);
            }
            if ended && let Some(piece) = frames.rest() {
                self.add(piece, &mut lines);
            }
            if open && let Err(error) = self.server.write(&lines) {
                tracing::warn!(%error, "the server has closed its input; the client's lines are dropped");
                open = false;
            }
            lines.clear();
            if ended {
                break;
            }
        }
        let _ = self.ended.send(Ended::ClientInput);
    }

    fn add(&self, piece: Piece<'_>, lines: &mut Vec<u8>) {
        let bytes = match piece {
            Piece::Line(line) => {
                self.polls.note(line);
                line
            }
            Piece::Part { bytes, .. } => bytes,
        };
        lines.extend_from_slice(bytes);
    }
}

/// Our refusals to the server.
pub(super) fn refuse(queue: &Queue, server: &ServerInput) {
    let mut lines = Vec::with_capacity(CHUNK);
    while queue.write_next(&mut lines, CHUNK) {
        if server.write_lines(&lines).is_err() {
            // It can't be told, and it can't ask for more either once it has ended.
            queue.close();
        }
        lines.clear();
        lines.shrink_to(CHUNK);
    }
}
