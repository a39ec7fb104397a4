//! Which of a task's questions were charged already: a poll repeats them until they are answered.

use std::{
    collections::{HashMap, HashSet, hash_map::RandomState},
    hash::{BuildHasher, Hash, Hasher},
};

use super::{Admission, Ask};
use crate::question::{Method, QuestionKind};

/// Remembered entries of one task.
const PER_TASK: usize = 1024;
/// Remembered entries of one server, over all its tasks.
const PER_SERVER: usize = 10_000;

/// One entry of a task's `inputRequests`.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What kind of question it is.
    pub kind: QuestionKind,
    /// Its method.
    pub method: Method,
    /// Its key in the map.
    pub key: String,
    /// The question itself, serialised: another question under an old key is new.
    pub content: Vec<u8>,
}

impl Entry {
    /// What these entries ask.
    pub(crate) fn ask<'e>(entries: impl IntoIterator<Item = &'e Self>) -> Ask<'e> {
        entries.into_iter().fold(Ask::new(), |ask, entry| {
            ask.and(entry.kind, &entry.method, 1)
        })
    }
}

/// What a look at a task's entries came to.
#[derive(Debug)]
#[must_use = "new entries are charged"]
pub struct TaskInput<'e> {
    /// What was new, and is charged now.
    pub charged: Ask<'e>,
    /// The entries to show, each once: empty unless they were taken.
    pub entries: Vec<&'e Entry>,
    /// Covers the entries to show.
    pub admission: Admission,
}

/// What to do with entries besides charging for the new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskUse {
    /// Nothing: the caller sees them and may show them.
    Charge,
    /// Take those that nobody has taken yet, to show them. An entry is taken once, whoever polls
    /// the task and however often, so that one charge never opens two prompts. What was taken and
    /// could not be answered is given up with
    /// [`Session::forget_entries`](super::Session::forget_entries): it costs anew.
    Take,
}

/// The memory of a server's tasks: keyed hashes, so that it is small and a server cannot aim at
/// a collision.
#[derive(Debug, Default)]
pub(super) struct Seen {
    hasher: RandomState,
    /// By task and entry: whether it was taken.
    tasks: HashMap<u64, HashMap<u64, bool>>,
    entries: usize,
}

/// Entries sorted by what is known of them, each once.
#[derive(Debug, Default)]
pub(super) struct Sorted<'e> {
    /// Never seen, or forgotten.
    pub(super) fresh: Vec<&'e Entry>,
    /// Charged before, and taken by nobody.
    pub(super) waiting: Vec<&'e Entry>,
}

impl Seen {
    pub(super) fn sort<'e>(&self, task: &str, entries: &'e [Entry]) -> Sorted<'e> {
        let known = self.tasks.get(&self.hasher.hash_one(task));
        let mut met = HashSet::new();
        let mut sorted = Sorted::default();
        for entry in entries {
            let hash = self.hash(entry);
            if !met.insert(hash) {
                continue;
            }
            match known.and_then(|known| known.get(&hash)) {
                None => sorted.fresh.push(entry),
                Some(false) => sorted.waiting.push(entry),
                Some(true) => {}
            }
        }
        sorted
    }

    /// Remembers entries, as far as there is room. What is not remembered is charged again when
    /// it comes again, so a full memory can never be used to ask for free.
    pub(super) fn remember(&mut self, task: &str, sorted: &Sorted<'_>, taken: bool) {
        let hash_all = |entries: &[&Entry]| -> Vec<u64> {
            entries.iter().map(|entry| self.hash(entry)).collect()
        };
        let (fresh, waiting) = (hash_all(&sorted.fresh), hash_all(&sorted.waiting));
        let task = self.hasher.hash_one(task);
        if taken && let Some(known) = self.tasks.get_mut(&task) {
            known.extend(waiting.into_iter().map(|hash| (hash, true)));
        }
        if fresh.is_empty() || self.entries >= PER_SERVER {
            return;
        }
        let known = self.tasks.entry(task).or_default();
        for hash in fresh {
            if known.len() >= PER_TASK || self.entries >= PER_SERVER {
                return;
            }
            known.insert(hash, taken);
            self.entries += 1;
        }
    }

    /// Forgets entries of a task.
    pub(super) fn forget_entries(&mut self, task: &str, entries: &[Entry]) {
        let hashes: Vec<u64> = entries.iter().map(|entry| self.hash(entry)).collect();
        let task = self.hasher.hash_one(task);
        let Some(known) = self.tasks.get_mut(&task) else {
            return;
        };
        let forgotten = hashes.iter().filter(|hash| known.remove(hash).is_some());
        self.entries -= forgotten.count();
        if known.is_empty() {
            self.tasks.remove(&task);
        }
    }

    /// Forgets a task.
    pub(super) fn forget(&mut self, task: &str) {
        if let Some(known) = self.tasks.remove(&self.hasher.hash_one(task)) {
            self.entries -= known.len();
        }
    }

    fn hash(&self, entry: &Entry) -> u64 {
        let mut state = self.hasher.build_hasher();
        entry.key.hash(&mut state);
        entry.content.hash(&mut state);
        state.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, content: &str) -> Entry {
        Entry {
            kind: QuestionKind::Elicitation,
            method: QuestionKind::Elicitation.into(),
            key: key.to_owned(),
            content: content.as_bytes().to_vec(),
        }
    }

    fn charge(seen: &mut Seen, task: &str, entries: &[Entry]) -> usize {
        let sorted = seen.sort(task, entries);
        seen.remember(task, &sorted, false);
        sorted.fresh.len()
    }

    #[test]
    fn another_question_under_an_old_key_is_new() {
        let mut seen = Seen::default();
        let first = [entry("a", "name?"), entry("b", "age?")];
        assert_eq!(charge(&mut seen, "t", &first), 2);
        assert_eq!(charge(&mut seen, "t", &first), 0);
        assert_eq!(charge(&mut seen, "t", &[entry("a", "password?")]), 1);
        assert_eq!(charge(&mut seen, "other", &first), 2);
        seen.forget("t");
        assert_eq!(charge(&mut seen, "t", &first), 2);
    }

    #[test]
    fn an_entry_is_taken_once() {
        let mut seen = Seen::default();
        let first = [entry("a", "name?"), entry("a", "name?")];
        assert_eq!(charge(&mut seen, "t", &first), 1);
        let sorted = seen.sort("t", &first);
        assert_eq!((sorted.fresh.len(), sorted.waiting.len()), (0, 1));
        seen.remember("t", &sorted, true);
        let sorted = seen.sort("t", &first);
        assert_eq!((sorted.fresh.len(), sorted.waiting.len()), (0, 0));
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut seen = Seen::default();
        let many: Vec<_> = (0..2000).map(|i| entry(&i.to_string(), "q")).collect();
        for task in 0..20 {
            charge(&mut seen, &task.to_string(), &many);
        }
        assert_eq!(seen.entries, PER_SERVER);
        assert_eq!(seen.sort("0", &many).fresh.len(), 2000 - PER_TASK);
        assert_eq!(
            seen.sort("19", &many).fresh.len(),
            2000,
            "what found no room is charged each time"
        );
        for task in 0..20 {
            seen.forget(&task.to_string());
        }
        assert_eq!(seen.entries, 0);
    }
}
