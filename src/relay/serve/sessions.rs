//! Which session a request belongs to.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{order::Openings, refusals::Refusals};
use crate::{limits::ServerName, relay::open::Questions, throttle::Throttle};

/// Protocol sessions of one server that have windows of their own.
const MOST_BORN: usize = 1024;
/// Labels of one server.
const MOST_LABELS: usize = 64;
/// A session of which nothing was heard for so long makes room for another, if nothing of it is
/// open. Unless there is need, none does.
const IDLE: Duration = Duration::from_secs(60 * 60);
/// Longer ids have no row of their own.
const LONGEST_ID: usize = 1024;

/// A session, with its windows and the refusals that wait for its server.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) session: Arc<crate::throttle::Session>,
    pub(super) refusals: Refusals,
    pub(super) questions: Arc<Questions>,
    pub(super) openings: Openings,
}

/// The sessions of one server.
#[derive(Debug)]
pub(super) struct Sessions {
    throttle: Arc<Throttle>,
    server: ServerName,
    /// For requests without a protocol session, at the server's path.
    unlabelled: Arc<Row>,
    /// For sessions whose beginning was not seen, and those beyond the bounds.
    shared: Arc<Row>,
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    labels: HashMap<String, Arc<Row>>,
    born: HashMap<Box<[u8]>, Born>,
}

#[derive(Debug)]
struct Born {
    row: Arc<Row>,
    used: Instant,
}

impl Sessions {
    pub(super) fn new(throttle: Arc<Throttle>, server: ServerName) -> Self {
        let row = || {
            Arc::new(Row {
                session: Arc::new(throttle.session(server.clone())),
                refusals: Refusals::default(),
                questions: Arc::default(),
                openings: Openings::default(),
            })
        };
        Self {
            unlabelled: row(),
            shared: row(),
            rows: Mutex::default(),
            throttle: Arc::clone(&throttle),
            server,
        }
    }

    /// The session of a path.
    pub(super) fn of_path(&self, label: Option<&str>) -> Arc<Row> {
        let Some(label) = label else {
            return Arc::clone(&self.unlabelled);
        };
        let mut rows = self.lock();
        if let Some(row) = rows.labels.get(label) {
            return Arc::clone(row);
        }
        if rows.labels.len() >= MOST_LABELS {
            return Arc::clone(&self.shared);
        }
        let row = self.row();
        rows.labels.insert(label.to_owned(), Arc::clone(&row));
        row
    }

    /// The session with this id of the protocol.
    pub(super) fn of_id(&self, id: &[u8], now: Instant) -> Arc<Row> {
        match self.lock().born.get_mut(id) {
            Some(born) => {
                born.used = now;
                Arc::clone(&born.row)
            }
            None => Arc::clone(&self.shared),
        }
    }

    /// A session begins with this id. One that is there already goes on as it is: its server
    /// cannot get a new window by using an id again.
    pub(super) fn begin(&self, id: &[u8], now: Instant) -> Arc<Row> {
        let mut rows = self.lock();
        if let Some(born) = rows.born.get_mut(id) {
            born.used = now;
            return Arc::clone(&born.row);
        }
        if rows.born.len() >= MOST_BORN {
            rows.born.retain(|_, born| {
                // Whatever is open holds the row; only under this lock one more can.
                Arc::strong_count(&born.row) > 1 || now.saturating_duration_since(born.used) < IDLE
            });
        }
        if rows.born.len() >= MOST_BORN || id.len() > LONGEST_ID {
            return Arc::clone(&self.shared);
        }
        let row = self.row();
        let born = Born {
            row: Arc::clone(&row),
            used: now,
        };
        rows.born.insert(id.into(), born);
        row
    }

    /// The session with this id has ended.
    pub(super) fn end(&self, id: &[u8]) {
        self.lock().born.remove(id);
    }

    fn row(&self) -> Arc<Row> {
        Arc::new(Row {
            session: Arc::new(self.throttle.session(self.server.clone())),
            refusals: Refusals::default(),
            questions: Arc::default(),
            openings: Openings::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        // Every change is one insertion or removal, so the maps are sound even after a panic.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock, limits::ProtoSettings};

    fn sessions() -> Sessions {
        let throttle = Throttle::new(ProtoSettings::default(), clock::now());
        Sessions::new(Arc::new(throttle), ServerName::new("github").unwrap())
    }

    #[test]
    fn only_a_session_that_was_seen_to_begin_has_a_row() {
        let (sessions, now) = (sessions(), clock::now());
        let unseen = sessions.of_id(b"a", now);
        assert!(Arc::ptr_eq(&unseen, &sessions.of_id(b"b", now)));
        let a = sessions.begin(b"a", now);
        assert!(!Arc::ptr_eq(&unseen, &a));
        assert!(Arc::ptr_eq(&a, &sessions.of_id(b"a", now)));
        assert!(Arc::ptr_eq(&a, &sessions.begin(b"a", now)));
        sessions.end(b"a");
        assert!(Arc::ptr_eq(&unseen, &sessions.of_id(b"a", now)));
        let long = vec![b'x'; LONGEST_ID + 1];
        assert!(Arc::ptr_eq(&unseen, &sessions.begin(&long, now)));
    }

    #[test]
    fn sessions_beyond_the_bound_share_a_row_until_one_is_idle() {
        let (sessions, start) = (sessions(), clock::now());
        let open = sessions.begin(b"open", start);
        for id in 1..MOST_BORN {
            drop(sessions.begin(id.to_string().as_bytes(), start));
        }
        let unseen = sessions.of_id(b"unseen", start);
        let later = start + IDLE / 2;
        assert!(Arc::ptr_eq(&unseen, &sessions.begin(b"more", later)));
        drop(sessions.of_id(b"7", later));
        let row = sessions.begin(b"more", start + IDLE);
        assert!(!Arc::ptr_eq(&unseen, &row));
        assert!(Arc::ptr_eq(&open, &sessions.of_id(b"open", later)));
        assert!(!Arc::ptr_eq(&unseen, &sessions.of_id(b"7", later)));
        assert!(Arc::ptr_eq(&unseen, &sessions.of_id(b"8", later)));
    }

    #[test]
    fn labels_are_bounded() {
        let sessions = sessions();
        let first = sessions.of_path(Some("0"));
        for label in 1..MOST_LABELS {
            drop(sessions.of_path(Some(&label.to_string())));
        }
        assert!(Arc::ptr_eq(&first, &sessions.of_path(Some("0"))));
        assert!(!Arc::ptr_eq(&first, &sessions.of_path(None)));
        let unseen = sessions.of_id(b"unseen", clock::now());
        assert!(Arc::ptr_eq(&unseen, &sessions.of_path(Some("64"))));
    }
}
