//! The client of the demo: throttled, connected to the flooding server, counting.

use std::{
    collections::BTreeMap,
    env, fmt, io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use mcp_question_throttle::{
    CallError, ClientSession, Pool, Verdict,
    limits::{Invalid, Settings},
};
use rmcp::{
    model::{CallToolRequestParams, ProtocolVersion},
    service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt, ServiceError},
    transport::TokioChildProcess,
};
use serde_json::{Value, json};
use tokio::{process::Command, time};

use super::{
    flood::{Era, FLOOD, REPORT, Seen},
    handler::Handler,
    run::{Plan, Run},
};

/// How often the progress is shown.
const TICK: Duration = Duration::from_millis(40);
/// A run that is not done by then never will be. Well within one window, too.
const LONGEST: Duration = Duration::from_secs(30);

/// Has the server flood a throttled client, and gives back what everyone counted.
///
/// # Cancel safety
///
/// Dropping the future ends the session and its child process.
pub(super) async fn flood(
    plan: Plan,
    settings: &Settings,
    mut progress: impl FnMut(&Tally),
) -> Result<Run, Failure> {
    let tally = Arc::new(Mutex::new(Tally::default()));
    let flood = run(plan, settings, &tally);
    tokio::pin!(flood);
    let deadline = time::sleep(LONGEST);
    tokio::pin!(deadline);
    let mut ticks = time::interval(TICK);
    loop {
        tokio::select! {
            done = &mut flood => break done,
            () = &mut deadline => break Err(Failure::TooSlow),
            _ = ticks.tick() => progress(&read(&tally)),
        }
    }
}

async fn run(plan: Plan, settings: &Settings, tally: &Arc<Mutex<Tally>>) -> Result<Run, Failure> {
    let handler = Handler::default();
    let handled = handler.count();
    let observed = Arc::clone(tally);
    let throttled = Pool::new(settings.clone())
        .with_observer(move |verdict| lock(&observed).count(verdict))
        .wrap("flooding-server", handler)
        .map_err(Failure::Settings)?;
    let running = throttled
        .serve_with_lifecycle(start(plan).map_err(Failure::Start)?, lifecycle(plan.era))
        .await
        .map_err(|error| Failure::Connect(Box::new(error)))?;
    let session = ClientSession::new(running);

    // A refused round ends the call; a caller that never learns calls again, until the server
    // has asked all it wants to.
    let mut refused_calls = 0;
    let mut first_refusal = None;
    while refused_calls < plan.questions {
        match session.call_tool(CallToolRequestParams::new(FLOOD)).await {
            Ok(_) => break,
            Err(CallError::Refused(refused)) => {
                refused_calls += 1;
                first_refusal.get_or_insert_with(|| json!(refused.refusal()));
            }
            Err(error) => return Err(Failure::Call(error)),
        }
    }
    let seen = report(&session).await?;
    // The server is told by the end of its input, and has nothing left to say.
    drop(session.cancel().await);

    let tally = read(tally);
    Ok(Run {
        era: plan.era,
        kind: plan.kind,
        asked: seen.asked,
        admitted: tally.admitted,
        refused: tally.refused,
        refused_by: tally.refused_by,
        handler_saw: handled.get(),
        server_saw_answers: seen.answers,
        server_saw_refusals: seen.refusals,
        first_refusal: seen.first_refusal.or(first_refusal),
    })
}

fn start(plan: Plan) -> io::Result<TokioChildProcess> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["flooding-server", "--era", plan.era.as_str()]);
    command.args(["--kind", plan.kind.as_str()]);
    command.args(["--questions", &plan.questions.to_string()]);
    command.args(["--pause-us", &plan.pause.as_micros().to_string()]);
    TokioChildProcess::new(command)
}

fn lifecycle(era: Era) -> ClientLifecycleMode {
    match era {
        Era::Requests => ClientLifecycleMode::Initialize,
        Era::Rounds => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
    }
}

async fn report(session: &ClientSession<Handler>) -> Result<Seen, Failure> {
    let call = CallToolRequestParams::new(REPORT);
    let result = session.call_tool(call).await.map_err(Failure::Call)?;
    let seen = result.structured_content.unwrap_or(Value::Null);
    serde_json::from_value(seen).map_err(Failure::Report)
}

/// What the throttle decided.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) admitted: u32,
    pub(super) refused: u32,
    refused_by: BTreeMap<&'static str, u32>,
}

impl Tally {
    fn count(&mut self, verdict: &Verdict<'_>) {
        let questions = verdict.sampling + verdict.elicitation;
        match verdict.refusal {
            None => self.admitted += questions,
            Some(refusal) => {
                let by = match refusal.limit() {
                    Some(limit) => limit.as_str(),
                    None => refusal.cause().as_str(),
                };
                self.refused += questions;
                *self.refused_by.entry(by).or_default() += questions;
            }
        }
    }
}

fn lock(tally: &Mutex<Tally>) -> std::sync::MutexGuard<'_, Tally> {
    // Counting cannot fail half-way.
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(tally: &Mutex<Tally>) -> Tally {
    lock(tally).clone()
}

/// Why a run has no result.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server's process did not start.
    Start(io::Error),
    /// The handshake failed.
    Connect(Box<ClientInitializeError>),
    /// A call failed.
    Call(CallError),
    /// What the server reported makes no sense.
    Report(serde_json::Error),
    /// The configured name is not valid.
    Settings(Invalid),
    /// It took too long.
    TooSlow,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => write!(f, "the flooding server did not start: {error}"),
            Self::Connect(error) => write!(f, "no connection to the flooding server: {error}"),
            Self::Call(CallError::Service(ServiceError::TransportClosed)) => {
                f.write_str("the flooding server closed the connection")
            }
            Self::Call(error) => write!(f, "a call of the flooding server failed: {error}"),
            Self::Report(error) => write!(f, "the flooding server's report: {error}"),
            Self::Settings(error) => error.fmt(f),
            Self::TooSlow => write!(
                f,
                "the flooding server was not done after {} s",
                LONGEST.as_secs()
            ),
        }
    }
}
