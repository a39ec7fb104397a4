//! The shield: what it refuses on reading, what it holds for a server that does not read, and
//! that nothing is lost, counted twice or answered to the wrong request.

mod counts;
mod deaf;
mod ids;
mod losses;

#[path = "../support/mod.rs"]
mod support;

use mcp_question_throttle::{Shield, Throttled, question::QuestionKind::Elicitation};
use rmcp::{RoleClient, transport::Transport};
use serde_json::Value;
use support::{Server, is_refusal, limits, pipe_of};

const ELICITATION: &str = "elicitation/create";
const SAMPLING: &str = "sampling/createMessage";
/// What the queue of unsent refusals may hold.
const MAX_UNSENT: usize = 4 << 20;

fn lines<'a>(messages: impl IntoIterator<Item = &'a Value>) -> String {
    messages
        .into_iter()
        .map(|message| format!("{message}\n"))
        .collect()
}

fn refused(replies: &[Value]) -> usize {
    replies.iter().filter(|reply| is_refusal(reply)).count()
}

/// A throttle whose elicitation window is full, and a shield of it around a pipe of `bytes`.
fn shield(bytes: usize) -> (Shield<impl Transport<RoleClient>>, Throttled<()>, Server) {
    let throttled = Throttled::new((), limits(1, 1));
    drop(throttled.admit_kind(Elicitation).unwrap());
    let (client, server) = pipe_of(bytes);
    (throttled.shield(client), throttled, server)
}

fn elicitations(throttled: &Throttled<impl Sized>) -> (u64, u64) {
    let snapshot = throttled
        .session()
        .throttle()
        .snapshot(mcp_question_throttle::clock::now());
    let kind = &snapshot.servers[0].elicitation;
    (
        kind.admitted,
        kind.refused_by_server_limit + kind.refused_by_session_limit,
    )
}
