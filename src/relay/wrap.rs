//! A server as a child process, between its pipes and ours.
//!
//! Everything passes as if the relay were not there, apart from questions over the limit. The
//! server's error output is not touched at all.
//!
//! # How it ends
//!
//! | what happens | what is done |
//! |---|---|
//! | the server ends | what it wrote is sent on, the processes it left are ended, its status is ours |
//! | the client closes our input | the server's is closed; after [`CLOSE_WAIT`] it gets SIGTERM |
//! | the client closes our output, or the server its own | the same |
//! | we get SIGTERM or SIGHUP | the server gets it at once, and its input is closed |
//! | we get SIGINT or SIGQUIT | the server gets it at once, and decides |
//! | [`KILL_WAIT`] after a SIGTERM or SIGHUP | SIGKILL |
//!
//! Signals go to the server's process group, so that they reach what it started. If we are killed
//! ourselves, its pipes close, which is all that can be done then.

mod input;
mod pumps;
mod queue;

use std::{
    fmt,
    fs::File,
    future, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::ExitStatusExt,
    },
    process::{ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    process::{Child, Command},
    signal::unix::{self, SignalKind},
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    time,
};

pub use self::queue::MOST_UNSENT;
use self::{
    input::ServerInput,
    pumps::{Downward, Ended, Upward, refuse},
    queue::Queue,
};
use super::{Judge, Lines};

/// How long a server whose input was closed may take to end. Clients signal us before that.
pub const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// How long a server may take to end after a signal. Clients wait 2 s before they kill us, and
/// then nobody would be left to end it.
pub const KILL_WAIT: Duration = Duration::from_millis(1500);
/// How long output may be awaited of processes that a server left and that no signal reached.
const LINGER: Duration = Duration::from_secs(1);
/// How often it is looked whether a signalled group has ended.
const ASK_EVERY: Duration = Duration::from_millis(10);

/// How the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome(ExitStatus);

impl Outcome {
    /// Its exit code, or 128 and the signal's number, as a shell has it.
    #[must_use]
    pub fn code(self) -> u8 {
        let code = match (self.0.code(), self.0.signal()) {
            (Some(code), _) => code,
            (None, signal) => 128 + signal.unwrap_or_default(),
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }
}

/// Why a server could not be wrapped.
#[derive(Debug)]
#[non_exhaustive]
pub enum WrapError {
    /// Its program could not be started.
    Start {
        /// The program, as it was given.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// The relay itself failed.
    Relay(io::Error),
}

impl fmt::Display for WrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { program, error } => write!(f, "cannot start {program:?}: {error}"),
            Self::Relay(error) => write!(f, "the relay failed: {error}"),
        }
    }
}

impl std::error::Error for WrapError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The text says what they are, so what caused them comes next.
            Self::Start { error, .. } | Self::Relay(error) => error.source(),
        }
    }
}

impl From<io::Error> for WrapError {
    fn from(error: io::Error) -> Self {
        Self::Relay(error)
    }
}

/// Runs `command` between our standard input and output, and gives back how it ended.
///
/// It takes the process's signals, and threads of it may still read standard input when it
/// returns: the process is meant to end then.
///
/// # Errors
///
/// [`WrapError`] if the program cannot be started, or the relay cannot.
pub fn wrap(command: std::process::Command, judge: Judge) -> Result<Outcome, WrapError> {
    let client_input = duplicate(io::stdin())?;
    let client_output = duplicate(io::stdout())?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            Server::start(command, judge, client_input, client_output)?
                .run()
                .await
        })
}

fn duplicate(stream: impl AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}

/// A running server.
struct Server {
    child: Child,
    group: Pid,
    input: Arc<ServerInput>,
    queue: Arc<Queue>,
    /// The output pump waits for the server, so it holds nothing back.
    waits: Arc<AtomicBool>,
    pumps: UnboundedReceiver<Ended>,
    signals: Signals,
    /// The last signal that it got from us.
    sent: Option<Signal>,
    stage: Stage,
}

/// How far its end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// Its input is closed; SIGTERM comes at this instant.
    Closed(time::Instant),
    /// It was signalled; SIGKILL comes at this instant.
    Signalled(time::Instant),
    Killed,
}

impl Server {
    fn start(
        command: std::process::Command,
        judge: Judge,
        client_input: File,
        client_output: File,
    ) -> Result<Self, WrapError> {
        // Before the child, so that no signal finds us without a handler.
        let signals = Signals::new()?;
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = Command::from(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0)
            .spawn()
            .map_err(|error| WrapError::Start { program, error })?;
        let (Some(id), Some(stdin), Some(stdout)) =
            (child.id(), child.stdin.take(), child.stdout.take())
        else {
            return Err(io::Error::other("the server has no pipes").into());
        };
        let (ended, pumps) = mpsc::unbounded_channel();
        let broke = ended.clone();
        let input = Arc::new(ServerInput::new(blocking(stdin.into_owned_fd()?)));
        let queue = Arc::new(Queue::default());
        let waits = Arc::new(AtomicBool::new(false));
        let upward = Upward {
            client: client_input,
            server: Arc::clone(&input),
            polls: Arc::clone(judge.polls()),
            ended: ended.clone(),
        };
        let downward = Downward {
            lines: Lines::new(judge),
            server: blocking(stdout.into_owned_fd()?),
            client: client_output,
            queue: Arc::clone(&queue),
            waits: Arc::clone(&waits),
            ended,
        };
        let refusals = (Arc::clone(&queue), Arc::clone(&input));
        spawn("client-to-server", &broke, || upward.run())?;
        spawn("server-to-client", &broke, || downward.run())?;
        spawn("refusals", &broke, move || refuse(&refusals.0, &refusals.1))?;
        Ok(Self {
            child,
            group: Pid::from_raw(id.cast_signed()),
            input,
            queue,
            waits,
            pumps,
            signals,
            sent: None,
            stage: Stage::Running,
        })
    }

