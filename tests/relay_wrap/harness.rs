//! The real command between a test and a small server.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything here takes; whoever waits this long has met a deadlock.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the servers have in common.
pub(crate) const PRELUDE: &str = r#"
import json, os, signal, sys, threading, time
out, source, log = sys.stdout.buffer, sys.stdin.buffer, sys.stderr
def send(*messages):
    out.write(b"".join((m if isinstance(m, bytes) else json.dumps(m).encode()) + b"\n" for m in messages))
    out.flush()
def ask(id, method="elicitation/create"):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {"message": "q"}}
def say(text):
    log.write(str(text) + "\n"); log.flush()
"#;

pub(crate) struct Wrapped {
    child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<BufReader<ChildStdout>>,
    stderr: Receiver<String>,
    _folder: TempDir,
}

impl Wrapped {
    /// A server in Python, held to five elicitations.
    pub(crate) fn python(server: &str) -> Self {
        let script = format!("{PRELUDE}{server}");
        Self::start(&["--", "python3", "-c", &script])
    }

    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_with("[proto]\nelicitationPerMinute = 5\n", args)
    }

    pub(crate) fn start_with(settings: &str, args: &[&str]) -> Self {
        Self::logging(settings, args, Stdio::piped())
    }

    /// With an end of its log that the test chose: nothing of it is seen if it is no pipe.
    pub(crate) fn logging(settings: &str, args: &[&str], log: Stdio) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("limits.toml");
        fs::write(&file, settings).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_mcp-question-throttle"))
            .args(["wrap", "--server", "github", "--settings"])
            .arg(file)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take(),
            stdout: child.stdout.take().map(BufReader::new),
            stderr: child
                .stderr
                .take()
                .map_or_else(|| mpsc::channel().1, lines_of),
            child,
            _folder: folder,
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    /// The next line for the client.
    pub(crate) fn receive(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        let stdout = self.stdout.as_mut().unwrap();
        stdout.read_until(b'\n', &mut line).unwrap();
        line
    }

    pub(crate) fn receive_json(&mut self) -> Value {
        serde_json::from_slice(&self.receive()).unwrap()
    }

    /// All that is left for the client.
    pub(crate) fn receive_all(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let stdout = self.stdout.as_mut().unwrap();
        stdout.read_to_end(&mut all).unwrap();
        all
    }

    /// Waits for a line on stderr that holds `text`.
    pub(crate) fn logged(&self, text: &str) -> String {
        let mut before = String::new();
        loop {
            match self.stderr.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => before = format!("{before}\n{line}"),
                Err(_) => panic!("{text:?} is not on stderr:{before}"),
            }
        }
    }

    /// What is left on stderr once all who write there have ended.
    pub(crate) fn rest_of_log(&self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            match self.stderr.recv_timeout(PATIENCE) {
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Disconnected) => return lines,
                Err(RecvTimeoutError::Timeout) => panic!("stderr stays open: {lines:?}"),
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        signal::kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// The most memory that it had, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kilobytes = peak.unwrap().split_whitespace().nth(1).unwrap();
        kilobytes.parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Wrapped {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind; one that passed has ended it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(stderr: ChildStderr) -> Receiver<String> {
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie has ended; who reaps it is not our business.
    !stat.is_empty() && !stat.contains(") Z ")
}

pub(crate) const MEBIBYTE: usize = 1024 * 1024;
