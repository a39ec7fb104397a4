//! Flooding servers: what reached the client's handlers is the limit exactly, and the server
//! counts the rest as refused.

use serde_json::json;

use crate::{
    client::Client,
    peers::skipped,
    relay::{Relay, Server, Transport},
};

/// A multiple of what a round asks, so that rounds can use it up.
const SAMPLING: usize = 8;
const ELICITATION: usize = 4;
/// How much a server asks by its own default, within a call and in a round.
const ASKED: usize = 30;
const ROUND: usize = 4;

fn relay() -> Relay {
    Relay::new(&format!(
        "[proto]\nsamplingPerMinute = {SAMPLING}\nelicitationPerMinute = {ELICITATION}\n"
    ))
}

/// Server requests in a loop (2025-11-25).
async fn floods(client: Client, server: Server, transport: Transport) {
    if skipped() {
        return;
    }
    let relay = relay();
    let run = client.run(&server.behind(&relay, transport).await).await;
    for (tool, method, limit, setting) in [
        (
            "flood_sampling",
            "sampling/createMessage",
            SAMPLING,
            "proto.samplingPerMinute",
        ),
        (
            "flood_elicitation",
            "elicitation/create",
            ELICITATION,
            "proto.elicitationPerMinute",
        ),
    ] {
        let report = run.json(tool);
        assert_eq!(report["asked"], ASKED, "{report}");
        assert_eq!(report["answered"], limit, "{report}");
        assert_eq!(report["refused"], ASKED - limit, "{report}");
        assert_eq!(report["firstRefusal"]["data"]["limit"], setting, "{report}");
        assert_eq!(run.asked(method), limit, "{:?}", run.asked);
        if transport == Transport::Stdio {
            let advice = format!("raise {}", setting.trim_start_matches("proto."));
            assert!(run.said.contains(&advice), "{}", run.said);
        }
    }
}

/// `input_required` rounds (2026-07-28), of four questions each.
async fn rounds(client: Client, server: Server, transport: Transport) {
    if skipped() {
        return;
    }
    let relay = relay();
    let run = client.run(&server.behind(&relay, transport).await).await;
    for (tool, setting) in [
        ("rounds_sampling", "proto.samplingPerMinute"),
        ("rounds_elicitation", "proto.elicitationPerMinute"),
    ] {
        let report = &run.calls[tool];
        assert_eq!(report["error"]["code"], -32603, "{report}");
        assert_eq!(report["error"]["data"]["limit"], setting, "{report}");
    }
    assert_eq!(run.asked("sampling/createMessage"), SAMPLING);
    assert_eq!(run.asked("elicitation/create"), ELICITATION);
    // The refused round was sent, and nothing came back for it.
    let answered = SAMPLING + ELICITATION;
    assert_eq!(
        run.json("counters"),
        json!({"roundsSent": answered / ROUND + 2, "answersSeen": answered})
    );
}

macro_rules! clients {
    ($($name:ident: $check:ident($revision:literal, $client:literal, $program:literal, $server:literal, $flood:literal);)*) => {$(
        mod $name {
            use super::*;

            const CLIENT: Client = Client {
                peer: $client,
                program: concat!("../../conformance/clients/", $client, "/", $program),
                revision: $revision,
            };
            const SERVER: Server = Server {
                peer: $server,
                program: concat!($server, "/", $flood),
            };

            #[tokio::test]
            async fn through_wrap() {
                $check(CLIENT, SERVER, Transport::Stdio).await;
            }

            #[cfg(feature = "serve")]
            #[tokio::test]
            async fn through_serve() {
                $check(CLIENT, SERVER, Transport::Http).await;
            }
        }
    )*};
}

clients! {
    python_v1_by_python_v1: floods("2025-11-25", "python-v1", "client.py", "python-v1", "flood_server.py");
    python_v1_by_typescript_v2: floods("2025-11-25", "python-v1", "client.py", "typescript-v2", "flood_server.mjs");
    python_v2_by_python_v2: floods("2025-11-25", "python-v2", "client.py", "python-v2", "flood_server.py");
    python_v2_by_typescript_v1: floods("2025-11-25", "python-v2", "client.py", "typescript-v1", "flood_server.mjs");
    typescript_v1_by_typescript_v1: floods("2025-11-25", "typescript-v1", "client.mjs", "typescript-v1", "flood_server.mjs");
    typescript_v1_by_python_v2: floods("2025-11-25", "typescript-v1", "client.mjs", "python-v2", "flood_server.py");
    typescript_v2_by_typescript_v2: floods("2025-11-25", "typescript-v2", "client.mjs", "typescript-v2", "flood_server.mjs");
    typescript_v2_by_python_v1: floods("2025-11-25", "typescript-v2", "client.mjs", "python-v1", "flood_server.py");
    python_v2_in_rounds_by_python_v2: rounds("2026-07-28", "python-v2", "client.py", "python-v2", "flood_server.py");
    python_v2_in_rounds_by_typescript_v2: rounds("2026-07-28", "python-v2", "client.py", "typescript-v2", "flood_server.mjs");
    typescript_v2_in_rounds_by_typescript_v2: rounds("2026-07-28", "typescript-v2", "client.mjs", "typescript-v2", "flood_server.mjs");
    typescript_v2_in_rounds_by_python_v2: rounds("2026-07-28", "typescript-v2", "client.mjs", "python-v2", "flood_server.py");
}