    async fn run(mut self) -> Result<Outcome, WrapError> {
        let mut output_ended = false;
        let status = loop {
            tokio::select! {
                status = self.child.wait() => break status?,
                Some(ended) = self.pumps.recv() => {
                    output_ended |= ended != Ended::ClientInput;
                    self.close();
                }
                signal = self.signals.next() => self.pass_on(signal),
                () = deadline(self.stage) => self.next_stage(),
            }
        };
        self.queue.close();
        match status.signal() {
            // What we were told to do, or have warned of.
            Some(signal) if self.sent.is_some_and(|sent| sent as i32 == signal) => {
                tracing::info!(signal, "the server was ended by our signal");
            }
            Some(signal) => tracing::warn!(signal, "the server was ended by a signal"),
            None => {}
        }
        self.end_group(output_ended).await;
        Ok(Outcome(status))
    }

    /// Closes the server's input, the first step of its end.
    fn close(&mut self) {
        self.input.close();
        if self.stage == Stage::Running {
            self.stage = Stage::Closed(time::Instant::from_std(crate::clock::now()) + CLOSE_WAIT);
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        self.signal(signal);
        if matches!(signal, Signal::SIGTERM | Signal::SIGHUP) {
            self.input.close();
            if matches!(self.stage, Stage::Running | Stage::Closed(_)) {
                self.await_end();
            }
        }
    }

    fn next_stage(&mut self) {
        match self.stage {
            Stage::Running | Stage::Killed => {}
            Stage::Closed(_) => {
                tracing::info!("the server goes on without input: sending SIGTERM");
                self.signal(Signal::SIGTERM);
                self.await_end();
            }
            Stage::Signalled(_) => {
                tracing::warn!("the server does not end: sending SIGKILL");
                self.signal(Signal::SIGKILL);
                self.stage = Stage::Killed;
            }
        }
    }

    fn await_end(&mut self) {
        self.stage = Stage::Signalled(time::Instant::from_std(crate::clock::now()) + KILL_WAIT);
    }

    /// Signals the server and what it started. It may have ended already.
    fn signal(&mut self, signal: Signal) {
        self.sent = Some(signal);
        if let Err(error) = killpg(self.group, signal) {
            tracing::debug!(%error, %signal, "no process was signalled");
        }
    }

    /// Ends the processes that a server left, and waits until all output was sent on.
    async fn end_group(&mut self, output_ended: bool) {
        self.signal(Signal::SIGTERM);
        let mut output_ended = output_ended;
        let mut wait = KILL_WAIT;
        while !output_ended {
            tokio::select! {
                ended = self.pumps.recv() => {
                    output_ended = !matches!(ended, Some(Ended::ClientInput));
                }
                // Whoever sends one now does not want the rest of the output.
                _ = self.signals.next() => break,
                () = time::sleep(wait) => {
                    if wait == LINGER && self.waits.load(Ordering::SeqCst) {
                        tracing::warn!("a process that the server left keeps its output open");
                        break;
                    }
                    self.signal(Signal::SIGKILL);
                    wait = LINGER;
                }
            }
        }
        self.await_group().await;
        self.signal(Signal::SIGKILL);
    }

    /// Gives what is left of the group its time. Nobody tells when a process ends that is not
    /// our child, so it has to be asked for.
    async fn await_group(&self) {
        let ended = async {
            while killpg(self.group, None).is_ok() {
                time::sleep(ASK_EVERY).await;
            }
        };
        // Either way the next step is the same.
        let _ = time::timeout(KILL_WAIT, ended).await;
    }
}

async fn deadline(stage: Stage) {
    match stage {
        Stage::Closed(at) | Stage::Signalled(at) => time::sleep_until(at).await,
        Stage::Running | Stage::Killed => future::pending().await,
    }
}

fn blocking(pipe: OwnedFd) -> File {
    pipe.into()
}

/// Runs a pump. One that panics ends the relay: a client would wait for it for ever.
fn spawn(
    name: &str,
    ended: &UnboundedSender<Ended>,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    struct Broken(UnboundedSender<Ended>);

    impl Drop for Broken {
        fn drop(&mut self) {
            if thread::panicking() {
                // Nobody is left to be told only if the relay has ended.
                let _ = self.0.send(Ended::ClientOutput);
            }
        }
    }

    let ended = Broken(ended.clone());
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let _ended = ended;
            run();
        })?;
    Ok(())
}

/// The signals that are passed on.
struct Signals {
    terminate: unix::Signal,
    hangup: unix::Signal,
    interrupt: unix::Signal,
    quit: unix::Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: unix::signal(SignalKind::terminate())?,
            hangup: unix::signal(SignalKind::hangup())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            quit: unix::signal(SignalKind::quit())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::SIGTERM,
            _ = self.hangup.recv() => Signal::SIGHUP,
            _ = self.interrupt.recv() => Signal::SIGINT,
            _ = self.quit.recv() => Signal::SIGQUIT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The relay waited for it, and its client for the relay.
    #[tokio::test]
    async fn a_pump_that_panics_ends_the_relay() {
        let (ended, mut pumps) = mpsc::unbounded_channel();
        spawn("fine", &ended, || {}).unwrap();
        spawn("broken", &ended, || panic!("as a mistake of ours would")).unwrap();
        drop(ended);
        assert_eq!(pumps.recv().await, Some(Ended::ClientOutput));
        assert_eq!(pumps.recv().await, None);
    }
}
