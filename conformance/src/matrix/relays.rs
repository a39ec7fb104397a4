//! The relays of the matrix: the reference client, with something before its servers that changes
//! nothing. Together they count as a relay does, or wrongly.

use std::sync::Arc;

use super::{Row, client, this_program};
use crate::{
    model::{Counter, Windows},
    protocol::Transport,
    reference::Wrong,
    relay::Relay,
    scenario::Scenario,
};

/// What is played to relays: where something is asked of them that is not asked of clients.
pub(super) const RELAYED: [&str; 3] = ["neighbours", "reconnects", "rounds"];

/// A right relay, and wrong ones. Over HTTP the right one counts what the client cannot read; over
/// stdio, where each server has a process of the relay, it forgets with that process.
pub(super) fn rows(all: &[Scenario], transport: Transport) -> Result<Vec<Row>, String> {
    let (right, windows, scenarios): (_, _, &[&str]) = match transport {
        Transport::Stdio => (
            Wrong::ForgetsOnReconnect,
            Windows::Process,
            &["neighbours", "reconnects"],
        ),
        Transport::Http => (Wrong::ChargesUnreadable, Windows::Server, &RELAYED),
    };
    let before = match transport {
        Transport::Stdio => vec!["env".to_owned()],
        Transport::Http => vec![this_program()?, "reference-relay".to_owned()],
    };
    let wrong = [
        None,
        Some(Wrong::NoLimit),
        Some(Wrong::OneMore),
        Some(Wrong::OneLess),
        Some(Wrong::ServersShare),
        Some(Wrong::NoServerLimit),
        Some(Wrong::NoSessionLimit),
        Some(Wrong::ForgetsOnReconnect),
        Some(Wrong::ChargesReadablePart),
        Some(Wrong::ChargesEveryEntry),
    ];
    // Whoever reads rounds as a client does is right where there are none, and whoever remembers more
    // than its process meets what is asked of servers' windows.
    let is_wrong_here = |wrong: &Option<Wrong>| match (transport, wrong) {
        (Transport::Http, _) => true,
        (Transport::Stdio, Some(wrong)) => !matches!(
            wrong,
            Wrong::ForgetsOnReconnect | Wrong::ChargesReadablePart | Wrong::ChargesEveryEntry
        ),
        (Transport::Stdio, None) => false,
    };
    let rows = [Some(right)]
        .into_iter()
        .chain(wrong.into_iter().filter(is_wrong_here));
    rows.map(|wrong| {
        let mut client = client(wrong, transport)?;
        client.relay = Some(Relay {
            command: before.clone(),
            windows,
        });
        let name = match wrong {
            Some(wrong) if wrong == right => None,
            Some(wrong) => Some(wrong.name()),
            None => Some("reads-as-a-client".to_owned()),
        };
        let is_played = |scenario: &&Scenario| {
            scenario.is_played_over(transport, Counter::Relay)
                && scenarios.contains(&scenario.name.as_str())
        };
        Ok(Row {
            wrong: name,
            client: Arc::new(client),
            scenarios: all.iter().filter(is_played).cloned().collect(),
        })
    })
    .collect()
}
