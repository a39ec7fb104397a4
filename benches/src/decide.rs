//! Does one thing many times, to be run under valgrind.
//!
//! The clock is passed in. What it counts is given back, so that a scenario that measures
//! something else than it says is noticed.

use std::{error::Error, hint::black_box, mem, sync::Arc, time::Instant};

use mcp_question_throttle::{
    limits::{Invalid, Limit, ProtoSettings, ServerName},
    question::{Method, QuestionKind},
    throttle::{Ask, DEFAULT_CAPACITY, Session, Throttle},
    window::Moment,
};

static METHOD: Method = Method::protocol(QuestionKind::Sampling.method());
const NO_LIMIT_MET: u32 = 1_000_000;

/// Runs a scenario by name, and gives back how many decisions came out as it says.
pub(crate) fn run(scenario: &str, count: usize) -> Result<usize, Box<dyn Error>> {
    Ok(match scenario {
        "admit" => admit(count)?,
        "admit, from an Instant" => admit_from_an_instant(count)?,
        "admit among 10 servers" => admit_among(count, 10)?,
        "admit among 10000 servers" => admit_among(count, 10_000)?,
        "admit a round of ten" => admit_round(count)?,
        "admit in a new window" => admit_in_new_windows(count)?,
        "refuse by the server's limit" => refuse(count, 1, 0)?,
        "refuse by the session's limit" => refuse(count, 0, 1)?,
        "refuse early" => refuse_early(count)?,
        "refuse saturated" => refuse_saturated(count)?,
        "sessions" => sessions(count, 1)?,
        "servers" => sessions(count, count)?,
        "storm" => storm(count)?,
        "million" => million(count)?,
        "deaf" => crate::path::resident_growth(count)?,
        path if path.starts_with("path ") => crate::path::run(path, count)?,
        other => peer(other, count)?,
    })
}

#[cfg(feature = "peers")]
fn peer(scenario: &str, count: usize) -> Result<usize, Box<dyn Error>> {
    crate::peers::run(scenario, count)
}

#[cfg(not(feature = "peers"))]
fn peer(scenario: &str, _count: usize) -> Result<usize, Box<dyn Error>> {
    Err(format!("no scenario {scenario:?}").into())
}

/// A throttle whose servers and sessions may be asked `server` and `session` times a minute, for
/// either kind.
pub(crate) fn throttle(server: u32, session: u32, now: Instant) -> Result<Arc<Throttle>, Invalid> {
    let (server, session) = (Limit::new(server)?, Limit::new(session)?);
    let settings = ProtoSettings::default()
        .with_sampling_per_minute(server)
        .with_sampling_session_per_minute(session)
        .with_elicitation_per_minute(server)
        .with_elicitation_session_per_minute(session);
    Ok(Arc::new(
        Throttle::new(settings, now).with_capacity(1_000_000),
    ))
}

/// A session of the server of that number.
pub(crate) fn session(throttle: &Arc<Throttle>, server: usize) -> Result<Session, Invalid> {
    Ok(throttle.session(ServerName::new(format!("server {server}"))?))
}

/// One decision, and whether it admitted.
#[inline]
fn decide(session: &Session, at: Moment, ask: &Ask<'_>) -> bool {
    let verdict = black_box(session).admit_at(black_box(at), black_box(ask));
    black_box(&verdict).is_ok()
}

/// Asks `count` times and gives back how many were admitted.
fn ask(session: &Session, at: Moment, count: usize) -> usize {
    let ask = Ask::one(QuestionKind::Sampling, &METHOD);
    (0..count).filter(|_| decide(session, at, &ask)).count()
}

/// With an [`Instant`], whose conversion costs more than a refusal.
fn admit_from_an_instant(count: usize) -> Result<usize, Box<dyn Error>> {
    let now = Instant::now();
    let session = session(&throttle(NO_LIMIT_MET, NO_LIMIT_MET, now)?, 0)?;
    let ask = Ask::one(QuestionKind::Sampling, &METHOD);
    Ok((0..count)
        .filter(|_| {
            let verdict = black_box(&session).admit(black_box(now), black_box(&ask));
            black_box(&verdict).is_ok()
        })
        .count())
}

fn admit(count: usize) -> Result<usize, Box<dyn Error>> {
    let throttle = throttle(NO_LIMIT_MET, NO_LIMIT_MET, Instant::now())?;
    Ok(ask(&session(&throttle, 0)?, Moment::START, count))
}

