//! What all requests share, and each server's part of it.

use std::{collections::BTreeMap, sync::Arc};

use tokio_util::sync::CancellationToken;

use super::{
    guard::Guard, memory::Memory, metrics::Relayed, refusals::Undelivered, sessions::Sessions,
    status::Board, upstream::Upstream,
};
use crate::{
    Pool,
    limits::ServerName,
    relay::notices::Notices,
    throttle::{KindSnapshot, Snapshot},
    verdict::Reporter,
};

/// What all requests share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) pool: Pool,
    pub(super) servers: BTreeMap<String, Server>,
    pub(super) guard: Guard,
    /// Streams that nobody's call waits for end.
    pub(super) closing: CancellationToken,
    pub(super) board: Board,
}

impl Shared {
    /// Every server that is served, whether it has asked or not.
    pub(super) fn snapshot(&self) -> Snapshot {
        let servers = self.servers.values().map(|server| server.name.clone());
        self.pool.snapshot_with(servers)
    }

    pub(super) fn relayed(&self) -> Vec<Relayed> {
        let relayed = |server: &Server| Relayed {
            server: server.name.clone(),
            unreadable: server.notices.unreadable(),
            undelivered: server.undelivered.count(),
            shortages: server.memory.shortages(),
        };
        self.servers.values().map(relayed).collect()
    }

    /// Tells the operator what was counted in all.
    pub(super) fn sum_up(&self) {
        for counted in self.pool.snapshot().servers {
            let Some(server) = self.servers.get(counted.server.as_str()) else {
                continue;
            };
            let kinds = [counted.sampling, counted.elicitation];
            let admitted: u64 = kinds.iter().map(|kind| kind.admitted).sum();
            let refused: u64 = kinds.iter().map(KindSnapshot::refused).sum();
            let would_refuse: u64 = kinds.iter().map(KindSnapshot::would_refuse).sum();
            tracing::info!(
                server = server.name.as_str(),
                admitted,
                refused,
                would_refuse,
                unreadable = server.notices.unreadable(),
                undelivered = server.undelivered.count(),
                "counted in all"
            );
        }
    }
}

/// One configured server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) name: ServerName,
    pub(super) upstream: Arc<Upstream>,
    /// The server's record is looked up once.
    pub(super) reporter: Reporter,
    pub(super) sessions: Sessions,
    pub(super) notices: Arc<Notices>,
    pub(super) undelivered: Arc<Undelivered>,
    pub(super) memory: Memory,
}
