//! Plays one scenario to one client.

mod printed;
mod traces;
mod way;

use std::{future::pending, path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use serde::Serialize;
use tokio::{process::Command, task::JoinSet, time::timeout};

use self::{
    printed::Printed,
    traces::{read_log, whereabouts},
    way::{addresses, client_command, start_relay},
};
use crate::{
    checks::{Ending, Evidence, Outcome},
    limits::Limits,
    model::{Counter, Model, Windows},
    process::{self, Group},
    protocol::{Revision, Transport},
    record::Recorder,
    relay::Relay,
    scenario::Scenario,
    server::{Entrance, Stage},
    wire_log::WireLog,
};

/// The length of windows, unless a client can be told otherwise.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
/// How long the last messages of a client that has ended may be on their way.
const DRAIN: Duration = Duration::from_secs(5);
/// A client that has said nothing for so long will say no more. Generous, since clients that start
/// an interpreter share the machine with each other.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);

/// The client under test, and what is known about it.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// Program and arguments; the last one is added.
    pub(crate) command: Vec<String>,
    /// What stands between it and its servers.
    pub(crate) relay: Option<Relay>,
    pub(crate) transport: Transport,
    pub(crate) limits: Arc<Limits>,
    /// The file they came from.
    pub(crate) limits_file: Option<PathBuf>,
    /// The folder for its wire logs.
    pub(crate) wire_log: Option<PathBuf>,
    /// The length of its windows in scenarios that wait for one to end.
    pub(crate) slow_window: Duration,
    /// How long it says nothing when it has nothing more to say.
    pub(crate) silence: Duration,
    /// How long it may take to connect to its first server.
    pub(crate) connects: Duration,
    /// How long it may take for a scenario, without the windows that it waits for.
    pub(crate) longest: Duration,
}

impl Client {
    /// Who counts the questions.
    pub(crate) const fn counter(&self) -> Counter {
        match self.relay {
            Some(_) => Counter::Relay,
            None => Counter::Client,
        }
    }

    /// The length of its windows in a scenario.
    const fn window(&self, scenario: &Scenario) -> Duration {
        if scenario.slow {
            self.slow_window
        } else {
            MINUTE
        }
    }
}

/// What became of a scenario.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ScenarioReport {
    pub(crate) scenario: String,
    pub(crate) title: String,
    pub(crate) revision: Revision,
    pub(crate) transport: Transport,
    pub(crate) seconds: f64,
    pub(crate) checks: Vec<CheckReport>,
    /// Whether the client made a call at all.
    #[serde(skip)]
    pub(crate) took_part: bool,
    /// Whether a question came by a request that should have been refused.
    #[serde(skip)]
    pub(crate) should_refuse: bool,
    /// Whether a question was refused.
    #[serde(skip)]
    pub(crate) has_refused: bool,
    /// Whether it had to be ended.
    #[serde(skip)]
    pub(crate) hung: bool,
    /// Why the client failed as a program, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_failed: Option<String>,
    /// The end of what the client printed, on both its outputs, if a check is not met.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) printed: String,
}

/// What became of a check.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CheckReport {
    pub(crate) check: String,
    pub(crate) requires: Vec<String>,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// Plays `scenario` to `client`.
