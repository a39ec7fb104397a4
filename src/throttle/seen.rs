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
    tasks: HashMap<u64, Known>,
    /// Over all tasks.
    entries: usize,
    /// How often something was remembered.
    turn: u64,
}

/// What is known of one task.
#[derive(Debug, Default)]
struct Known {
    /// By entry: whether it was taken.
    entries: HashMap<u64, bool>,
    /// The turn of its last use.
    used: u64,
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
            match known.and_then(|known| known.entries.get(&hash)) {
                None => sorted.fresh.push(entry),
                Some(false) => sorted.waiting.push(entry),
                Some(true) => {}
            }
        }
        sorted
    }

    /// Remembers entries, as far as there is room for them in their task. For want of room for
    /// the server's, the tasks that were used longest ago are forgotten: most of them were left by
    /// their callers, and nobody will tell of their ends. What is not remembered is charged again
    /// when it comes again, so a full memory can never be used to ask for free.
    pub(super) fn remember(&mut self, task: &str, sorted: &Sorted<'_>, taken: bool) {
        let hash_all = |entries: &[&Entry]| -> Vec<u64> {
            entries.iter().map(|entry| self.hash(entry)).collect()
        };
        let (mut fresh, waiting) = (hash_all(&sorted.fresh), hash_all(&sorted.waiting));
        let task = self.hasher.hash_one(task);
        self.turn += 1;
        let mut known = self.tasks.remove(&task).unwrap_or_default();
        known.used = self.turn;
        if taken {
            known
                .entries
                .extend(waiting.into_iter().map(|hash| (hash, true)));
        }
        fresh.truncate(PER_TASK - known.entries.len());
        while self.entries + fresh.len() > PER_SERVER && self.forget_oldest() {}
        self.entries += fresh.len();
        known
            .entries
            .extend(fresh.into_iter().map(|hash| (hash, taken)));
        if !known.entries.is_empty() {
            self.tasks.insert(task, known);
        }
    }

    /// Forgets the task that was used longest ago, if there is one.
    fn forget_oldest(&mut self) -> bool {
        let oldest = self.tasks.iter().min_by_key(|(_, known)| known.used);
        let forgotten = oldest
            .map(|(task, _)| *task)
            .and_then(|task| self.tasks.remove(&task));
        self.entries -= forgotten.as_ref().map_or(0, |known| known.entries.len());
        forgotten.is_some()
    }

    /// Forgets entries of a task.
    pub(super) fn forget_entries(&mut self, task: &str, entries: &[Entry]) {
        let hashes: Vec<u64> = entries.iter().map(|entry| self.hash(entry)).collect();
        let task = self.hasher.hash_one(task);
        let Some(known) = self.tasks.get_mut(&task) else {
            return;
        };
        let forgotten = hashes
            .iter()
            .filter(|hash| known.entries.remove(hash).is_some());
        self.entries -= forgotten.count();
        if known.entries.is_empty() {
            self.tasks.remove(&task);
        }
    }

    /// Forgets a task.
    pub(super) fn forget(&mut self, task: &str) {
        if let Some(known) = self.tasks.remove(&self.hasher.hash_one(task)) {
            self.entries -= known.entries.len();
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
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::{collection::vec, prelude::*};

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

    /// It once filled up for good with what was never told to have ended: then every poll of
    /// every task was charged anew.
    #[test]
    fn the_memory_is_bounded_and_keeps_what_is_in_use() {
        let mut seen = Seen::default();
        let many: Vec<_> = (0..2000).map(|i| entry(&i.to_string(), "q")).collect();
        let few = [entry("a", "q"), entry("b", "q")];
        assert_eq!(charge(&mut seen, "in use", &few), 2);
        for task in 0..20 {
            assert_eq!(charge(&mut seen, &task.to_string(), &many), 2000);
            assert_eq!(charge(&mut seen, "in use", &few), 0);
            assert!(seen.entries <= PER_SERVER, "{}", seen.entries);
        }
        let fresh = |seen: &Seen, task| seen.sort(task, &many).fresh.len();
        assert_eq!(fresh(&seen, "0"), 2000, "used longest ago");
        assert_eq!(fresh(&seen, "19"), 2000 - PER_TASK);
        assert_eq!(
            charge(&mut seen, "19", &many),
            2000 - PER_TASK,
            "what finds no room in its task is charged each time"
        );
        seen.forget("in use");
        for task in 0..20 {
            seen.forget(&task.to_string());
        }
        assert_eq!((seen.entries, seen.tasks.len()), (0, 0));
    }

    /// What can be done with one poll of a task.
    #[derive(Clone, Copy, Debug)]
    enum Act {
        Charge,
        Take,
        GiveUp,
        End,
    }

    proptest! {
        /// Entry by entry, what is remembered is what a plain list of all that happened says.
        #[test]
        fn every_entry_is_fresh_waiting_or_taken_as_a_plain_list_says(
            acts in vec(
                (
                    prop_oneof![Just(Act::Charge), Just(Act::Take), Just(Act::GiveUp), Just(Act::End)],
                    0..3_u8,
                    vec((0..3_u8, 0..2_u8), 0..5),
                ),
                0..40,
            )
        ) {
            let mut seen = Seen::default();
            let mut list = BTreeMap::new();
            for (act, task, polled) in acts {
                let name = task.to_string();
                let place = |entry: &Entry| (task, entry.key.clone(), entry.content.clone());
                let polled: Vec<_> = polled
                    .iter()
                    .map(|(key, content)| entry(&key.to_string(), &content.to_string()))
                    .collect();
                match act {
                    Act::Charge | Act::Take => {
                        let taken = matches!(act, Act::Take);
                        let sorted = seen.sort(&name, &polled);
                        let of = |state: Option<bool>| -> BTreeSet<_> {
                            let places = polled.iter().map(place);
                            places.filter(|place| list.get(place).copied() == state).collect()
                        };
                        let places = |entries: &[&Entry]| -> Vec<_> {
                            let mut all: Vec<_> = entries.iter().map(|it| place(it)).collect();
                            all.sort();
                            all
                        };
                        prop_assert_eq!(places(&sorted.fresh), Vec::from_iter(of(None)));
                        prop_assert_eq!(places(&sorted.waiting), Vec::from_iter(of(Some(false))));
                        seen.remember(&name, &sorted, taken);
                        for place in polled.iter().map(place) {
                            *list.entry(place).or_insert(taken) |= taken;
                        }
                    }
                    Act::GiveUp => {
                        seen.forget_entries(&name, &polled);
                        list.retain(|known, _| !polled.iter().any(|it| place(it) == *known));
                    }
                    Act::End => {
                        seen.forget(&name);
                        list.retain(|(of, ..), _| *of != task);
                    }
                }
                prop_assert_eq!(seen.entries, list.len());
                prop_assert!(seen.tasks.values().all(|known| !known.entries.is_empty()));
            }
        }
    }
}
