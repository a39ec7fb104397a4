//! What a right client would have done with the questions it was asked: the plainest limiter there
//! can be, over a record instead of a clock.

use std::collections::HashMap;

use crate::{
    limits::Limits,
    protocol::{Kind, Scope},
    record::{Fate, Question, Record},
};

/// What should have become of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Admitted,
    /// Refused, by one of these windows.
    Refused(Vec<Scope>),
}

impl Expected {
    pub(crate) const fn is_admitted(&self) -> bool {
        matches!(self, Self::Admitted)
    }
}

/// Windows that never end by themselves: the record says in which one a question falls.
#[derive(Debug)]
pub(crate) struct Model<'a> {
    limits: &'a Limits,
    used: HashMap<(Owner, Kind, u32), u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Server(usize),
    Session(usize),
}

/// Where a question falls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) server: usize,
    pub(crate) session: usize,
    pub(crate) window: u32,
}

impl<'a> Model<'a> {
    pub(crate) fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            used: HashMap::new(),
        }
    }

    /// Decides on questions that are asked together: all of them pass, or none is charged.
    pub(crate) fn ask(&mut self, place: Place, kinds: &[Kind]) -> Expected {
        let mut full = Vec::new();
        let mut charges = Vec::new();
        for kind in Kind::ALL {
            let asked = kinds.iter().filter(|&&asked| asked == kind).count();
            let asked = u32::try_from(asked).unwrap_or(u32::MAX);
            for scope in Scope::ALL.into_iter().filter(|_| asked > 0) {
                let owner = match scope {
                    Scope::Server => Owner::Server(place.server),
                    Scope::Session => Owner::Session(place.session),
                };
                let key = (owner, kind, place.window);
                let used = self.used.get(&key).copied().unwrap_or(0);
                let limit = self.limits.get(kind, scope);
                if limit.is_some_and(|limit| used.saturating_add(asked) > limit) {
                    full.push(scope);
                }
                charges.push((key, asked));
            }
        }
        if !full.is_empty() {
            return Expected::Refused(full);
        }
        for (key, asked) in charges {
            *self.used.entry(key).or_default() += asked;
        }
        Expected::Admitted
    }

    /// What should have become of each question of a record, in its order. Questions that the
    /// client rejected altogether, by errors of its own, were never asked as far as it knows; a
    /// relay before it has counted them all the same.
    pub(crate) fn replay(
        limits: &'a Limits,
        record: &Record,
        is_behind_relay: bool,
    ) -> Vec<Expected> {
        let mut model = Self::new(limits);
        let mut expected = Vec::new();
        let together = |a: &Question, b: &Question| a.group.is_some() && a.group == b.group;
        for questions in record.questions.chunk_by(together) {
            let [first, ..] = questions else { continue };
            let place = Place {
                server: first.server,
                session: first.session,
                window: first.window,
            };
            let kinds: Vec<Kind> = questions.iter().map(|question| question.kind).collect();
            let is_open = first
                .group
                .map(|group| &record.groups[group])
                .is_none_or(|group| group.fate == Fate::Open && !group.is_unseen());
            let verdict = if !is_open {
                Expected::Refused(Vec::new())
            } else if !is_behind_relay && record.rejects(&first.call, first.kind) {
                Expected::Admitted
            } else {
                model.ask(place, &kinds)
            };
            expected.extend(questions.iter().map(|_| verdict.clone()));
        }
        expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(model: &mut Model<'_>, server: usize, session: usize, asked: usize) -> usize {
        let place = Place {
            server,
            session,
            window: 0,
        };
        (0..asked)
            .filter(|_| model.ask(place, &[Kind::Sampling]).is_admitted())
            .count()
    }

    #[test]
    fn sessions_share_their_servers_window() {
        let limits = Limits::default();
        let mut model = Model::new(&limits);
        let by_session: Vec<_> = (0..4).map(|n| admitted(&mut model, 0, n, 30)).collect();
        assert_eq!(by_session, [20, 20, 20, 0]);
        assert_eq!(admitted(&mut model, 1, 4, 30), 20);
    }
}
