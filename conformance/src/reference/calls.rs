//! The calls of the reference client, with everything that a server can ask by their results.

use std::{collections::BTreeMap, sync::atomic::Ordering, thread, time::Duration};

use serde_json::{Map, Value, json};

use super::{answers::is_readable, connection::Connection, wrong::Wrong};
use crate::protocol::Kind;

/// A call that a server offers.
#[derive(Clone, Debug)]
pub(super) struct Call {
    method: &'static str,
    params: Value,
}

/// The connection ended before the call did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed;

/// What becomes of questions that are asked together.
enum Together {
    Answered(Map<String, Value>),
    Refused,
}

impl Connection {
    /// Everything that the server offers to be called.
    pub(super) fn calls(&self) -> Result<Vec<Call>, Closed> {
        let mut calls = Vec::new();
        for (list, entries, method, key) in [
            ("tools/list", "tools", "tools/call", "name"),
            ("prompts/list", "prompts", "prompts/get", "name"),
            ("resources/list", "resources", "resources/read", "uri"),
        ] {
            if !self.offers(entries) {
                continue;
            }
            let listed = self.request(list, json!({})).ok_or(Closed)?;
            for entry in listed["result"][entries].as_array().into_iter().flatten() {
                let params = json!({key: entry[key]});
                calls.push(Call { method, params });
            }
        }
        Ok(calls)
    }

    /// Makes a call, and goes through with its rounds, its task or its URLs.
    pub(super) fn call(&self, call: &Call) -> Result<(), Closed> {
        if self.is(Wrong::ForgetsBetweenCalls) {
            self.forget();
        }
        let mut params = call.params.clone();
        for round in 0.. {
            let reply = self.request(call.method, params.clone()).ok_or(Closed)?;
            if reply["error"]["code"] == -32042 {
                self.show_urls(
                    &reply["error"]["data"]["elicitations"],
                    Wrong::UrlsUnguarded,
                );
            }
            let result = &reply["result"];
            if result["resultType"] == "task" {
                return self.follow(result);
            }
            if result["resultType"] != "input_required" || round == self.rounds_per_call() {
                return Ok(());
            }
            let entries = result["inputRequests"]
                .as_object()
                .cloned()
                .unwrap_or_default();
            let is_guarded = !self.is(Wrong::RoundsUnguarded)
                && (!self.is(Wrong::ToolsOnly) || call.method == "tools/call");
            let Together::Answered(responses) = self.answer_together(&entries, is_guarded) else {
                return Ok(());
            };
            params = call.params.clone();
            if !responses.is_empty() {
                params["inputResponses"] = Value::Object(responses);
            }
            if let Some(state) = self.state(result.get("requestState")) {
                params["requestState"] = state;
            }
        }
        Ok(())
    }

    fn rounds_per_call(&self) -> u32 {
        let allowed = self.shared().limits.ask_rounds;
        match self.shared().wrong {
            Some(Wrong::EndlessRounds) => u32::MAX,
            Some(Wrong::OneRoundMore) => allowed + 1,
            Some(Wrong::OneRoundLess) => allowed - 1,
            _ => allowed,
        }
    }

    fn state(&self, state: Option<&Value>) -> Option<Value> {
        match (self.shared().wrong, state) {
            (Some(Wrong::ChangesState), Some(state)) => {
                let text = state.as_str().unwrap_or_default();
                Some(json!(text.replace('\u{0}', "")))
            }
            (Some(Wrong::InventsState), None) => Some(json!("")),
            (_, state) => state.cloned(),
        }
    }

    /// Answers all entries, if they may be.
    fn answer_together(&self, entries: &Map<String, Value>, is_guarded: bool) -> Together {
        let mut entries = entries.clone();
        let is_readable = |entry: &Value| match entry["method"].as_str() {
            Some("roots/list") => true,
            Some(method) => {
                let kind = Kind::of(method);
                kind.is_some_and(|kind| is_readable(kind, &entry["params"]))
            }
            None => false,
        };
        let unreadable = entries.values().any(|entry| !is_readable(entry));
        if self.is(Wrong::LeavesOutUnreadable) {
            entries.retain(|_, entry| is_readable(entry));
        } else if unreadable && self.is(Wrong::ReadsAsItGoes) {
            entries.retain(|_, entry| is_readable(entry));
            self.answer_readable(&entries, is_guarded);
            return Together::Refused;
        } else if unreadable {
            let mut kinds = self.kinds(&entries);
            match self.shared().wrong {
                Some(Wrong::ChargesUnreadable) => {}
                Some(Wrong::ChargesReadablePart) => {
                    entries.retain(|_, entry| is_readable(entry));
                    kinds = self.kinds(&entries);
                }
                Some(Wrong::ChargesEveryEntry) => {
                    kinds.resize(entries.len(), Kind::Elicitation);
                }
                _ => return Together::Refused,
            }
            // Whether there was room makes no difference to what comes next.
            let _ = self.admit(&kinds);
            return Together::Refused;
        }
        self.answer_readable(&entries, is_guarded)
    }

