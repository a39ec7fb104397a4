//! What a right client would have done with the questions it was asked: the plainest limiter there
//! can be, over a record instead of a clock.

use std::collections::HashMap;

use crate::{
    limits::Limits,
    protocol::{Kind, Scope},
    record::Record,
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

    /// Decides on one question.
    pub(crate) fn ask(&mut self, place: Place, kind: Kind) -> Expected {
        let mut full = Vec::new();
        let mut keys = Vec::new();
        for scope in Scope::ALL {
            let owner = match scope {
                Scope::Server => Owner::Server(place.server),
                Scope::Session => Owner::Session(place.session),
            };
            let key = (owner, kind, place.window);
            let used = self.used.get(&key).copied().unwrap_or(0);
            if self
                .limits
                .get(kind, scope)
                .is_some_and(|limit| used >= limit)
            {
                full.push(scope);
            }
            keys.push(key);
        }
        if !full.is_empty() {
            return Expected::Refused(full);
        }
        for key in keys {
            *self.used.entry(key).or_default() += 1;
        }
        Expected::Admitted
    }

    /// What should have become of each question of a record, in its order.
    pub(crate) fn replay(limits: &'a Limits, record: &Record) -> Vec<Expected> {
        let mut model = Self::new(limits);
        let questions = record.questions.iter();
        questions
            .map(|question| {
                let place = Place {
                    server: question.server,
                    session: question.session,
                    window: question.window,
                };
                model.ask(place, question.kind)
            })
            .collect()
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
            .filter(|_| model.ask(place, Kind::Sampling).is_admitted())
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
