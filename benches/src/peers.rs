//! Other rate limiters, asked what ours is asked: one server's limit and one session's.

use std::{
    error::Error,
    hint::black_box,
    num::NonZeroU32,
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use governor::{
    Quota, RateLimiter,
    clock::FakeRelativeClock,
    middleware::NoOpMiddleware,
    state::{InMemoryState, NotKeyed},
};
use mcp_question_throttle::{
    question::{Method, QuestionKind},
    throttle::Ask,
};

use crate::decide::{session, throttle};

const MINUTE: Duration = Duration::from_secs(60);
const MANY: u32 = 1_000_000;

type Direct =
    RateLimiter<NotKeyed, InMemoryState, FakeRelativeClock, NoOpMiddleware<governor::nanos::Nanos>>;

fn per_minute(limit: u32) -> Result<Quota, Box<dyn Error>> {
    let burst = NonZeroU32::new(limit).ok_or("a limit of 0")?;
    let quota = Quota::with_period(MINUTE / limit).ok_or("an empty period")?;
    Ok(quota.allow_burst(burst))
}

fn governor_direct(limit: u32, clock: &FakeRelativeClock) -> Result<Direct, Box<dyn Error>> {
    Ok(RateLimiter::direct_with_clock(
        per_minute(limit)?,
        clock.clone(),
    ))
}

/// A clock for `ratelimit` that is set by hand.
#[derive(Clone, Default)]
struct HandClock(Arc<AtomicU64>);

impl ratelimit::Clock for HandClock {
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

fn token_bucket(
    limit: u64,
    clock: &HandClock,
) -> Result<ratelimit::Ratelimiter<HandClock>, Box<dyn Error>> {
    Ok(ratelimit::Builder::with_clock(limit, clock.clone())
        .period(MINUTE)
        .initial_available(limit)
        .build()?)
}

fn leaky_bucket(limit: usize) -> leaky_bucket::RateLimiter {
    leaky_bucket::RateLimiter::builder()
        .max(limit)
        .initial(limit)
        .refill(1)
        .interval(MINUTE / u32::try_from(limit).unwrap_or(u32::MAX))
        .build()
}

/// A runtime whose clock stands still until it is advanced, for `leaky-bucket`.
fn paused() -> Result<tokio::runtime::Runtime, Box<dyn Error>> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?)
}

fn count_ok(count: usize, mut check: impl FnMut() -> bool) -> usize {
    (0..count).filter(|_| black_box(check())).count()
}

/// Runs a scenario by name, and gives back how many were decided as it says.
///
/// # Errors
///
/// An unknown scenario, or a limiter that cannot be built.
pub(crate) fn run(scenario: &str, count: usize) -> Result<usize, Box<dyn Error>> {
    let (peer, refuse) = match scenario.split_once(' ') {
        Some((peer, "admits")) => (peer, false),
        Some((peer, "refuses")) => (peer, true),
        _ => return Err(format!("no scenario {scenario:?}").into()),
    };
    let limit = if refuse { 1 } else { MANY };
    let admitted = match peer {
        "governor" => {
            let clock = FakeRelativeClock::default();
            let (server, of_session) = (
                governor_direct(limit, &clock)?,
                governor_direct(limit, &clock)?,
            );
            count_ok(count, || {
                black_box(&server).check().is_ok() && black_box(&of_session).check().is_ok()
            })
        }
        "governor-keyed" => {
            let clock = FakeRelativeClock::default();
            let keyed = || -> Result<_, Box<dyn Error>> {
                Ok(RateLimiter::dashmap_with_clock(
                    per_minute(limit)?,
                    clock.clone(),
                ))
            };
            let (server, of_session) = (keyed()?, keyed()?);
            let name = String::from("server 0");
            count_ok(count, || {
                black_box(&server).check_key(black_box(&name)).is_ok()
                    && black_box(&of_session).check_key(&black_box(7_u64)).is_ok()
            })
        }
        "ratelimit" => {
            let clock = HandClock::default();
            let limit = u64::from(limit);
            let (server, of_session) = (token_bucket(limit, &clock)?, token_bucket(limit, &clock)?);
            count_ok(count, || {
                black_box(&server).try_wait().is_ok() && black_box(&of_session).try_wait().is_ok()
            })
        }
        "leaky-bucket" => {
            // Its smallest interval is a millisecond: 1 000 000 are there from the start.
            let bucket = |limit| {
                leaky_bucket::RateLimiter::builder()
                    .max(limit)
                    .initial(limit)
                    .interval(MINUTE)
                    .build()
            };
            let runtime = paused()?;
            let _guard = runtime.enter();
            let limit = usize::try_from(limit)?;
            let (server, of_session) = (bucket(limit), bucket(limit));
            count_ok(count, || {
                black_box(&server).try_acquire(1) && black_box(&of_session).try_acquire(1)
            })
        }
        _ => return Err(format!("no peer {peer:?}").into()),
    };
    // Of those that refuse, the first is admitted.
    Ok(if refuse {
        count - admitted + 1
    } else {
        admitted
    })
}

