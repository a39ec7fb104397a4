//! What is valid in a settings file, yet probably not what the operator wants.

use std::{collections::BTreeMap, fmt};

use serde::{Serialize, Serializer, ser::SerializeMap};

use super::{
    Loaded,
    server::{Endpoint, ServerEntry},
};
use crate::{
    limits::{LimitName, ProtoSettings, ServerName, ThrottleMode},
    question::QuestionKind,
};

/// How much a [`Warning`] matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Level {
    /// A bound that does not hold what it seems to promise.
    Warning,
    /// A consequence worth knowing.
    Note,
}

impl Level {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something valid that deserves a look. `server` is `None` for all servers without limits of
/// their own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// One server under several names has a budget under each (D2).
    #[non_exhaustive]
    SameEndpoint {
        /// What they share, `command` or `url`.
        key: &'static str,
        /// Their names.
        servers: Vec<ServerName>,
    },
    /// Only sessions are bounded: a server that reconnects starts full each time (D2).
    #[non_exhaustive]
    OnlySessionLimit {
        /// Whom it concerns.
        server: Option<ServerName>,
        /// The kind of question.
        kind: QuestionKind,
    },
    /// The session limit bounds nothing, since the server's limit is not above it (D2).
    #[non_exhaustive]
    SessionLimitNotBelow {
        /// Whom it concerns.
        server: Option<ServerName>,
        /// The kind of question.
        kind: QuestionKind,
        /// The limit of a session.
        session: u32,
        /// The limit of the server.
        max: u32,
    },
    /// Without a session limit one session can use up the server's window (D2).
    #[non_exhaustive]
    NoSessionLimit {
        /// Whom it concerns.
        server: Option<ServerName>,
        /// The kind of question.
        kind: QuestionKind,
        /// The limit of the server.
        max: u32,
    },
    /// Both limits are off.
    #[non_exhaustive]
    Unbounded {
        /// Whom it concerns.
        server: Option<ServerName>,
        /// The kind of question.
        kind: QuestionKind,
    },
    /// Limits are observed, and refuse nothing.
    #[non_exhaustive]
    Observed {
        /// Whom it concerns.
        server: Option<ServerName>,
    },
    /// Settings that a relay does not hold to, of servers that a relay can reach.
    #[non_exhaustive]
    NotInARelay {
        /// Whom it concerns.
        server: Option<ServerName>,
        /// Which ones.
        settings: Vec<LimitName>,
    },
    /// Every question of a server is refused.
    #[non_exhaustive]
    Muted {
        /// Which one.
        server: ServerName,
    },
}

impl Warning {
    /// How much it matters.
    #[must_use]
    pub const fn level(&self) -> Level {
        match self {
            Self::SameEndpoint { .. }
            | Self::OnlySessionLimit { .. }
            | Self::SessionLimitNotBelow { .. }
            | Self::Observed { .. } => Level::Warning,
            Self::NoSessionLimit { .. }
            | Self::Unbounded { .. }
            | Self::NotInARelay { .. }
            | Self::Muted { .. } => Level::Note,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameEndpoint { key, servers } => {
                let names: Vec<_> = servers
                    .iter()
                    .map(|name| format!("{:?}", name.as_str()))
                    .collect();
                write!(
                    f,
                    "servers {} have the same {key}: each name has a budget of its own, so it \
                     may ask {} times as much",
                    names.join(" and "),
                    servers.len()
                )
            }
            Self::OnlySessionLimit { server, kind } => write!(
                f,
                "{}: {kind} is bounded per session only, and a server that reconnects starts \
                 full each time; set {} too",
                Whom(server.as_ref()),
                LimitName::per_server(*kind)
            ),
            Self::SessionLimitNotBelow {
                server,
                kind,
                session,
                max,
            } => write!(
                f,
                "{}: one session can use up the {kind} window of all, since it may ask {session} \
                 times a minute, and the server {max}; set {} below that",
                Whom(server.as_ref()),
                LimitName::per_session(*kind)
            ),
            Self::NoSessionLimit { server, kind, max } => write!(
                f,
                "{}: one session can use up the {kind} window of all ({max} a minute); set {} \
                 below it if that matters",
                Whom(server.as_ref()),
                LimitName::per_session(*kind)
            ),
            Self::Unbounded { server, kind } => {
                write!(f, "{}: {kind} is not bounded at all", Whom(server.as_ref()))
            }
            Self::Observed { server } => write!(
                f,
                "{}: limits are observed only, and no question is refused by them; set {} to {:?} \
                 to enforce them",
                Whom(server.as_ref()),
                ThrottleMode::SETTING,
                ThrottleMode::Enforce.as_str()
            ),
            Self::NotInARelay { server, settings } => {
                let names: Vec<_> = settings.iter().map(|limit| limit.as_str()).collect();
                write!(
                    f,
                    "{}: {} {} nothing in a relay (`wrap` and `serve`), which can neither close \
                     a client's prompt nor tell which rounds are one call's",
                    Whom(server.as_ref()),
                    names.join(" and "),
                    if names.len() == 1 { "does" } else { "do" }
                )
            }
            Self::Muted { server } => write!(
                f,
                "{}: it is muted, so every question of it is refused",
                Whom(Some(server))
            ),
        }
    }
}

