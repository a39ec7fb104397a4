//! A client that does as the contract of the suite says, written against the wire alone: right, or
//! wrong in one way that is named. It shows that every scenario can be passed, and that it can fail.

mod answers;
mod calls;
mod connection;
mod hosted;
mod limiter;
mod link;
mod pass;
mod transport;
mod window;
mod wrong;

use std::{
    collections::BTreeMap,
    env, fs,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde::Deserialize;

use self::{connection::Connection, limiter::Limiter};
use crate::{limits::Limits, mutex::lock, protocol::Revision};
pub(crate) use pass::run as run_relay;
pub(crate) use wrong::Wrong;

/// What all connections of the client share.
#[derive(Debug)]
struct Shared {
    wrong: Option<Wrong>,
    revision: Revision,
    limits: Limits,
    limiter: Mutex<Limiter>,
    /// Whether a question was ever refused.
    has_refused: AtomicBool,
    /// Whether a question was ever waited for.
    has_waited: AtomicBool,
    answer_delay: Duration,
    log: Option<Mutex<fs::File>>,
}

/// How a server is reached.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Address {
    Url(String),
    Command(Vec<String>),
}

/// Connects to every server of the configuration, and makes every call.
///
/// # Errors
///
/// A description of what went wrong with the configuration or a connection.
pub(crate) fn run(wrong: Option<Wrong>, only: Option<&str>) -> Result<(), String> {
    let servers: BTreeMap<String, Address> = match (env::var("MCP_CONFORMANCE_SERVERS"), only) {
        (Ok(servers), _) => serde_json::from_str(&servers)
            .map_err(|error| format!("MCP_CONFORMANCE_SERVERS: {error}"))?,
        // As a client of the official suite is told.
        (Err(_), Some(url)) => {
            BTreeMap::from([("server".to_owned(), Address::Url(url.to_owned()))])
        }
        (Err(error), None) => return Err(format!("MCP_CONFORMANCE_SERVERS: {error}")),
    };
    let shared = Arc::new(Shared::new(wrong)?);
    let mut session = 0;
    for (name, address) in &servers {
        call_everything(&shared, name, address, &mut session)?;
    }
    match wrong {
        Some(Wrong::Hangs) => loop {
            thread::park();
        },
        Some(Wrong::ExitsWithError) if shared.has_refused.load(Ordering::Relaxed) => {
            Err("a question was refused".to_owned())
        }
        _ => Ok(()),
    }
}

/// Makes every call once, in order, and connects again when the connection ends in one.
fn call_everything(
    shared: &Arc<Shared>,
    name: &str,
    address: &Address,
    session: &mut u32,
) -> Result<(), String> {
    let mut made = 0;
    loop {
        *session += 1;
        let connection = Connection::open(Arc::clone(shared), name, address, *session)?;
        let before = made;
        let calls = connection
            .calls()
            .map_err(|_| "the connection ended in a list")?;
        for call in calls.iter().skip(made) {
            if shared.is(Wrong::StopsCalling) && shared.has_refused.load(Ordering::Relaxed) {
                return Ok(());
            }
            made += 1;
            if connection.call(call).is_err() {
                // It was not made, and is made once more in the next session.
                made -= usize::from(connection.is_forgotten() && made > before + 1);
                break;
            }
        }
        let is_closed = connection.is_closed();
        connection.end();
        if made == calls.len() {
            return Ok(());
        }
        if !is_closed || made == before {
            return Err(format!("the server {name} is gone for good"));
        }
    }
}

impl Shared {
    fn new(wrong: Option<Wrong>) -> Result<Self, String> {
        let limits = match env::var_os("QUESTION_CONFORMANCE_LIMITS") {
            Some(file) => Limits::read(&PathBuf::from(file))?,
            None => Limits::default(),
        };
        let revision = match variable("MCP_CONFORMANCE_PROTOCOL_VERSION")?.as_str() {
            "2026-07-28" => Revision::Rounds,
            _ => Revision::Requests,
        };
        let log = match env::var_os("QUESTION_CONFORMANCE_LOG") {
            Some(path) => {
                let file = fs::OpenOptions::new().create(true).append(true).open(path);
                Some(Mutex::new(file.map_err(|error| error.to_string())?))
            }
            None => None,
        };
        let window = Duration::from_secs(number("QUESTION_CONFORMANCE_WINDOW_SECONDS", 60)?);
        let delay = number("QUESTION_CONFORMANCE_ANSWER_DELAY_MS", 0)?;
        Ok(Self {
            wrong,
            revision,
            limiter: Mutex::new(Limiter::new(limits.clone(), window, wrong)),
            limits,
            has_refused: AtomicBool::new(false),
            has_waited: AtomicBool::new(false),
            answer_delay: Duration::from_millis(delay),
            log,
        })
    }

    fn is(&self, wrong: Wrong) -> bool {
        self.wrong == Some(wrong)
    }

    fn is_modern(&self) -> bool {
        self.revision == Revision::Rounds
    }
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}

fn number(name: &str, default: u64) -> Result<u64, String> {
    match env::var(name) {
        Ok(text) => text
            .parse()
            .map_err(|_| format!("{name}: {text:?} is no whole number")),
        Err(_) => Ok(default),
    }
}
