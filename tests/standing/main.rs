//! Limits that are only observed, and servers that are muted.

mod muted;
mod observed;

#[path = "../support/mod.rs"]
mod support;

use std::{sync::Arc, time::Instant};

use mcp_question_throttle::{
    Outcome,
    limits::{ProtoSettings, ServerName, Settings, ThrottleMode},
    question::{Method, QuestionKind},
    throttle::{Ask, KindSnapshot, Session, Throttle},
};
use serde_json::Value;
use support::{Server, question};

const SAMPLING: QuestionKind = QuestionKind::Sampling;
const ELICITATION: QuestionKind = QuestionKind::Elicitation;

fn name(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

fn observed(settings: ProtoSettings) -> ProtoSettings {
    settings.with_throttle_mode(ThrottleMode::Observe)
}

fn throttle(settings: impl Into<Settings>, now: Instant) -> Arc<Throttle> {
    Arc::new(Throttle::new(settings, now))
}

/// Asks once: admitted, would be refused, or refused.
fn ask(session: &Session, now: Instant, kind: QuestionKind, count: u32) -> Outcome {
    let method = Method::from(kind);
    match session.admit(now, &Ask::new().and(kind, &method, count)) {
        Ok(admission) => {
            assert_eq!(admission.questions(), count);
            match admission.would_refuse() {
                Some(refusal) => {
                    assert_eq!(refusal.questions(), count);
                    Outcome::WouldRefuse
                }
                None => Outcome::Admitted,
            }
        }
        Err(_) => Outcome::Refused,
    }
}

fn counts(throttle: &Throttle, now: Instant, server: &str, kind: QuestionKind) -> KindSnapshot {
    let snapshot = throttle.snapshot(now);
    let row = snapshot
        .servers
        .into_iter()
        .find(|row| row.server.as_str() == server)
        .unwrap();
    match kind {
        SAMPLING => row.sampling,
        ELICITATION => row.elicitation,
    }
}

fn method() -> Method {
    SAMPLING.into()
}

async fn flood(server: &mut Server, count: u64) -> Vec<Value> {
    let burst: Vec<String> = (0..count)
        .map(|id| format!("{}\n", question("sampling/createMessage", id)))
        .collect();
    server.send_raw(&burst.concat()).await;
    server.receive_all(burst.len()).await
}
