//! The records of all servers.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Record, Usage};
use crate::{limits::ServerName, throttle::DEFAULT_CAPACITY};

/// The records of the servers that have asked.
pub(crate) struct Recorder {
    records: Mutex<HashMap<ServerName, Arc<Record>>>,
    most: usize,
}

impl Recorder {
    /// Room for as many servers as a throttle has, unless set otherwise.
    pub(crate) fn new() -> Self {
        Self::with_room_for(DEFAULT_CAPACITY)
    }

    fn with_room_for(most: usize) -> Self {
        Self {
            records: Mutex::default(),
            most,
        }
    }

    /// The record of a server. Where there is no room for one, records that no session writes to
    /// make room; without any, its questions are decided all the same and not recorded.
    pub(crate) fn record(&self, server: &ServerName) -> Option<Arc<Record>> {
        let mut records = self.records();
        if let Some(record) = records.get(server) {
            return Some(Arc::clone(record));
        }
        if records.len() >= self.most {
            records.retain(|_, record| Arc::strong_count(record) > 1);
        }
        if records.len() >= self.most {
            return None;
        }
        let record = Arc::new(Record::new());
        records.insert(server.clone(), Arc::clone(&record));
        Some(record)
    }

    /// What was recorded, by server.
    pub(crate) fn usage(&self) -> HashMap<ServerName, Usage> {
        let records: Vec<_> = {
            let records = self.records();
            let shared = records.iter();
            shared
                .map(|(name, it)| (name.clone(), Arc::clone(it)))
                .collect()
        };
        let shown = records.into_iter();
        shown.map(|(name, record)| (name, record.show())).collect()
    }

    fn records(&self) -> MutexGuard<'_, HashMap<ServerName, Arc<Record>>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_bounded_and_those_in_use_stay() {
        let recorder = Recorder::with_room_for(2);
        let record = |name: &str| recorder.record(&ServerName::new(name).unwrap());
        let first = record("a");
        drop(record("b"));
        let third = record("c");
        assert!(third.is_some(), "nobody writes to b");
        assert!(record("d").is_none());
        let mut names: Vec<_> = recorder.usage().into_keys().collect();
        names.sort();
        assert_eq!(
            names.iter().map(ServerName::as_str).collect::<Vec<_>>(),
            ["a", "c"]
        );
        drop((first, third));
        assert!(record("d").is_some());
    }
}
