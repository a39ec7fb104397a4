//! What is asked, and the proof that it was admitted.

use crate::{
    question::{Method, QuestionKind},
    refusal::Refusal,
};

static SAMPLING: Method = Method::protocol(QuestionKind::Sampling.method());
static ELICITATION: Method = Method::protocol(QuestionKind::Elicitation.method());

/// What is asked at once: one question, or all of a round's (D7).
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    counts: [u32; 2],
    /// The first entry's method of each kind, to be named in a refusal.
    methods: [&'a Method; 2],
}

impl<'a> Ask<'a> {
    /// Nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            counts: [0; 2],
            methods: [&SAMPLING, &ELICITATION],
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
            if self.counts[kind] == 0 {
                self.methods[kind] = method;
            }
            self.counts[kind] = self.counts[kind].saturating_add(count);
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
    pub(crate) const fn single(&self) -> Option<QuestionKind> {
        // As one number, which is compared at once.
        match (self.counts[1] as u64) << 32 | self.counts[0] as u64 {
            0x0000_0000_0000_0001 => Some(QuestionKind::Sampling),
            0x0000_0001_0000_0000 => Some(QuestionKind::Elicitation),
            _ => None,
        }
    }

    /// The method to name where a limit on `kind` is in the way.
    #[inline]
    pub(super) fn method(&self, kind: QuestionKind) -> Method {
        self.methods[kind as usize].clone()
    }

    /// The method to name where no limit is.
    pub(super) fn first_method(&self) -> Method {
        let mut kinds = QuestionKind::ALL.into_iter();
        self.method(
            kinds
                .find(|kind| self.count(*kind) > 0)
                .unwrap_or(QuestionKind::Sampling),
        )
    }
}

impl Default for Ask<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// Proof that questions were admitted and charged. Only a throttle makes one.
///
/// Not `Clone`: it is used up by answering. Dropping it refunds nothing (D3).
#[derive(Debug)]
#[must_use = "the questions are charged whether they are answered or not"]
pub struct Admission {
    pub(super) questions: u32,
    /// Boxed, so that the many admissions without one stay small.
    pub(super) would_refuse: Option<Box<Refusal>>,
}

impl Admission {
    #[inline]
    pub(super) const fn of(questions: u32) -> Self {
        Self {
            questions,
            would_refuse: None,
        }
    }

    pub(super) fn observed(questions: u32, refusal: Refusal) -> Self {
        Self {
            questions,
            would_refuse: Some(Box::new(refusal)),
        }
    }

    /// How many questions were admitted.
    #[must_use]
    pub const fn questions(&self) -> u32 {
        self.questions
    }

    /// What the answer would have been, had the limits been enforced: with
    /// [`ThrottleMode::Observe`](crate::limits::ThrottleMode::Observe) what is over a limit is admitted, and charges nothing.
    #[must_use]
    pub fn would_refuse(&self) -> Option<&Refusal> {
        self.would_refuse.as_deref()
    }

    /// One admission for each question of a round.
    pub(crate) fn into_single(self) -> impl Iterator<Item = Self> {
        (0..self.questions).map(|_| Self::of(1))
    }
}
