//! What there is to play and to prove, told before a run.

use crate::support::{assert_ends, run};

#[test]
fn the_list_has_every_scenario_with_how_to_play_it_and_every_requirement() {
    assert_ends(
        &run(&["list"]),
        0,
        &[
            "  burst (2025-11-25, stdio and http)",
            "  window-edge (2025-11-25, stdio and http, with --slow)",
            "  reconnects (2025-11-25, stdio)",
            "  elicitation-sep1034-client-defaults (2025-11-25, http, with --official-client)",
            "  refusal-is-error\n      A refusal is a JSON-RPC error with the code -32603.",
        ],
    );
}

#[test]
fn a_scenario_is_explained_by_its_calls_and_by_what_its_checks_prove() {
    assert_ends(
        &run(&["explain", "burst"]),
        0,
        &[
            "server alpha: sample, elicit, both-again",
            "  sampling-data (sampling)\n      refusal-names-limit: A refusal's data names",
            "        source: client/sampling, 2025-11-25 and 2026-07-28: \"Clients SHOULD",
        ],
    );
}

#[test]
fn a_requirement_is_explained_by_its_source_and_by_the_checks_that_prove_it() {
    assert_ends(
        &run(&["explain", "round-unreadable"]),
        0,
        &[
            "source: basic/patterns/mrtr, 2026-07-28",
            "  rounds: unreadable-not-charged (in all-that-may for a client alone)",
        ],
    );
}

#[test]
fn a_name_that_is_none_points_to_the_list() {
    let unknown = run(&["explain", "bursts"]);
    assert_ends(&unknown, 2, &["\"bursts\": conformance list has all names"]);
}
