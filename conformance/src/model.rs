//! What a right client would have done with the questions it was asked: the plainest limiter there
//! can be, over a record instead of a clock.

use std::collections::HashMap;

use serde::Deserialize;

use crate::{
    limits::Limits,
    protocol::{Kind, Scope},
    record::{Fate, Question, Record},
};

/// Who counts the questions: the client, or a relay between it and its servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Counter {
    Client,
    /// It cannot know what the client will make of a question.
    Relay,
}

impl Counter {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Relay => "relay",
        }
    }
}

/// What the windows of a server belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Windows {
    /// To the server as it is configured, over all its sessions.
    #[default]
    Server,
    /// To each process of a relay: they end with it, and so with its one session.
    Process,
}

/// What should have become of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Admitted,
    /// Refused, by the window in the way that ends last, if it is by a window at all.
    Refused(Option<Scope>),
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
    windows: Windows,
    used: HashMap<(Owner, Kind, u32), Used>,
    /// How many times something was admitted.
    admitted: u32,
}

/// What is used of a window.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    number: u32,
    /// The place of the admission that opened it among all: whichever was opened later ends later.
    opened: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Server(usize),
    /// A process of a relay, by its session.
    Process(usize),
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
    pub(crate) fn new(limits: &'a Limits, windows: Windows) -> Self {
        Self {
            limits,
            windows,
            used: HashMap::new(),
            admitted: 0,
        }
    }

    /// Decides on questions that are asked together: all of them pass, or none is charged.
    pub(crate) fn ask(&mut self, place: Place, kinds: &[Kind]) -> Expected {
        let mut full: Option<(u32, Scope)> = None;
        let mut charges = Vec::new();
        for kind in Kind::ALL {
            let asked = kinds.iter().filter(|&&asked| asked == kind).count();
            let asked = u32::try_from(asked).unwrap_or(u32::MAX);
            for scope in Scope::ALL.into_iter().filter(|_| asked > 0) {
                let owner = match (scope, self.windows) {
                    (Scope::Server, Windows::Server) => Owner::Server(place.server),
                    (Scope::Server, Windows::Process) => Owner::Process(place.session),
                    (Scope::Session, _) => Owner::Session(place.session),
                };
                let key = (owner, kind, place.window);
                let used = self.used.get(&key).copied().unwrap_or_default();
                let limit = self.limits.get(kind, scope);
                let is_full = limit.is_some_and(|limit| used.number.saturating_add(asked) > limit);
                // On a tie the first, which is the server's.
                if is_full && full.is_none_or(|(opened, _)| used.opened > opened) {
                    full = Some((used.opened, scope));
                }
                charges.push((key, asked));
            }
        }
        if let Some((_, scope)) = full {
            return Expected::Refused(Some(scope));
        }
        self.admitted += 1;
        for (key, asked) in charges {
            let opened = self.admitted;
            let new = Used { number: 0, opened };
            self.used.entry(key).or_insert(new).number += asked;
        }
        Expected::Admitted
    }

    /// What should have become of each question of a record, in its order.
    ///
    /// Questions that the client rejects, by errors of its own or since they came with something
    /// that it cannot read, were never asked as far as it knows. A relay before it has counted them
    /// all the same, by their methods, and what it let pass reaches no handler.
    pub(crate) fn replay(
        limits: &'a Limits,
        record: &Record,
        counter: Counter,
        windows: Windows,
    ) -> Vec<Expected> {
        let mut model = Self::new(limits, windows);
        let is_relay = counter == Counter::Relay;
        let mut expected = Vec::new();
        let together = |a: &Question, b: &Question| a.group.is_some() && a.group == b.group;
        for questions in record.questions.chunk_by(together) {
            let [first, ..] = questions else { continue };
            let place = Place {
                server: first.server,
                session: first.session,
                window: first.window,
            };
            let mut kinds: Vec<Kind> = questions.iter().map(|question| question.kind).collect();
            let group = first.group.map(|group| &record.groups[group]);
            let is_open = group.is_none_or(|group| group.fate == Fate::Open && !group.is_unseen());
            let verdict = if !is_open {
                if let Some(group) = group
                    && is_relay
                    && group.fate == Fate::Unreadable
                {
                    kinds.extend(group.by_method_alone);
                    // Whether there was room makes no difference to what the client does.
                    let _ = model.ask(place, &kinds);
                }
                Expected::Refused(None)
            } else if !is_relay && record.rejects(&first.call, first.kind) {
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
    use std::time::Duration;

    use super::*;
    use crate::record::{Door, Group, Request};

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
        let mut model = Model::new(&limits, Windows::Server);
        let by_session: Vec<_> = (0..4).map(|n| admitted(&mut model, 0, n, 30)).collect();
        assert_eq!(by_session, [20, 20, 20, 0]);
        assert_eq!(admitted(&mut model, 1, 4, 30), 20);
    }

    #[test]
    fn of_two_windows_in_the_way_the_later_is_named_and_on_a_tie_that_of_the_server() {
        let limits: Limits =
            toml::from_str("samplingPerMinute = 4\nsamplingSessionPerMinute = 2").unwrap();
        let mut model = Model::new(&limits, Windows::Server);
        let mut ask = |session| {
            let place = Place {
                server: 0,
                session,
                window: 0,
            };
            model.ask(place, &[Kind::Sampling])
        };
        let first: Vec<_> = (0..3).map(|_| ask(0)).collect();
        assert_eq!(first[2], Expected::Refused(Some(Scope::Session)));
        let second: Vec<_> = (0..3).map(|_| ask(1)).collect();
        assert_eq!(
            second[2],
            Expected::Refused(Some(Scope::Session)),
            "it opened later"
        );
        assert_eq!(
            ask(2),
            Expected::Refused(Some(Scope::Server)),
            "it alone is full"
        );

        let limits: Limits =
            toml::from_str("samplingPerMinute = 2\nsamplingSessionPerMinute = 2").unwrap();
        let mut model = Model::new(&limits, Windows::Server);
        let place = Place {
            server: 0,
            session: 0,
            window: 0,
        };
        let asked: Vec<_> = (0..3)
            .map(|_| model.ask(place, &[Kind::Sampling]))
            .collect();
        assert_eq!(asked[2], Expected::Refused(Some(Scope::Server)));
    }

    #[test]
    fn a_process_of_a_relay_knows_nothing_of_those_before_it() {
        let limits = Limits::default();
        let mut model = Model::new(&limits, Windows::Process);
        let by_session: Vec<_> = (0..4).map(|n| admitted(&mut model, 0, n, 30)).collect();
        assert_eq!(by_session, [20; 4]);
        let again = admitted(&mut model, 0, 0, 30);
        assert_eq!(again, 0, "a process that goes on");
    }

    /// One round with an entry that cannot be read, then one that can.
    fn unreadable_then(counter: Counter, by_method_alone: Option<Kind>, then: usize) -> bool {
        let group = |fate, by_method_alone| Group {
            call: "call".to_owned(),
            door: Door::Round,
            keys: Vec::new(),
            state: None,
            by_method_alone,
            fate,
            polls: 0,
            answers: Vec::new(),
        };
        let question = |group| Question {
            server: 0,
            session: 0,
            call: "call".to_owned(),
            kind: Kind::Elicitation,
            may_be_rejected: false,
            cancelled: false,
            window: 0,
            group: Some(group),
            request: Request::new("elicitation/create", None, 0, Duration::ZERO),
        };
        let record = Record {
            questions: [vec![question(0); 5], vec![question(1); then]].concat(),
            groups: vec![
                group(Fate::Unreadable, by_method_alone),
                group(Fate::Open, None),
            ],
            ..Record::default()
        };
        let limits = Limits::default();
        let expected = Model::replay(&limits, &record, counter, Windows::Server);
        assert!(!expected[0].is_admitted(), "it is never answered");
        expected[5].is_admitted()
    }

    #[test]
    fn a_relay_counts_what_the_client_cannot_read_by_its_methods_and_no_more() {
        let elicitation = Some(Kind::Elicitation);
        for (counter, by_method_alone, room) in [
            (Counter::Client, elicitation, 30),
            (Counter::Relay, elicitation, 24),
            (Counter::Relay, None, 25),
        ] {
            assert!(unreadable_then(counter, by_method_alone, room));
            assert!(!unreadable_then(counter, by_method_alone, room + 1));
        }
    }
}
