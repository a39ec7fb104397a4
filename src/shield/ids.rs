//! Requests of the server on their way, so that two with one id each get their own reply.

use std::{
    collections::{
        BTreeSet, HashMap,
        hash_map::{Entry, RandomState},
    },
    hash::BuildHasher,
    mem,
};

use foldhash::quality;
use rmcp::model::RequestId;

/// The ids of the requests that were handed on and are not answered yet.
///
/// rmcp keeps its open requests by their id: of two with the same one, the first to finish is
/// answered, and the other never. So a request whose id is taken goes on under another, and its
/// reply gets the server's own again. All other ids stay as they are.
#[derive(Debug)]
pub(super) struct Ids {
    /// By the id that rmcp knows; the server's, where that is another.
    ///
    /// Looked up twice for every question, so by a quick hash. It is seeded, and few are open at a
    /// time: a server that chooses its ids well gains nothing.
    open: HashMap<RequestId, Option<RequestId>, quality::RandomState>,
    /// By the server's id, the substitutes that stand for it.
    substitutes: HashMap<RequestId, BTreeSet<i64>>,
    next_substitute: i64,
    /// Whether the server has ever cancelled an open request. The handler of such a one may run
    /// on, and rmcp does not say when it ends; so from then on no id is handed on as it is.
    cancelled: bool,
}

impl Ids {
    pub(super) fn new() -> Self {
        Self {
            open: HashMap::default(),
            substitutes: HashMap::new(),
            // From somewhere that a server cannot guess, so that it cannot take them beforehand.
            next_substitute: RandomState::new().hash_one(()).cast_signed(),
            cancelled: false,
        }
    }

    /// Hands on a request, under an id that is not taken.
    pub(super) fn enter(&mut self, id: &mut RequestId) {
        if !self.cancelled
            && let Entry::Vacant(vacant) = self.open.entry(id.clone())
        {
            vacant.insert(None);
            return;
        }
        let (number, substitute) = loop {
            let number = self.next_substitute;
            self.next_substitute = number.wrapping_add(1);
            let substitute = RequestId::Number(number);
            if !self.open.contains_key(&substitute) {
                break (number, substitute);
            }
        };
        let servers = mem::replace(id, substitute.clone());
        self.substitutes
            .entry(servers.clone())
            .or_default()
            .insert(number);
        self.open.insert(substitute, Some(servers));
    }

    /// Gives a reply the server's id; the request is answered with that.
    pub(super) fn leave(&mut self, id: &mut RequestId) {
        let Some(Some(servers)) = self.open.remove(id) else {
            return;
        };
        if let RequestId::Number(number) = id
            && let Some(substitutes) = self.substitutes.get_mut(&servers)
        {
            substitutes.remove(number);
            if substitutes.is_empty() {
                self.substitutes.remove(&servers);
            }
        }
        *id = servers;
    }

    /// Forgets the requests that the server cancels by its `id`, since rmcp drops their replies,
    /// and says under which ids rmcp knows them.
    pub(super) fn cancel(&mut self, id: &RequestId) -> Vec<RequestId> {
        let mut known: Vec<_> = self
            .substitutes
            .remove(id)
            .into_iter()
            .flatten()
            .map(RequestId::Number)
            .collect();
        for substitute in &known {
            self.open.remove(substitute);
        }
        if self.open.get(id).is_some_and(Option::is_none) {
            self.open.remove(id);
            known.push(id.clone());
        }
        self.cancelled |= !known.is_empty();
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(id: &str) -> RequestId {
        RequestId::String(id.into())
    }

    fn enter(ids: &mut Ids, mut id: RequestId) -> RequestId {
        ids.enter(&mut id);
        id
    }

    fn reply(ids: &mut Ids, mut id: RequestId) -> RequestId {
        ids.leave(&mut id);
        id
    }

    fn is_empty(ids: &Ids) -> bool {
        ids.open.is_empty() && ids.substitutes.is_empty()
    }

    #[test]
    fn an_id_stays_as_it_is_until_it_is_taken() {
        let mut ids = Ids::new();
        for id in [RequestId::Number(1), text("1"), text("")] {
            assert_eq!(enter(&mut ids, id.clone()), id);
            let second = enter(&mut ids, id.clone());
            let third = enter(&mut ids, id.clone());
            assert!(second != id && third != id && second != third);
            for known in [second, id.clone(), third] {
                assert_eq!(reply(&mut ids, known), id);
            }
            assert_eq!(enter(&mut ids, id.clone()), id, "free again");
            assert_eq!(reply(&mut ids, id.clone()), id);
        }
        assert!(is_empty(&ids));
    }

    #[test]
    fn a_substitute_that_the_server_uses_too_is_taken() {
        let mut ids = Ids::new();
        enter(&mut ids, text("a"));
        let substitute = enter(&mut ids, text("a"));
        let other = enter(&mut ids, substitute.clone());
        assert_ne!(other, substitute);
        assert_eq!(reply(&mut ids, other), substitute);
        assert_eq!(reply(&mut ids, substitute), text("a"));

        let mut ids = Ids::new();
        let next = RequestId::Number(ids.next_substitute);
        enter(&mut ids, next.clone());
        enter(&mut ids, text("a"));
        assert_ne!(enter(&mut ids, text("a")), next);
    }

    #[test]
    fn cancelling_reaches_every_request_of_that_id() {
        let mut ids = Ids::new();
        let known = [enter(&mut ids, text("a")), enter(&mut ids, text("a"))];
        let other = enter(&mut ids, text("b"));
        let cancelled = ids.cancel(&text("a"));
        assert_eq!(cancelled.len(), 2);
        assert!(known.iter().all(|id| cancelled.contains(id)));
        assert_eq!(ids.cancel(&text("a")), []);
        assert_eq!(reply(&mut ids, other), text("b"));
        assert!(is_empty(&ids));
    }

    #[test]
    fn an_id_is_not_used_again_while_a_cancelled_handler_may_run() {
        let mut ids = Ids::new();
        enter(&mut ids, text("a"));
        ids.cancel(&text("a"));
        let again = enter(&mut ids, text("a"));
        assert_ne!(again, text("a"));
        assert_eq!(ids.cancel(&text("a")), std::slice::from_ref(&again));
        assert!(is_empty(&ids));
    }
}