/// What a limiter does at a limit of 5 per minute, and in a race.
#[derive(Debug)]
pub(crate) struct Exactness {
    /// The limiter.
    pub(crate) name: &'static str,
    /// How many of 600 questions in the first 60 seconds it admitted.
    pub(crate) first_minute: usize,
    /// Sixteen sessions with 10 permits each race for a server's 160: how many were refused by
    /// the server's limit although it had room for all that was ever admitted.
    pub(crate) spurious: usize,
}

const THREADS: usize = 16;

/// Races sixteen sessions that ask twenty times each and may ask ten times each.
fn admitted_in_a_race(admit: impl Fn(usize) -> bool + Sync) -> usize {
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (barrier, admit) = (&barrier, &admit);
                scope.spawn(move || {
                    barrier.wait();
                    (0..20).filter(|_| admit(number)).count()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_default())
            .sum()
    })
}

/// Asks ten times a second for a minute.
fn first_minute(mut admit: impl FnMut(Duration) -> bool) -> usize {
    (0..600)
        .filter(|tenth| admit(Duration::from_millis(100 * tenth)))
        .count()
}

/// Measures ours and the peers.
///
/// # Errors
///
/// A limiter that cannot be built.
pub(crate) fn exactness() -> Result<Vec<Exactness>, Box<dyn Error>> {
    Ok(vec![ours()?, governor()?, ratelimit()?, leaky()?])
}

fn ours() -> Result<Exactness, Box<dyn Error>> {
    let now = Instant::now();
    let method = Method::from(QuestionKind::Sampling);
    let ask = Ask::one(QuestionKind::Sampling, &method);
    let one = session(&throttle(5, 5, now)?, 0)?;
    let shared = throttle(160, 10, now)?;
    let sessions: Vec<_> = (0..THREADS)
        .map(|_| session(&shared, 0))
        .collect::<Result<_, _>>()?;
    Ok(Exactness {
        name: "ours",
        first_minute: first_minute(|after| one.admit(now + after, &ask).is_ok()),
        spurious: 160 - admitted_in_a_race(|number| sessions[number].admit(now, &ask).is_ok()),
    })
}

fn governor() -> Result<Exactness, Box<dyn Error>> {
    let clock = FakeRelativeClock::default();
    let five = governor_direct(5, &clock)?;
    let first_minute = first_minute(|_| {
        let admitted = five.check().is_ok();
        clock.advance(Duration::from_millis(100));
        admitted
    });
    let server = governor_direct(160, &clock)?;
    let sessions = (0..THREADS)
        .map(|_| governor_direct(10, &clock))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Exactness {
        name: "governor",
        first_minute,
        spurious: 160
            - admitted_in_a_race(|number| {
                server.check().is_ok() && sessions[number].check().is_ok()
            }),
    })
}

fn ratelimit() -> Result<Exactness, Box<dyn Error>> {
    let clock = HandClock::default();
    let five = token_bucket(5, &clock)?;
    let first_minute = first_minute(|after| {
        let nanos = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        clock.0.store(nanos, Ordering::Relaxed);
        five.try_wait().is_ok()
    });
    let clock = HandClock::default();
    let server = token_bucket(160, &clock)?;
    let sessions = (0..THREADS)
        .map(|_| token_bucket(10, &clock))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Exactness {
        name: "ratelimit",
        first_minute,
        spurious: 160
            - admitted_in_a_race(|number| {
                server.try_wait().is_ok() && sessions[number].try_wait().is_ok()
            }),
    })
}

fn leaky() -> Result<Exactness, Box<dyn Error>> {
    let runtime = paused()?;
    let first_minute = runtime.block_on(async {
        let five = leaky_bucket(5);
        let mut admitted = 0;
        for _ in 0..600 {
            admitted += usize::from(five.try_acquire(1));
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        admitted
    });
    let handle = runtime.handle();
    let _guard = runtime.enter();
    let server = leaky_bucket(160);
    let sessions: Vec<_> = (0..THREADS).map(|_| leaky_bucket(10)).collect();
    Ok(Exactness {
        name: "leaky-bucket",
        first_minute,
        spurious: 160
            - admitted_in_a_race(|number| {
                let _guard = handle.enter();
                server.try_acquire(1) && sessions[number].try_acquire(1)
            }),
    })
}
