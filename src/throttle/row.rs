//! A configured server's row: its windows, its limits, and the book of its sessions.

use std::sync::PoisonError;

use super::{
    book::Book, bounds::Bounds, seen::Seen, snapshot::ServerSnapshot, standing::Mute,
    windows::Windows,
};
use crate::{
    limits::{ProtoSettings, ServerName},
    question::QuestionKind,
    sync::Mutex,
    window::{Moment, Owner},
};

/// Everything counted for one configured server.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) windows: Windows,
    pub(super) bounds: Bounds,
    pub(super) mute: Mute,
    /// Its lock is that of all windows in the row, the server's and its sessions'.
    pub(super) book: Mutex<Book>,
    /// Its own lock, always taken before the book's. Made when it is needed: few servers have tasks.
    pub(super) seen: Mutex<Option<Box<Seen>>>,
    /// No question counts as asked before this: rows that were reclaimed had windows until then,
    /// and this server's may have been among them (D5).
    since: Moment,
}

impl Row {
    pub(super) fn new(settings: &ProtoSettings, since: Moment, muted: bool) -> Self {
        Self {
            windows: Windows::default(),
            bounds: Bounds::new(settings),
            mute: Mute::new(muted),
            book: Mutex::new(Book::new(settings.throttle_mode, muted)),
            seen: Mutex::new(None),
            since,
        }
    }

    /// When what is asked at `at` counts as asked.
    #[inline]
    pub(super) fn counts_at(&self, at: Moment) -> Moment {
        at.max(self.since)
    }

    /// Puts new limits in force. Counts stay; a window that is open goes on as it is (D11).
    pub(super) fn set_bounds(&self, settings: &ProtoSettings) {
        // A poisoned row refuses everything, whatever its limits are (D13).
        let Ok(mut book) = self.book.lock() else {
            return;
        };
        self.each_window(&book, |kind, _, windows| {
            windows.set(kind, windows.window(kind), None);
        });
        self.bounds.replace(settings);
        book.set_mode(settings.throttle_mode);
        self.shut_windows(&mut book);
    }

    /// Mutes the server, or lets it ask again. Counts and windows stay.
    pub(super) fn set_muted(&self, muted: bool) {
        // A poisoned row refuses everything as it is (D13).
        let Ok(mut book) = self.book.lock() else {
            return;
        };
        if muted && !self.mute.is_on() {
            book.keep_muted(QuestionKind::ALL.map(|kind| self.mute.take_refused(kind)));
        }
        self.mute.set(muted);
        self.shut_windows(&mut book);
    }

    /// Shuts the windows that are full, if that is to refuse what comes, and opens all others.
    fn shut_windows(&self, book: &mut Book) {
        let standing = book.set_standing(self.mute.is_on());
        self.each_window(book, |kind, owner, windows| {
            let limit = standing.shuts(self.bounds.bound(kind, owner));
            windows.set(kind, windows.window(kind), limit);
        });
    }

    fn each_window(&self, book: &Book, f: impl Fn(QuestionKind, Owner, &Windows)) {
        for kind in QuestionKind::ALL {
            f(kind, Owner::Server, &self.windows);
            for windows in book.session_windows() {
                f(kind, Owner::Session, windows);
            }
        }
    }

    /// Ends a session's windows. Gives back from when the row can be reclaimed, if this was its
    /// last session.
    pub(super) fn end_session(&self, key: usize) -> Option<Moment> {
        // Even a poisoned row lets go of its sessions: nothing is decided by that.
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let was_last = book.remove_session(key);
        was_last.then(|| self.all_ended())
    }

    /// From when this row can be reclaimed; `None` while it has a session or is poisoned.
    pub(super) fn reclaimable_from(&self) -> Option<Moment> {
        let book = self.book.lock().ok()?;
        (!book.has_sessions()).then(|| self.all_ended())
    }

    /// When the last of the server's windows ends or has ended. The caller holds the lock.
    fn all_ended(&self) -> Moment {
        QuestionKind::ALL
            .map(|kind| self.windows.window(kind).last_ends())
            .into_iter()
            .fold(Moment::START, Moment::max)
    }

    pub(super) fn snapshot(&self, server: ServerName, at: Moment) -> ServerSnapshot {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.snapshot(self, server, at)
    }
}