fn admit_among(count: usize, servers: usize) -> Result<usize, Box<dyn Error>> {
    let now = Instant::now();
    let throttle = throttle(NO_LIMIT_MET, NO_LIMIT_MET, now)?;
    let sessions: Vec<_> = (0..servers)
        .map(|server| session(&throttle, server))
        .collect::<Result<_, _>>()?;
    for session in &sessions {
        ask(session, Moment::START, 1);
    }
    let one = Ask::one(QuestionKind::Sampling, &METHOD);
    Ok(sessions
        .iter()
        .cycle()
        .take(count)
        .filter(|session| decide(session, Moment::START, &one))
        .count())
}

fn admit_round(count: usize) -> Result<usize, Box<dyn Error>> {
    let now = Instant::now();
    let session = session(&throttle(NO_LIMIT_MET, NO_LIMIT_MET, now)?, 0)?;
    let round = Ask::new().and(QuestionKind::Sampling, &METHOD, 5).and(
        QuestionKind::Elicitation,
        &METHOD,
        5,
    );
    Ok((0..count)
        .filter(|_| decide(&session, Moment::START, &round))
        .count())
}

fn admit_in_new_windows(count: usize) -> Result<usize, Box<dyn Error>> {
    let session = session(&throttle(1, 1, Instant::now())?, 0)?;
    let one = Ask::one(QuestionKind::Sampling, &METHOD);
    Ok((0..count as u64)
        .map(|window| Moment::from_nanos(window * 60_000_000_000))
        .filter(|at| decide(&session, *at, &one))
        .count())
}

fn refuse(count: usize, server: u32, of_session: u32) -> Result<usize, Box<dyn Error>> {
    let now = Instant::now();
    let session = session(&throttle(server, of_session, now)?, 0)?;
    ask(&session, Moment::START, 1);
    Ok(count - ask(&session, Moment::START, count))
}

fn refuse_early(count: usize) -> Result<usize, Box<dyn Error>> {
    let now = Instant::now();
    let session = session(&throttle(1, 1, now)?, 0)?;
    ask(&session, Moment::START, 1);
    Ok((0..count)
        .filter(|_| {
            let kind = black_box(QuestionKind::Sampling);
            let refusal = session.refuse_early(black_box(now), kind, black_box(&METHOD));
            black_box(&refusal).is_some()
        })
        .count())
}

/// A new server at a full table.
fn refuse_saturated(count: usize) -> Result<usize, Box<dyn Error>> {
    let now = Instant::now();
    let throttle = Arc::new(Throttle::new(ProtoSettings::default(), now));
    for server in 0..DEFAULT_CAPACITY {
        ask(&session(&throttle, server)?, Moment::START, 1);
    }
    let newcomer = session(&throttle, DEFAULT_CAPACITY)?;
    Ok(count - ask(&newcomer, Moment::START, count))
}

/// Leaves `count` sessions behind that have asked, spread over `servers`.
fn sessions(count: usize, servers: usize) -> Result<usize, Box<dyn Error>> {
    let now = Instant::now();
    let throttle = throttle(NO_LIMIT_MET, 5, now)?;
    let names = (0..servers)
        .map(|server| ServerName::new(format!("server {server}")))
        .collect::<Result<Vec<_>, _>>()?;
    let mut sessions = Vec::with_capacity(count);
    for name in names.iter().cycle().take(count) {
        sessions.push(throttle.session(name.clone()));
    }
    let admitted = sessions
        .iter()
        .map(|session| ask(session, Moment::START, 1))
        .sum();
    mem::forget(sessions);
    Ok(admitted)
}

/// Sessions come, ask and go, a hundred at a time, and leave nothing but their servers' rows.
fn storm(count: usize) -> Result<usize, Box<dyn Error>> {
    let now = Instant::now();
    let throttle = throttle(NO_LIMIT_MET, 5, now)?;
    let mut admitted = 0;
    for _ in 0..count / 100 {
        let sessions: Vec<_> = (0..100)
            .map(|number| session(&throttle, number % 10))
            .collect::<Result<_, _>>()?;
        admitted += sessions
            .iter()
            .map(|session| ask(session, Moment::START, 1))
            .sum::<usize>();
    }
    mem::forget(throttle);
    Ok(admitted)
}

/// `count` sessions on 10 000 servers, and how many bytes of resident memory that took.
fn million(count: usize) -> Result<usize, Box<dyn Error>> {
    let before = resident()?;
    sessions(count, 10_000)?;
    Ok(resident()? - before)
}

/// Resident memory in bytes, as Linux tells it.
pub(crate) fn resident() -> Result<usize, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"))
        .ok_or("no VmRSS in /proc/self/status")?;
    Ok(kilobytes.parse::<usize>()? * 1024)
}
