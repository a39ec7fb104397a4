//! What there is to play and to prove, for people who want to know before or after a run.

use std::fmt::Write;

use crate::{
    protocol::Transport,
    register::{Register, Requirement},
    scenario::{self, Check, Scenario},
};

/// Every scenario in a line, then every requirement.
///
/// # Errors
///
/// A file of the suite that cannot be read.
pub(crate) fn list() -> Result<String, String> {
    let (scenarios, register) = read()?;
    let mut text = String::from("scenarios (--scenario NAME plays one):\n");
    // Writing to a string does not fail, here and below.
    for scenario in &scenarios {
        let _ = writeln!(
            text,
            "  {} ({})\n      {}",
            scenario.name,
            way(scenario),
            scenario.title
        );
    }
    text.push_str("\nrequirements:\n");
    for (id, requirement) in register.iter() {
        let _ = writeln!(text, "  {id}\n      {}", requirement.says);
    }
    text.push_str("\nconformance explain NAME says more about either\n");
    Ok(text)
}

/// A scenario with its checks, or a requirement with what proves it.
///
/// # Errors
///
/// A file of the suite that cannot be read, or a name that is neither.
pub(crate) fn explain(name: &str) -> Result<String, String> {
    let (scenarios, register) = read()?;
    if let Some(scenario) = scenarios.iter().find(|one| one.name == name) {
        return Ok(about_scenario(scenario, &register));
    }
    let requirement = register.iter().find(|(id, _)| *id == name);
    let (id, requirement) = requirement.ok_or_else(|| {
        format!("no scenario and no requirement is named {name:?}: conformance list has all names")
    })?;
    Ok(about_requirement(id, requirement, &scenarios))
}

fn read() -> Result<(Vec<Scenario>, Register), String> {
    let mut scenarios = scenario::all()?;
    scenarios.extend(scenario::official()?);
    let register = Register::read(&scenarios)?;
    Ok((scenarios, register))
}

fn about_scenario(scenario: &Scenario, register: &Register) -> String {
    let mut text = format!(
        "{} ({})\n{}\n",
        scenario.name,
        way(scenario),
        scenario.title
    );
    for server in &scenario.servers {
        let calls: Vec<_> = server.all_calls().map(|call| call.name.as_str()).collect();
        let _ = writeln!(text, "  server {}: {}", server.name, calls.join(", "));
    }
    text.push_str("\nchecks:\n");
    for check in &scenario.checks {
        let _ = writeln!(text, "  {}{}", check.name, scope(check));
        for id in &check.requires {
            if let Some(requirement) = register.get(id) {
                let _ = writeln!(text, "      {id}: {}", requirement.says);
                let _ = writeln!(text, "        source: {}", requirement.source);
            }
        }
    }
    text
}

fn about_requirement(id: &str, requirement: &Requirement, scenarios: &[Scenario]) -> String {
    let mut text = format!(
        "{id}\n{}\n  source: {} (D1 to D13, the doors and the refusal: conformance/DECISIONS.md)\n  ways to ask: {}\n\nproved by:\n",
        requirement.says,
        requirement.source,
        requirement.doors.join(", "),
    );
    for scenario in scenarios {
        for check in &scenario.checks {
            if check.requires.iter().any(|one| one == id) {
                let _ = writeln!(text, "  {}: {}{}", scenario.name, check.name, scope(check));
            }
        }
    }
    text
}

/// In what a scenario is played, and how.
fn way(scenario: &Scenario) -> String {
    let transports: Vec<_> = scenario
        .transports
        .iter()
        .map(|&one| Transport::as_str(one))
        .collect();
    let option = match (scenario.is_official, scenario.slow) {
        (true, _) => ", with --official-client",
        (false, true) => ", with --slow",
        (false, false) => "",
    };
    format!(
        "{}, {}{option}",
        scenario.revision,
        transports.join(" and ")
    )
}

/// What a check looks at, where that is not all of a scenario.
fn scope(check: &Check) -> String {
    let mut parts = Vec::new();
    parts.extend(check.kind.map(|kind| kind.to_string()));
    if !check.calls.is_empty() {
        parts.push(format!("in {}", check.calls.join(", ")));
    }
    parts.extend(check.of.map(|of| format!("for a {} alone", of.as_str())));
    if parts.is_empty() {
        String::new()
    } else {
        format!(" ({})", parts.join(" "))
    }
}
