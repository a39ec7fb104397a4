//! Which of a task's questions were charged already: a poll repeats them until they are answered.

use std::{
    collections::{HashMap, HashSet, hash_map::RandomState},
    hash::{BuildHasher, Hash},
};

use super::Admission;
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

/// The entries that were new, and the admission that was charged for them.
#[derive(Debug)]
#[must_use = "the new entries are charged"]
pub struct Unseen<'e> {
    /// Covers each of the new entries.
    pub admission: Admission,
    /// The new entries, in the order given.
    pub entries: Vec<&'e Entry>,
}

impl Unseen<'_> {
    pub(super) const fn none() -> Self {
        Self {
            admission: Admission { questions: 0 },
            entries: Vec::new(),
        }
    }
}

/// The memory of a server's tasks: keyed hashes, so that it is small and a server cannot aim at
/// a collision.
#[derive(Debug, Default)]
pub(super) struct Seen {
    hasher: RandomState,
    tasks: HashMap<u64, HashSet<u64>>,
    entries: usize,
}

impl Seen {
    /// Those of `entries` that are not remembered, each once.
    pub(super) fn unseen<'e>(&self, task: &str, entries: &'e [Entry]) -> Vec<&'e Entry> {
        let known = self.tasks.get(&self.hasher.hash_one(task));
        let mut fresh = HashSet::new();
        entries
            .iter()
            .filter(|entry| {
                let hash = self.hash(entry);
                known.is_none_or(|known| !known.contains(&hash)) && fresh.insert(hash)
            })
            .collect()
    }

    /// Remembers entries, as far as there is room. What is not remembered is charged again when
    /// it comes again, so a full memory can never be used to ask for free.
    pub(super) fn remember(&mut self, task: &str, entries: &[&Entry]) {
        if entries.is_empty() || self.entries >= PER_SERVER {
            return;
        }
        let hashes: Vec<_> = entries.iter().map(|entry| self.hash(entry)).collect();
        let known = self.tasks.entry(self.hasher.hash_one(task)).or_default();
        for hash in hashes {
            if known.len() < PER_TASK && self.entries < PER_SERVER && known.insert(hash) {
                self.entries += 1;
            }
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
        std::hash::Hasher::finish(&state)
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

    #[test]
    fn another_question_under_an_old_key_is_new() {
        let mut seen = Seen::default();
        let first = [entry("a", "name?"), entry("b", "age?")];
        seen.remember("t", &seen.unseen("t", &first));
        assert!(seen.unseen("t", &first).is_empty());
        assert_eq!(seen.unseen("t", &[entry("a", "password?")]).len(), 1);
        assert_eq!(seen.unseen("other", &first).len(), 2);
        seen.forget("t");
        assert_eq!(seen.unseen("t", &first).len(), 2);
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut seen = Seen::default();
        let many: Vec<_> = (0..2000).map(|i| entry(&i.to_string(), "q")).collect();
        for task in 0..20 {
            let task = task.to_string();
            seen.remember(&task, &seen.unseen(&task, &many));
        }
        assert_eq!(seen.entries, PER_SERVER);
        assert_eq!(seen.unseen("0", &many).len(), 2000 - PER_TASK);
        assert_eq!(
            seen.unseen("19", &many).len(),
            2000,
            "what found no room is charged each time"
        );
        for task in 0..20 {
            seen.forget(&task.to_string());
        }
        assert_eq!(seen.entries, 0);
    }
}