    /// The questions among entries.
    fn kinds(&self, entries: &Map<String, Value>) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = entries.values().filter_map(kind).collect();
        if self.is(Wrong::EverythingIsAQuestion) {
            let others = entries.values().filter(|entry| kind(entry).is_none());
            kinds.extend(others.map(|_| Kind::Elicitation));
        }
        if self.is(Wrong::RoundCountsOnce) {
            kinds.truncate(1);
        }
        kinds
    }

    fn answer_readable(&self, entries: &Map<String, Value>, is_guarded: bool) -> Together {
        let one_by_one = self.is(Wrong::EntryByEntry) || self.is(Wrong::HalfRound);
        if is_guarded && !one_by_one && self.admit(&self.kinds(entries)).is_err() {
            let answer = |kind: Kind| self.fabricated(kind);
            let fabricated: Option<Map<String, Value>> = entries
                .iter()
                .map(|(key, entry)| Some((key.clone(), kind(entry).map_or(Some(roots()), answer)?)))
                .collect();
            return fabricated.map_or(Together::Refused, Together::Answered);
        }
        let mut responses = Map::new();
        for (key, entry) in entries {
            let Some(kind) = kind(entry) else {
                responses.insert(key.clone(), roots());
                continue;
            };
            if is_guarded && one_by_one && self.admit(&[kind]).is_err() {
                if self.is(Wrong::EntryByEntry) {
                    return Together::Refused;
                }
                continue;
            }
            responses.insert(key.clone(), self.handle(kind));
        }
        Together::Answered(responses)
    }

    /// Polls a task to its end, and answers what it asks, once.
    fn follow(&self, created: &Value) -> Result<(), Closed> {
        let id = &created["taskId"];
        // What was seen, by key and content: another question under the same key is another question.
        let mut seen = BTreeMap::new();
        loop {
            let reply = self
                .request("tasks/get", json!({"taskId": id}))
                .ok_or(Closed)?;
            let task = &reply["result"];
            if task["status"] == "failed" && task["error"]["code"] == -32042 {
                self.show_urls(
                    &task["error"]["data"]["elicitations"],
                    Wrong::FailedTasksUnguarded,
                );
            }
            if task["status"] != "working" && task["status"] != "input_required" {
                return Ok(());
            }
            let entries = task["inputRequests"]
                .as_object()
                .cloned()
                .unwrap_or_default();
            let is_new = |(key, entry): &(&String, &Value)| seen.get(*key) != Some(*entry);
            let is_known_key = entries.keys().any(|key| seen.contains_key(key));
            let mut new: Map<String, Value> = entries
                .iter()
                .filter(|entry| self.is(Wrong::ShowsTaskTwice) || is_new(entry))
                .map(|(key, entry)| (key.clone(), entry.clone()))
                .collect();
            if self.is(Wrong::CountsPolls) && new.is_empty() {
                let kinds = vec![Kind::Elicitation; entries.len()];
                if self.admit(&kinds).is_err() {
                    return Ok(());
                }
            }
            if !new.is_empty() {
                seen.extend(new.clone());
                let shown = self.take_shown(id, &mut new);
                let is_unguarded = self.is(Wrong::TasksUnguarded)
                    || (is_known_key && self.is(Wrong::ChargesTaskKeysOnce));
                match self.answer_together(&new, !is_unguarded) {
                    Together::Refused => return Ok(()),
                    Together::Answered(mut responses) => {
                        responses.extend(shown);
                        let answer = json!({"taskId": id, "inputResponses": responses});
                        self.request("tasks/update", answer).ok_or(Closed)?;
                    }
                }
            }
            let pause = task["pollIntervalMs"].as_u64().unwrap_or(1000);
            thread::sleep(Duration::from_millis(pause));
        }
    }

    /// The answers to what a notification brought before the poll, and takes it out of `new`.
    fn take_shown(&self, task: &Value, new: &mut Map<String, Value>) -> Map<String, Value> {
        let task = task.as_str().unwrap_or_default();
        let keys: Vec<String> = new.keys().cloned().collect();
        let answered = |key: String| Some((key.clone(), self.shown(task, &key)?));
        let shown: Map<String, Value> = keys.into_iter().filter_map(answered).collect();
        if self.is(Wrong::ChargesNotifiedAgain) {
            // Whether there was room makes no difference to what comes next.
            let _ = self.admit(&vec![Kind::Elicitation; shown.len()]);
        }
        if !self.is(Wrong::ShowsNotifiedAgain) {
            new.retain(|key, _| !shown.contains_key(key));
        }
        shown
    }

    /// Shows the URLs of an error: to a person, in a real client.
    fn show_urls(&self, elicitations: &Value, if_wrong: Wrong) {
        let listed = elicitations.as_array().map_or(0, Vec::len);
        let count = if self.is(Wrong::ReadableUrlsOnly) {
            listed
        } else {
            listed.max(1)
        };
        let mut kinds = vec![Kind::Elicitation; count];
        if self.is(Wrong::ShowsUrlsThatFit) {
            kinds.retain(|&kind| self.admit(&[kind]).is_ok());
        }
        let charged = match self.shared().wrong {
            Some(Wrong::ShowsUrlsThatFit) => 0,
            Some(Wrong::UrlsCountOnce) => 1,
            _ => kinds.len(),
        };
        if self.is(if_wrong) || self.admit(&kinds[..charged]).is_ok() {
            for kind in kinds {
                self.handle(kind);
            }
        } else {
            self.shared().has_refused.store(true, Ordering::Relaxed);
        }
    }
}

fn kind(entry: &Value) -> Option<Kind> {
    Kind::of(entry["method"].as_str()?)
}

fn roots() -> Value {
    json!({"roots": []})
}
