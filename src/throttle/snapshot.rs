//! What a throttle counts, as plain values to show or to serialise.

use serde::Serialize;

use crate::{
    limits::{ServerName, ThrottleMode},
    usage::Usage,
    window::{FixedWindow, Moment, WINDOW},
};

/// Every window and counter of a throttle at one instant.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Snapshot {
    /// The servers that asked, by name.
    pub servers: Vec<ServerSnapshot>,
    /// Questions refused because the table of servers was full.
    pub saturated: u64,
    /// Questions that would have been refused for that, of servers that are only observed.
    pub would_saturate: u64,
}

impl Snapshot {
    /// One server, by its name in the settings; `None` if it has not asked.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<&ServerSnapshot> {
        self.servers.iter().find(|it| it.server.as_str() == name)
    }
}

/// One configured server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerSnapshot {
    /// Its name in the settings.
    pub server: ServerName,
    /// Whether its limits are enforced.
    pub mode: ThrottleMode,
    /// Whether every question of it is refused.
    pub muted: bool,
    /// Its sampling.
    pub sampling: KindSnapshot,
    /// Its elicitation.
    pub elicitation: KindSnapshot,
    /// Its running sessions that have asked, by number.
    pub sessions: Vec<SessionSnapshot>,
    /// Its last questions, where they are recorded: in a [`Pool`](crate::Pool) and in the relay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// One kind of question of one server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct KindSnapshot {
    /// The server's window.
    pub window: WindowSnapshot,
    /// Admitted and charged since the row was made.
    pub admitted: u64,
    /// Refused by the server's limit since the row was made.
    pub refused_by_server_limit: u64,
    /// Refused by a session's limit since the row was made.
    pub refused_by_session_limit: u64,
    /// Admitted although over the server's limit, which was only observed. Charged to no window.
    pub would_refuse_by_server_limit: u64,
    /// Admitted although over a session's limit, which was only observed. Charged to no window.
    pub would_refuse_by_session_limit: u64,
    /// Refused because the server was muted.
    pub refused_while_muted: u64,
}

impl KindSnapshot {
    /// Refused since the row was made, for whatever reason.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused_by_server_limit + self.refused_by_session_limit + self.refused_while_muted
    }

    /// Admitted although over a limit, which was only observed.
    #[must_use]
    pub const fn would_refuse(&self) -> u64 {
        self.would_refuse_by_server_limit + self.would_refuse_by_session_limit
    }
}

/// One running session.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionSnapshot {
    /// Its number within the throttle.
    pub session: u64,
    /// Its window for sampling.
    pub sampling: WindowSnapshot,
    /// Its window for elicitation.
    pub elicitation: WindowSnapshot,
}

/// One window.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WindowSnapshot {
    /// Admitted in the open window.
    pub used: u32,
    /// The limit; absent if it is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// How many more fit; absent if there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u32>,
    /// Milliseconds until the window ends; absent if none is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_left_ms: Option<u64>,
    /// Refused since the last window opened.
    pub refused: u64,
}

impl WindowSnapshot {
    pub(super) fn new(window: &FixedWindow, limit: Option<u32>, refused: u64, at: Moment) -> Self {
        let used = window.used(at);
        // A time before the window's opening counts as the opening.
        let left = window.ends(at).map(|ends| at.until(ends).min(WINDOW));
        Self {
            used,
            limit,
            remaining: limit.map(|limit| limit.saturating_sub(used)),
            time_left_ms: left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            refused,
        }
    }
}
