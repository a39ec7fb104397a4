//! What the driver of a task has answered already.

use std::{
    collections::{HashMap, HashSet, hash_map::RandomState},
    hash::BuildHasher,
};

use rmcp::model::{InputRequest, InputRequests};

/// How many questions of one task are remembered by its driver, beside those that it repeats.
const MOST_ANSWERED: usize = 10_000;

/// What one driver of a task has answered, as keyed hashes: it never shows an entry twice, even
/// where the server's memory of entries is full.
///
/// What is no question costs its server nothing, so it is remembered only for as long as the task
/// repeats it. Questions are remembered to the task's end, unless there are too many of them:
/// then one that was taken back and comes again is another one, and is charged as such.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    hasher: RandomState,
    /// Whether each was a question.
    entries: HashMap<u64, bool>,
}

impl Answered {
    /// Leaves what was not answered yet, and forgets what need not be remembered any more.
    pub(super) fn retain_new(&mut self, inputs: &mut InputRequests) {
        let mut repeated = HashSet::new();
        inputs.retain(|key, input| {
            let hash = self.hash(key, input);
            let is_new = !self.entries.contains_key(&hash);
            if !is_new {
                repeated.insert(hash);
            }
            is_new
        });
        let is_full = self.entries.len() > MOST_ANSWERED;
        self.entries
            .retain(|hash, is_question| repeated.contains(hash) || (*is_question && !is_full));
    }

    pub(super) fn insert(&mut self, key: &str, input: &InputRequest, is_question: bool) {
        let hash = self.hash(key, input);
        self.entries.insert(hash, is_question);
    }

    fn hash(&self, key: &str, input: &InputRequest) -> u64 {
        self.hasher
            .hash_one((key, serde_json::to_vec(input).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{support::inputs, wire::Message};

    /// Answers what is new of a poll, as the driver does, and says how much that was.
    fn answer(answered: &mut Answered, entries: &[(&str, &str)]) -> usize {
        let mut new: InputRequests = serde_json::from_value(inputs(entries)).unwrap();
        answered.retain_new(&mut new);
        for (key, input) in &new {
            answered.insert(key, input, input.method() != "roots/list");
        }
        new.len()
    }

    /// A server that asks for roots, which are free, under ever other keys once grew the memory of
    /// its task's driver without end.
    #[test]
    fn what_is_free_is_remembered_while_it_is_repeated() {
        let mut answered = Answered::default();
        let mut first: Vec<_> = (0..50).map(|key| format!("kept {key}")).collect();
        for poll in 0..200 {
            first.truncate(50);
            first.extend((0..50).map(|key| format!("{poll} {key}")));
            let entries: Vec<_> = first.iter().map(|key| (&**key, "roots/list")).collect();
            let new = if poll == 0 { 100 } else { 50 };
            assert_eq!(answer(&mut answered, &entries), new, "poll {poll}");
            assert_eq!(answered.entries.len(), 100, "poll {poll}");
        }
        assert!(answered.entries.capacity() < 1000);
    }

    #[test]
    fn a_question_is_remembered_though_it_was_taken_back_for_a_while() {
        let mut answered = Answered::default();
        let question = [("a", "elicitation/create")];
        assert_eq!(answer(&mut answered, &question), 1);
        assert_eq!(answer(&mut answered, &[]), 0);
        assert_eq!(answer(&mut answered, &question), 0);
    }

    /// Where limits are off, questions come by the thousand as well.
    #[test]
    fn questions_are_remembered_up_to_a_bound() {
        let mut answered = Answered::default();
        for poll in 0..13 {
            let keys: Vec<_> = (0..1000).map(|key| format!("{poll} {key}")).collect();
            let mut entries: Vec<_> = keys
                .iter()
                .map(|key| (&**key, "sampling/createMessage"))
                .collect();
            entries.push(("kept", "sampling/createMessage"));
            let new = if poll == 0 { 1001 } else { 1000 };
            assert_eq!(answer(&mut answered, &entries), new, "poll {poll}");
            assert!(
                answered.entries.len() <= MOST_ANSWERED + 1001,
                "poll {poll}"
            );
        }
    }
}