///
/// # Errors
///
/// What the runner itself could not do; whatever the client does is in the report.
pub(crate) async fn scenario(
    client: &Client,
    scenario: &Scenario,
) -> Result<ScenarioReport, String> {
    let revision = scenario.revision;
    let window = client.window(scenario);
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let log = folder.path().join("handled");
    let wire_log = match &client.wire_log {
        Some(folder) => Some(Arc::new(WireLog::create(folder, &scenario.name)?)),
        None => None,
    };
    let stage = Stage {
        scenario: Arc::new(scenario.clone()),
        revision,
        limits: Arc::clone(&client.limits),
        window,
        silence: client.silence,
        recorder: Recorder::new(),
        wire_log,
    };
    let entrance = Entrance::open(client.transport)
        .await
        .map_err(|error| format!("no port for the servers: {error}"))?;

    let (printed, output) = Printed::open().map_err(|error| error.to_string())?;
    let mut connections = JoinSet::new();
    let waits = if scenario.slow {
        2 * window
    } else {
        Duration::ZERO
    };
    let longest = client.longest + waits;
    let servers = addresses(client, scenario, &entrance)?;
    let play = async {
        let relay = start_relay(client, scenario, &servers, folder.path(), &output).await;
        let relay = match relay {
            Ok(relay) => relay,
            Err(why) => return Ok(Ending::RelayFailed(why)),
        };
        let reached = relay.as_ref().map_or(&servers, |relay| &relay.urls);
        let mut command = client_command(client, scenario, reached)?;
        if !scenario.is_official {
            command.env("QUESTION_CONFORMANCE_LOG", &log);
        }
        let errors = output.try_clone().map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let Some(mut relay) = relay else {
            return run_client(command, client.connects, longest, &stage.recorder).await;
        };
        let ended = tokio::select! {
            ended = run_client(command, client.connects, longest, &stage.recorder) => ended,
            why = relay.dies() => return Ok(Ending::RelayFailed(why)),
        };
        if let Some(why) = relay.has_died() {
            return Ok(Ending::RelayFailed(why));
        }
        relay.end().await;
        ended
    };
    let ended = tokio::select! {
        ended = play => ended,
        () = entrance.serve(&stage, &mut connections) => Err("the servers' port closed".to_owned()),
    };
    let all_read = async { while connections.join_next().await.is_some() {} };
    // What is still open then belongs to processes that outlived the client.
    let _ = timeout(DRAIN, all_read).await;

    let (ending, client_failed) = match ended {
        Ok(ending @ Ending::Exited(Some(0))) => (ending, None),
        Ok(ending) => (ending.clone(), Some(ending.to_string())),
        Err(why) => return Err(why),
    };
    let record = stage.recorder.lock().clone();
    let hung = matches!(ending, Ending::TimedOut(_) | Ending::NeverConnected(_));
    let log = read_log(&log, &scenario.servers);
    let wrong_log = log.as_ref().err().cloned();
    let client_failed = client_failed.map(|why| match ending {
        // The client never ran, or could do nothing about it.
        Ending::RelayFailed(_) => why,
        _ => format!("{why}; {}", whereabouts(scenario, &record)),
    });
    let client_failed = client_failed.or_else(|| wrong_log.clone());
    let counter = client.counter();
    let expected = |windows| Model::replay(&client.limits, &record, counter, windows);
    let evidence = Evidence {
        scenario,
        revision,
        limits: &client.limits,
        counter,
        window,
        expected: expected(Windows::Server),
        record: &record,
        handled: log.unwrap_or_default(),
        is_log_wrong: wrong_log.is_some(),
        ending,
    };
    let mut questions = record.questions.iter().zip(&evidence.expected);
    let should_refuse = questions
        .any(|(question, expected)| question.request.id.is_some() && !expected.is_admitted());
    let windows = client.relay.as_ref().map(|relay| relay.windows);
    let by_process = (windows == Some(Windows::Process)).then(|| Evidence {
        expected: expected(Windows::Process),
        ..evidence.clone()
    });
    let checks: Vec<CheckReport> = scenario
        .checks_for(counter)
        .map(|check| CheckReport {
            check: check.name.clone(),
            requires: check.requires.clone(),
            outcome: evidence.judge_all_windows(by_process.as_ref(), check),
        })
        .collect();
    let all_well = client_failed.is_none()
        && checks
            .iter()
            .all(|check| matches!(check.outcome, Outcome::Met { .. }));
    Ok(ScenarioReport {
        scenario: scenario.name.clone(),
        title: scenario.title.clone(),
        revision,
        transport: client.transport,
        seconds: stage.recorder.now().as_secs_f64(),
        checks,
        took_part: !record.calls.is_empty(),
        hung,
        has_refused: record.has_refusals(),
        should_refuse,
        client_failed,
        printed: if all_well {
            String::new()
        } else {
            printed.end().await
        },
    })
}

/// Runs the client to its end, or ends it with all that it started.
async fn run_client(
    mut command: Command,
    connects: Duration,
    longest: Duration,
    recorder: &Recorder,
) -> Result<Ending, String> {
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let program = command.as_std().get_program().display().to_string();
            return Ok(Ending::NotStarted(format!("{program}: {error}")));
        }
    };
    let group = Group::of(&child);
    let connects_to_nothing = async {
        if timeout(connects, recorder.connected()).await.is_ok() {
            pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        ended = timeout(longest, child.wait()) => ended,
        () = connects_to_nothing, if connects < longest => return Ok(Ending::NeverConnected(connects)),
    };
    match ended {
        Ok(Ok(status)) => {
            group.leave();
            Ok(process::ending(status))
        }
        Ok(Err(error)) => Err(format!("the client cannot be waited for: {error}")),
        Err(_) => Ok(Ending::TimedOut(longest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_never_connects_is_ended_sooner_than_who_hangs_later() {
        let sleeper = || {
            let mut command = Command::new("sleep");
            command.arg("600").process_group(0).kill_on_drop(true);
            command
        };
        let (connects, longest) = (Duration::from_secs(30), Duration::from_secs(60));
        let recorder = Recorder::new();
        let ended = run_client(sleeper(), connects, longest, &recorder).await;
        assert_eq!(ended, Ok(Ending::NeverConnected(connects)));
        recorder.connect(0);
        let ended = run_client(sleeper(), connects, longest, &recorder).await;
        assert_eq!(ended, Ok(Ending::TimedOut(longest)));
    }
}
