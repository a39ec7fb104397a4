//! A limiter of fixed windows, and its wrong versions.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{window::Window, wrong::Wrong};
use crate::{
    limits::{self, Limits},
    protocol::{Kind, Scope},
};

/// Whose question it is.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    /// The server's name in the configuration.
    pub(crate) server: String,
    /// What the server calls itself.
    pub(crate) calls_itself: String,
    /// The number of the connection.
    pub(crate) session: u32,
}

/// The windows of a whole client.
#[derive(Debug)]
pub(crate) struct Limiter {
    wrong: Option<Wrong>,
    limits: Limits,
    length: Duration,
    /// When it was made.
    epoch: Instant,
    windows: HashMap<(Scope, String, Kind), Window>,
}

/// Why a question may not pass.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    kind: Kind,
    scope: Scope,
    max: u32,
    length: Duration,
    /// Absent if waiting does not help.
    retry_after: Option<Duration>,
}

impl Limiter {
    pub(crate) fn new(limits: Limits, length: Duration, wrong: Option<Wrong>) -> Self {
        Self {
            wrong,
            limits,
            length,
            epoch: Instant::now(),
            windows: HashMap::new(),
        }
    }

    /// Charges all of `ask`, or nothing.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        asker: &Asker,
        ask: &[Kind],
    ) -> Result<(), Refusal> {
        if self.wrong == Some(Wrong::KindsOneByOne) && Kind::ALL.iter().all(|one| ask.contains(one))
        {
            return Kind::ALL.into_iter().try_for_each(|kind| {
                let of_kind: Vec<Kind> = ask.iter().copied().filter(|&one| one == kind).collect();
                self.admit(now, asker, &of_kind)
            });
        }
        let mut in_the_way: Option<Refusal> = None;
        let mut charged = Vec::new();
        for kind in Kind::ALL {
            let asked = ask.iter().filter(|&&one| one == kind).count();
            let Ok(asked @ 1..) = u32::try_from(asked) else {
                continue;
            };
            for scope in Scope::ALL {
                let Some(max) = self.limit(kind, scope) else {
                    continue;
                };
                let key = self.key(asker, kind, scope);
                let length = self.length();
                let (wrong, epoch) = (self.wrong, self.epoch);
                let new = || Window::new(now);
                let window = self.windows.entry(key.clone()).or_insert_with(new);
                window.advance(now, length, max, wrong, epoch);
                if max - window.used.min(max) >= asked {
                    charged.push((key, asked));
                    continue;
                }
                // What a refusal must leave alone: the room that is left here.
                charged.push((key, max.saturating_sub(window.used)));
                let left = length.saturating_sub(now - window.opened);
                let retry_after = (asked <= max).then_some(left);
                let later = |other: &Refusal| match (other.retry_after, retry_after) {
                    _ if self.wrong == Some(Wrong::NamesFirstInTheWay) => false,
                    (Some(_), None) => true,
                    (None, _) => false,
                    (Some(other), Some(this)) => this > other,
                };
                if in_the_way.as_ref().is_none_or(later) {
                    in_the_way = Some(Refusal {
                        kind,
                        scope,
                        max,
                        length: self.length,
                        retry_after,
                    });
                }
            }
        }
        if in_the_way.is_none() || self.wrong == Some(Wrong::CountsRefusals) {
            for (key, asked) in charged {
                if let Some(window) = self.windows.get_mut(&key) {
                    window.charge(now, asked);
                }
            }
        }
        in_the_way.map_or(Ok(()), Err)
    }

    /// Forgets all that was asked, which is always wrong.
    pub(crate) fn forget(&mut self) {
        self.windows.clear();
    }

    /// Pays a question back, which is always wrong.
    pub(crate) fn refund(&mut self, asker: &Asker, kind: Kind) {
        for scope in Scope::ALL {
            let key = self.key(asker, kind, scope);
            if let Some(window) = self.windows.get_mut(&key) {
                window.used = window.used.saturating_sub(1);
            }
        }
    }

    /// The limit held for a kind and scope, in the wrong ways too.
    fn limit(&self, kind: Kind, scope: Scope) -> Option<u32> {
        let limit = self.limits.get(kind, scope)?;
        match (self.wrong, scope) {
            (Some(Wrong::NoLimit), _)
            | (Some(Wrong::NoServerLimit), Scope::Server)
            | (Some(Wrong::NoSessionLimit), Scope::Session) => None,
            (Some(Wrong::OneMore), _) => Some(limit + 1),
            (Some(Wrong::OneLess), _) => Some(limit - 1),
            _ => Some(limit),
        }
    }

    fn length(&self) -> Duration {
        match self.wrong {
            Some(Wrong::ResetsEarly) => self.length * 3 / 4,
            Some(Wrong::NeverResets) => self.length * 1000,
            _ => self.length,
        }
    }

    fn key(&self, asker: &Asker, kind: Kind, scope: Scope) -> (Scope, String, Kind) {
        let owner = match (scope, self.wrong) {
            (Scope::Server, Some(Wrong::KeysByServerInfo)) => asker.calls_itself.clone(),
            (Scope::Server, Some(Wrong::ServersShare)) => "every server".to_owned(),
            (Scope::Session, Some(Wrong::SessionsShare)) => asker.server.clone(),
            (Scope::Server, Some(Wrong::ForgetsOnReconnect)) | (Scope::Session, _) => {
                asker.session.to_string()
            }
            (Scope::Server, _) => asker.server.clone(),
        };
        let kind = match self.wrong {
            Some(Wrong::KindsShare) => Kind::Sampling,
            _ => kind,
        };
        (scope, owner, kind)
    }
}

impl Refusal {
    /// The error of the reply.
    pub(crate) fn error(&self, wrong: Option<Wrong>) -> Value {
        let named = match (wrong, self.scope) {
            (Some(Wrong::NamesWrongLimit), Scope::Server) => Scope::Session,
            (Some(Wrong::NamesWrongLimit), Scope::Session) => Scope::Server,
            (_, scope) => scope,
        };
        let mut data = json!({
            "cause": "limit_exceeded",
            "limit": limits::name(self.kind, named),
            "scope": named.as_str(),
            "method": self.kind.method(),
            "max": self.max,
            "windowSeconds": self.length.as_secs(),
        });
        if let Some(left) = self.retry_after {
            let seconds = left.as_nanos().div_ceil(1_000_000_000).max(1);
            data["retryAfterSeconds"] = match wrong {
                Some(Wrong::RetryAtOnce) => json!(0),
                Some(Wrong::RetryWholeWindow) => json!(self.length.as_secs()),
                Some(Wrong::RetryRoundsDown) => json!(left.as_secs().max(1)),
                Some(Wrong::RetryInMilliseconds) => json!(seconds * 1000),
                _ => json!(seconds),
            };
        }
        let code = if wrong == Some(Wrong::WrongCode) {
            -1
        } else {
            -32603
        };
        let mut error = json!({"code": code, "message": "too many questions", "data": data});
        if wrong == Some(Wrong::NoData)
            && let Some(members) = error.as_object_mut()
        {
            members.remove("data");
        }
        error
    }
}
