//! What is asked, and the proof that it was admitted.

use crate::question::{Method, QuestionKind};

/// What is asked at once: one question, or all of a round's (D7).
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask<'a> {
    counts: [u32; 2],
    /// The first entry's method of each kind, to be named in a refusal.
    methods: [Option<&'a Method>; 2],
}

impl<'a> Ask<'a> {
    /// Nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            counts: [0; 2],
            methods: [None; 2],
        }
    }

    /// One question.
    #[inline]
    #[must_use]
    pub const fn one(kind: QuestionKind, method: &'a Method) -> Self {
        Self::new().and(kind, method, 1)
    }

    /// Adds `count` questions of a kind. Of several methods, the first one added is named.
    #[inline]
    #[must_use]
    pub const fn and(mut self, kind: QuestionKind, method: &'a Method, count: u32) -> Self {
        let kind = kind as usize;
        if count > 0 {
            self.counts[kind] = self.counts[kind].saturating_add(count);
            if self.methods[kind].is_none() {
                self.methods[kind] = Some(method);
            }
        }
        self
    }

    /// How many questions of a kind.
    #[must_use]
    pub const fn count(&self, kind: QuestionKind) -> u32 {
        self.counts[kind as usize]
    }

    /// How many questions in all.
    #[must_use]
    pub const fn total(&self) -> u32 {
        self.counts[0].saturating_add(self.counts[1])
    }

    /// The kind, if it is a single question.
    #[inline]
    pub(super) const fn single(&self) -> Option<QuestionKind> {
        match self.counts {
            [1, 0] => Some(QuestionKind::Sampling),
            [0, 1] => Some(QuestionKind::Elicitation),
            _ => None,
        }
    }

    /// The method to name where the limit in the way bounds `kind`, or, for none, any.
    pub(super) fn method(&self, kind: Option<QuestionKind>) -> Method {
        let first = match kind {
            Some(kind) => self.methods[kind as usize],
            None => self.methods[0].or(self.methods[1]),
        };
        first
            .cloned()
            .unwrap_or_else(|| kind.unwrap_or(QuestionKind::Sampling).into())
    }
}

/// Proof that questions were admitted and charged. Only a throttle makes one.
///
/// Not `Clone`: it is used up by answering. Dropping it refunds nothing (D3).
#[derive(Debug)]
#[must_use = "the questions are charged whether they are answered or not"]
pub struct Admission {
    pub(super) questions: u32,
}

impl Admission {
    /// How many questions were charged.
    #[must_use]
    pub const fn questions(&self) -> u32 {
        self.questions
    }

    /// One admission for each question of a round.
    pub(crate) fn into_single(self) -> impl Iterator<Item = Self> {
        (0..self.questions).map(|_| Self { questions: 1 })
    }
}
