//! What counts as a question, and the count of one message.

use std::cmp::Ordering;

use crate::{
    limits::{LimitName, ProtoSettings, ThrottleMode},
    question::{Method, QuestionKind, QuestionMethods},
    relay::text::decode,
    throttle::Ask,
};

/// What counts as a question, and how far counting is of use.
#[derive(Clone, Copy, Debug)]
pub struct Counting<'s> {
    methods: &'s QuestionMethods,
    /// By kind: the tightest limit in force. A round with more entries can never fit, whatever
    /// follows, so the rest of it is skipped uncounted.
    enough: [u32; 2],
}

impl<'s> Counting<'s> {
    /// Counts by the settings in force for a server.
    #[must_use]
    pub fn by(settings: &'s ProtoSettings) -> Self {
        let tightest = |kind: QuestionKind| {
            if settings.throttle_mode == ThrottleMode::Observe {
                // All of it will pass, so all of it is counted.
                return u32::MAX;
            }
            LimitName::WINDOWS
                .into_iter()
                .filter(|name| name.kind() == Some(kind))
                .filter_map(|name| settings.window_limit(name)?.bound())
                .min()
                .unwrap_or(u32::MAX)
        };
        Self {
            methods: &settings.questions,
            enough: QuestionKind::ALL.map(tightest),
        }
    }

    /// Which methods are questions.
    #[must_use]
    pub const fn methods(&self) -> &'s QuestionMethods {
        self.methods
    }

    /// How many of a kind can fit at the most.
    pub(super) const fn enough(&self, kind: QuestionKind) -> u32 {
        self.enough[kind as usize]
    }
}

/// Questions of one frame, by kind.
#[derive(Clone, Debug, Default)]
pub struct Asked<'a> {
    counts: [u32; 2],
    /// By kind: the key (as written) and the method of the first entry in the order of keys.
    first: [Option<(&'a [u8], Method)>; 2],
}

impl<'a> Asked<'a> {
    /// Whether nothing is asked.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.counts[0] == 0 && self.counts[1] == 0
    }

    /// How many questions of a kind.
    #[must_use]
    pub const fn count(&self, kind: QuestionKind) -> u32 {
        self.counts[kind as usize]
    }

    /// All of it, for [`Session::admit`](crate::throttle::Session::admit).
    #[must_use]
    pub fn ask(&self) -> Ask<'_> {
        QuestionKind::ALL.into_iter().fold(Ask::new(), |ask, kind| {
            match &self.first[kind as usize] {
                Some((_, method)) => ask.and(kind, method, self.count(kind)),
                None => ask,
            }
        })
    }

    pub(super) fn add(&mut self, kind: QuestionKind, key: &'a [u8], method: Method) {
        self.add_many(kind, key, method, 1);
    }

    pub(super) fn add_many(
        &mut self,
        kind: QuestionKind,
        key: &'a [u8],
        method: Method,
        count: u32,
    ) {
        let at = kind as usize;
        self.counts[at] = self.counts[at].saturating_add(count);
        match &self.first[at] {
            Some((first, _)) if by_key(first, key) != Ordering::Greater => {}
            _ => self.first[at] = Some((key, method)),
        }
    }

    pub(super) fn add_all(&mut self, other: Self) {
        for (kind, first) in QuestionKind::ALL.into_iter().zip(other.first) {
            if let Some((key, method)) = first {
                self.add_many(kind, key, method, other.counts[kind as usize]);
            }
        }
    }

    pub(super) fn is_enough(&self, counting: &Counting<'_>) -> bool {
        self.counts[0] > counting.enough[0] || self.counts[1] > counting.enough[1]
    }
}

fn by_key(a: &[u8], b: &[u8]) -> Ordering {
    if a.contains(&b'\\') || b.contains(&b'\\') {
        decode(a).cmp(&decode(b))
    } else {
        a.cmp(b)
    }
}
