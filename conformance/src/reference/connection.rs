//! One connection of the reference client to a server.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
    mpsc,
};

use serde_json::{Value, json};

use super::{
    Address, Shared,
    answers::{answer, fabricated},
    limiter::Refusal,
    link::{Door, Link},
    lock,
    wrong::Wrong,
};
use crate::protocol::Kind;

/// A connection, as the calls on it see it.
#[derive(Debug)]
pub(super) struct Connection {
    link: Arc<Link>,
    /// The capabilities that the server declared.
    offered: Value,
}

impl Connection {
    /// Reaches the server and shakes hands.
    pub(super) fn open(
        shared: Arc<Shared>,
        server: &str,
        address: &Address,
        session: u32,
    ) -> Result<Self, String> {
        let mut connection = Self {
            link: Link::open(shared, server, address, session)?,
            offered: Value::Null,
        };
        connection.shake_hands()?;
        Ok(connection)
    }

    fn shake_hands(&mut self) -> Result<(), String> {
        let (method, params) = if self.is_modern() {
            ("server/discover", json!({}))
        } else {
            let params = json!({
                "protocolVersion": self.shared().revision,
                "capabilities": self.capabilities(),
                "clientInfo": client_info(),
            });
            ("initialize", params)
        };
        let mut reply = self.request(method, params).ok_or("no handshake")?;
        let result = reply["result"].take();
        let info = if self.is_modern() {
            &result["_meta"]["io.modelcontextprotocol/serverInfo"]
        } else {
            self.link
                .write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
            &result["serverInfo"]
        };
        if let Some(name) = info["name"].as_str() {
            self.link.calls_itself(name);
        }
        self.offered = result["capabilities"].clone();
        Ok(())
    }

    fn capabilities(&self) -> Value {
        let shared = self.shared();
        let mut capabilities = json!({
            "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}, "roots": {},
        });
        if self.is_modern() {
            capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
        } else {
            capabilities["tasks"] = json!({
                "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
            });
        }
        if shared.is(Wrong::HidesCapability)
            && shared.has_refused.load(Ordering::Relaxed)
            && let Some(members) = capabilities.as_object_mut()
        {
            members.remove("sampling");
        }
        capabilities
    }

    /// Whether the server declared that it has prompts, say.
    pub(super) fn offers(&self, what: &str) -> bool {
        self.offered.get(what).is_some()
    }

    pub(super) fn shared(&self) -> &Shared {
        self.link.shared()
    }

    pub(super) fn is(&self, wrong: Wrong) -> bool {
        self.shared().is(wrong)
    }

    pub(super) fn is_modern(&self) -> bool {
        self.shared().is_modern()
    }

    pub(super) fn admit(&self, kinds: &[Kind]) -> Result<(), Refusal> {
        self.link.admit(Door::Result, kinds)
    }

    /// Forgets all that was asked, which is always wrong.
    pub(super) fn forget(&self) {
        lock(&self.shared().limiter).forget();
    }

    /// Has a question answered by its handler.
    pub(super) fn handle(&self, kind: Kind) -> Value {
        self.link.log(kind.method());
        answer(kind)
    }

    /// The answer that a wrong client makes up in place of a refusal.
    pub(super) fn fabricated(&self, kind: Kind) -> Option<Value> {
        fabricated(self.shared().wrong, kind)
    }

    /// The answer to a question of a task that was shown when a notification brought it.
    pub(super) fn shown(&self, task: &str, key: &str) -> Option<Value> {
        self.link.shown(task, key)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.link.is_closed()
    }

    /// Whether the server knows the session no more, and has not looked at the last call.
    pub(super) fn is_forgotten(&self) -> bool {
        self.link.is_forgotten()
    }

    /// Closes the connection, and waits for the server's end.
    pub(super) fn end(self) {
        self.link.end();
    }

    /// Sends a request; `None` if the connection ends before its reply.
    pub(super) fn request(&self, method: &str, mut params: Value) -> Option<Value> {
        if self.is_modern() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.shared().revision,
                "io.modelcontextprotocol/clientInfo": client_info(),
                "io.modelcontextprotocol/clientCapabilities": self.capabilities(),
            });
        }
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let (sender, reply) = mpsc::channel();
        lock(&self.link.waiting).insert(id, sender);
        self.link
            .write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        if self.is_closed() {
            lock(&self.link.waiting).clear();
        }
        reply.recv().ok()
    }
}

fn client_info() -> Value {
    json!({"name": "reference-client", "version": env!("CARGO_PKG_VERSION")})
}
