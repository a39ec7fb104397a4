//! The core told by hand what time it is, and a dull reference model to compare it with.

#![expect(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses its own part of this module"
)]

pub mod model;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use mcp_question_throttle::{
    limits::{Limit, ProtoSettings, ServerName},
    question::{Method, QuestionKind},
    refusal::Refusal,
    throttle::{Admission, Ask, Session, Throttle},
};

pub const SAMPLING: QuestionKind = QuestionKind::Sampling;
pub const ELICITATION: QuestionKind = QuestionKind::Elicitation;

/// The four limits, in the order of the settings table.
pub fn settings(limits: [u32; 4]) -> ProtoSettings {
    let [
        server_sampling,
        session_sampling,
        server_elicitation,
        session_elicitation,
    ] = limits.map(|limit| Limit::new(limit).unwrap());
    ProtoSettings::default()
        .with_sampling_per_minute(server_sampling)
        .with_sampling_session_per_minute(session_sampling)
        .with_elicitation_per_minute(server_elicitation)
        .with_elicitation_session_per_minute(session_elicitation)
}

pub fn name(server: &str) -> ServerName {
    ServerName::new(server).unwrap()
}

/// A throttle and the instant it counts from.
pub struct Core {
    pub throttle: Arc<Throttle>,
    start: Instant,
}

impl Core {
    pub fn new(limits: [u32; 4]) -> Self {
        Self::with_capacity(limits, 10_000)
    }

    pub fn with_capacity(limits: [u32; 4], servers: usize) -> Self {
        let start = mcp_question_throttle::clock::now();
        Self {
            throttle: Arc::new(Throttle::new(settings(limits), start).with_capacity(servers)),
            start,
        }
    }

    pub fn at(&self, nanos: u64) -> Instant {
        self.start + Duration::from_nanos(nanos)
    }

    pub fn after(&self, seconds: f64) -> Instant {
        self.start + Duration::from_secs_f64(seconds)
    }

    pub fn session(&self, server: &str) -> Session {
        self.throttle.session(name(server))
    }

    pub fn update(&self, limits: [u32; 4]) {
        self.throttle.update(&settings(limits).into());
    }
}

/// Asks one question.
pub fn ask(session: &Session, now: Instant, kind: QuestionKind) -> Result<Admission, Refusal> {
    session.admit(now, &Ask::one(kind, &Method::from(kind)))
}

/// Asks one question, and says whether it was admitted.
pub fn admitted(session: &Session, now: Instant, kind: QuestionKind) -> bool {
    ask(session, now, kind).is_ok()
}

/// Asks a round.
pub fn ask_round(
    session: &Session,
    now: Instant,
    sampling: u32,
    elicitation: u32,
) -> Result<Admission, Refusal> {
    let (s, e) = (Method::from(SAMPLING), Method::from(ELICITATION));
    let round = Ask::new()
        .and(SAMPLING, &s, sampling)
        .and(ELICITATION, &e, elicitation);
    session.admit(now, &round)
}
