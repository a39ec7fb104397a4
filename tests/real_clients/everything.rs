//! The reference server: all of it, with the relay in the middle and without.

use crate::{
    client::{Client, Run},
    peers::skipped,
    relay::{EVERYTHING, Relay, Transport},
};

/// Whoever forwards too little, or changes something, is seen by one of these.
async fn equal_with_and_without_the_relay(client: Client, transport: Transport) {
    if skipped() {
        return;
    }
    // As a user has it: the default limits are far above three questions.
    let relay = Relay::new("");
    let direct = EVERYTHING.direct(transport).await;
    let relayed = EVERYTHING.behind(&relay, transport).await;
    let (direct, relayed) = tokio::join!(client.run(&direct), client.run(&relayed));
    assert_same(&direct, &relayed, transport);
}

fn assert_same(direct: &Run, relayed: &Run, transport: Transport) {
    let names = |run: &Run| run.calls.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(direct), names(relayed), "what the server offers");
    assert!(names(direct).len() > 20, "{:?}", names(direct));
    for (name, call) in &direct.calls {
        let direct = same_every_time(name, &call.to_string());
        let relayed = same_every_time(name, &relayed.calls[name].to_string());
        if name == "get-env" {
            // All of the environment: nothing for the log of a failed test. Over HTTP the relay
            // starts no server, and each has a port of its own there.
            let is_same = transport == Transport::Http || direct == relayed;
            assert!(is_same, "the environment differs");
        } else {
            assert_eq!(direct, relayed);
        }
    }
    assert_eq!(direct.asked, relayed.asked);
    assert_eq!(relayed.asked("sampling/createMessage"), 1);
    assert_eq!(relayed.asked("elicitation/create"), 2, "a form and a URL");
    assert!(
        relayed
            .text("trigger-sampling-request")
            .contains("An answer.")
    );
    let form = relayed.calls["trigger-elicitation-request"].to_string();
    assert!(
        form.contains("User provided the requested information"),
        "{form}"
    );
    assert!(!relayed.said.contains("refused"), "{}", relayed.said);
}

/// A call's report without the times and the random names that the server makes up.
fn same_every_time(name: &str, report: &str) -> String {
    const MADE_UP: [&str; 4] = [
        "get-resource-reference",
        "trigger-url-elicitation",
        // Over HTTP they name the session.
        "toggle-simulated-logging",
        "toggle-subscriber-updates",
    ];
    if !MADE_UP.contains(&name) {
        return report.to_owned();
    }
    let report = report.replace(" AM", "").replace(" PM", "");
    let parts = report.split_inclusive(|c: char| !(c.is_ascii_hexdigit() || "-:".contains(c)));
    parts
        .map(|part| match part.char_indices().next_back() {
            Some((5.., delimiter)) => format!("#{delimiter}"),
            _ => part.to_owned(),
        })
        .collect()
}

macro_rules! clients {
    ($($name:ident: $peer:literal, $program:literal;)*) => {$(
        mod $name {
            use super::*;

            const CLIENT: Client = Client {
                peer: $peer,
                program: concat!("../../conformance/clients/", $program),
                revision: "2025-11-25",
            };

            #[tokio::test]
            async fn sees_the_same_through_wrap() {
                equal_with_and_without_the_relay(CLIENT, Transport::Stdio).await;
            }

            #[cfg(feature = "serve")]
            #[tokio::test]
            async fn sees_the_same_through_serve() {
                equal_with_and_without_the_relay(CLIENT, Transport::Http).await;
            }
        }
    )*};
}

// The server speaks the earlier era alone.
clients! {
    python_v1: "python-v1", "python-v1/client.py";
    python_v2: "python-v2", "python-v2/client.py";
    typescript_v1: "typescript-v1", "typescript-v1/client.mjs";
    typescript_v2: "typescript-v2", "typescript-v2/client.mjs";
}