impl Serialize for Warning {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("level", self.level().as_str())?;
        map.serialize_entry("message", &format_args!("{self}"))?;
        map.end()
    }
}

struct Whom<'a>(Option<&'a ServerName>);

impl fmt::Display for Whom<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(server) => write!(f, "server {:?}", server.as_str()),
            None => f.write_str("[proto]"),
        }
    }
}

pub(super) fn find(loaded: &Loaded) -> Vec<Warning> {
    let mut warnings = same_endpoints(loaded);
    let common = loaded.settings.proto();
    let own = loaded.settings.servers().map(|(server, _)| Some(server));
    for server in std::iter::once(None).chain(own) {
        let proto = loaded.proto_of(server);
        for kind in QuestionKind::ALL {
            let names = [LimitName::per_server(kind), LimitName::per_session(kind)];
            let bounds = names.map(|name| proto.window_limit(name));
            if server.is_none() || bounds != names.map(|name| common.window_limit(name)) {
                let [max, session] = bounds.map(|limit| limit.and_then(|limit| limit.bound()));
                warnings.extend(windows(server, kind, max, session));
            }
        }
        let is_own = server.is_none() || proto.throttle_mode != common.throttle_mode;
        if proto.throttle_mode == ThrottleMode::Observe && is_own {
            let server = server.cloned();
            warnings.push(Warning::Observed { server });
        }
        warnings.extend(not_in_a_relay(loaded, server));
    }
    let muted = loaded.settings.muted().iter().cloned();
    warnings.extend(muted.map(|server| Warning::Muted { server }));
    // The sort is stable: what matters more comes first, and within that each server's together.
    warnings.sort_by_key(|warning| warning.level() == Level::Note);
    warnings
}

/// Of a server, what its own table changes; of all, what is not as by default: where a relay can
/// reach the server, or any.
fn not_in_a_relay(loaded: &Loaded, server: Option<&ServerName>) -> Option<Warning> {
    let is_reached = |name: &ServerName| {
        let entry = loaded.servers.get(name);
        entry.is_some_and(|entry| entry.endpoint().is_some())
    };
    let (base, relayed) = match server {
        None => (
            ProtoSettings::default(),
            loaded.servers.keys().any(is_reached),
        ),
        Some(name) => (loaded.settings.proto().clone(), is_reached(name)),
    };
    let proto = loaded.proto_of(server);
    let mut settings = Vec::new();
    if proto.ask_rounds != base.ask_rounds {
        settings.push(LimitName::AskRounds);
    }
    if proto.ask_ttl != base.ask_ttl {
        settings.push(LimitName::AskTtl);
    }
    (relayed && !settings.is_empty()).then(|| Warning::NotInARelay {
        server: server.cloned(),
        settings,
    })
}

fn windows(
    server: Option<&ServerName>,
    kind: QuestionKind,
    max: Option<u32>,
    session: Option<u32>,
) -> Option<Warning> {
    let server = server.cloned();
    match (max, session) {
        (None, None) => Some(Warning::Unbounded { server, kind }),
        (None, Some(_)) => Some(Warning::OnlySessionLimit { server, kind }),
        (Some(max), None) => Some(Warning::NoSessionLimit { server, kind, max }),
        (Some(max), Some(session)) => (session >= max).then_some(Warning::SessionLimitNotBelow {
            server,
            kind,
            session,
            max,
        }),
    }
}

fn same_endpoints(loaded: &Loaded) -> Vec<Warning> {
    let mut names: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (name, server) in &loaded.servers {
        if let Some(identity) = identity(server) {
            names.entry(identity).or_default().push(name.clone());
        }
    }
    let shared = names.into_iter().filter(|(_, servers)| servers.len() > 1);
    shared
        .map(|((key, _), servers)| Warning::SameEndpoint { key, servers })
        .collect()
}

/// What makes two entries the same server: the command with its arguments, whatever its
/// environment, or the URL.
fn identity(server: &ServerEntry) -> Option<(&'static str, Vec<&str>)> {
    Some(match server.endpoint()? {
        Endpoint::Command(command) => {
            let args = command.args().iter().map(String::as_str);
            let words = std::iter::once(command.program()).chain(args);
            ("command", words.collect())
        }
        Endpoint::Url(url) => ("url", vec![url.trim_end_matches('/')]),
    })
}
