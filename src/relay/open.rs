//! Questions that a client was shown and has not answered yet, to know how long answers take.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use memchr::memmem;

use super::polls::Sent;
use crate::usage::OpenQuestion;

/// Questions that are watched at once; how the others end is not known.
const MOST: usize = 1024;
/// Longer ids are not remembered.
const LONGEST_ID: usize = 1024;
const CANCELLED: &str = "notifications/cancelled";

/// The open questions of one session, by id. For people to look at: nothing is decided by it.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: Mutex<HashMap<Box<[u8]>, OpenQuestion>>,
    /// So that nothing is read for its answers while none is awaited.
    any: AtomicBool,
}

impl Questions {
    /// A question goes to the client.
    pub(super) fn add(&self, id: &[u8], question: OpenQuestion) {
        let mut open = self.open();
        if open.len() >= MOST || id.len() > LONGEST_ID {
            question.unwatched();
            return;
        }
        self.any.store(true, Ordering::Relaxed);
        // Of two with one id the answer is to the later one, as the client sees it.
        open.insert(id.into(), question);
    }

    /// A message of the client's goes to the server: it may be an answer.
    #[cfg(feature = "serve")]
    pub(super) fn note_answer(&self, message: &[u8]) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        Sent::each(message, |sent| {
            if let (None, Some(id)) = (&sent.method, sent.id)
                && let Some(question) = self.take(id)
            {
                question.answered();
            }
        });
    }

    /// A message of the server's goes to the client: it may take a question back.
    pub(super) fn note_cancel(&self, message: &[u8]) {
        if !self.any.load(Ordering::Relaxed)
            || memmem::find(message, CANCELLED.as_bytes()).is_none()
        {
            return;
        }
        Sent::each(message, |sent| {
            if sent.method.as_deref() == Some(CANCELLED)
                && let Some(id) = sent.request_id
            {
                drop(self.take(id));
            }
        });
    }

    fn take(&self, id: &[u8]) -> Option<OpenQuestion> {
        let mut open = self.open();
        let question = open.remove(id);
        self.any.store(!open.is_empty(), Ordering::Relaxed);
        question
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, OpenQuestion>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
