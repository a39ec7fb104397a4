//! The server's standard input, shared by the client's lines and by our refusals.

use std::{
    fs::File,
    io::{self, Write},
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
};

/// A pipe on which lines never mix.
#[derive(Debug)]
pub(super) struct ServerInput {
    state: Mutex<State>,
    changed: Condvar,
    closing: AtomicBool,
}

#[derive(Debug)]
struct State {
    /// `None` once it is closed, by us or by the server.
    pipe: Option<File>,
    /// The client's line so far has no end.
    in_line: bool,
}

impl ServerInput {
    pub(super) const fn new(pipe: File) -> Self {
        Self {
            state: Mutex::new(State {
                pipe: Some(pipe),
                in_line: false,
            }),
            changed: Condvar::new(),
            closing: AtomicBool::new(false),
        }
    }

    /// Writes bytes of the client's. Until they end a line, nothing else is written.
    ///
    /// # Errors
    ///
    /// When the server has closed its input; later writes do nothing.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        let written = state.write(bytes);
        state.in_line = bytes.last().is_some_and(|last| *last != b'\n');
        self.leave(state);
        written
    }

    /// Writes lines of ours, between two of the client's.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub(super) fn write_lines(&self, lines: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        while state.in_line && state.pipe.is_some() {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let written = state.write(lines);
        self.leave(state);
        written
    }

    /// Closes the pipe; if a write is stuck on it, as soon as that ends. Never blocks.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        match self.state.try_lock() {
            Ok(state) => self.leave(state),
            Err(TryLockError::Poisoned(poisoned)) => self.leave(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, mut state: MutexGuard<'_, State>) {
        if self.closing.load(Ordering::SeqCst) {
            state.pipe = None;
        }
        drop(state);
        self.changed.notify_all();
        // Whoever wanted to close it meanwhile has found it locked, and relies on us.
        if self.closing.load(Ordering::SeqCst)
            && let Ok(mut state) = self.state.try_lock()
        {
            state.pipe = None;
            self.changed.notify_all();
        }
    }
}

impl State {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(());
        };
        let written = pipe.write_all(bytes);
        if written.is_err() {
            self.pipe = None;
        }
        written
    }
}
