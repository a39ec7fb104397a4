//! The two tables that say which vendor methods are questions, and in which order they are asked.

use std::sync::{Arc, OnceLock};

use crate::{
    limits::ProtoSettings,
    question::{Method, QuestionKind, QuestionMethods},
    throttle::Session,
};

/// What counts as a question of one session, for as long as one message is looked at.
///
/// The embedder's own table decides first, then that of the settings: what the program was built
/// to know is not changed by a file. The settings are read at most once, so that a change of them
/// in the middle of a round does not count an entry in one way and answer it in another.
#[derive(Debug)]
pub(crate) struct Methods<'a> {
    own: &'a QuestionMethods,
    session: &'a Session,
    settings: OnceLock<Arc<ProtoSettings>>,
}

impl<'a> Methods<'a> {
    pub(crate) const fn new(own: &'a QuestionMethods, session: &'a Session) -> Self {
        Self {
            own,
            session,
            settings: OnceLock::new(),
        }
    }

    /// The kind and the name of `method`, if it is a question.
    #[inline]
    pub(crate) fn classify(&self, method: &str) -> Option<(QuestionKind, Method)> {
        // The protocol's own questions are known without the settings' lock.
        if let Some(question) = self.own.classify(method) {
            return Some(question);
        }
        self.settings
            .get_or_init(|| self.session.settings())
            .questions
            .classify(method)
    }
}
