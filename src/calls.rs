//! Which calls of the client are open, to tell the questions that belong to one from those that
//! come out of nowhere.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use rmcp::{
    model::{ClientNotification, ClientRequest, Extensions, RequestId},
    service::InboundStreamOrigin,
};

use crate::arrival::Origin;

/// The open calls of one session.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Set once a shield sees every call that is sent.
    watched: AtomicBool,
    /// The ids of those that a shield has seen.
    ids: Mutex<HashSet<RequestId>>,
    /// How many a client session has open.
    counted: AtomicUsize,
}

impl Calls {
    /// From now on [`sent`](Self::sent) and [`ended`](Self::ended) tell of every call.
    pub(crate) fn watch(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    /// A request of the client's goes out.
    pub(crate) fn sent(&self, id: &RequestId, request: &ClientRequest) {
        if is_call(request) {
            self.ids().insert(id.clone());
        }
    }

    /// A notification of the client's goes out: a call that is cancelled is not waited for.
    pub(crate) fn notified(&self, notification: &ClientNotification) {
        if let ClientNotification::CancelledNotification(cancelled) = notification
            && let Some(id) = &cancelled.params.request_id
        {
            self.ids().remove(id);
        }
    }

    /// An answer has come.
    pub(crate) fn ended(&self, id: &RequestId) {
        self.ids().remove(id);
    }

    /// Counts a call, until what it gives back is dropped.
    pub(crate) fn count(self: &Arc<Self>) -> OpenCall {
        self.counted.fetch_add(1, Ordering::Relaxed);
        OpenCall(Arc::clone(self))
    }

    /// Where a message came from, by its extensions and by what is open now.
    pub(crate) fn origin(&self, extensions: &Extensions) -> Origin {
        // A shield has looked when the message was read, and that is the time that counts.
        if let Some(seen) = extensions.get::<Seen>() {
            return seen.0;
        }
        let watched = self.watched.load(Ordering::Relaxed);
        match extensions.get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::Unassociated) => Origin::Background,
            Some(InboundStreamOrigin::OutboundRequest(id)) if watched => {
                in_call_if(self.ids().contains(id))
            }
            // Its method is not known, and few others than calls have a stream.
            Some(InboundStreamOrigin::OutboundRequest(_)) => Origin::InCall,
            None if watched => in_call_if(!self.ids().is_empty()),
            None if self.counted.load(Ordering::Relaxed) > 0 => Origin::InCall,
            // Calls on rmcp's own peer come by nobody.
            None => Origin::Unknown,
        }
    }

    /// Writes down in a message where it came from.
    pub(crate) fn mark(&self, extensions: &mut Extensions) {
        let origin = self.origin(extensions);
        extensions.insert(Seen(origin));
    }

    fn ids(&self) -> std::sync::MutexGuard<'_, HashSet<RequestId>> {
        // A set of ids is sound even after a panic, and decides nothing.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn in_call_if(open: bool) -> Origin {
    if open {
        Origin::InCall
    } else {
        Origin::Background
    }
}

const fn is_call(request: &ClientRequest) -> bool {
    matches!(
        request,
        ClientRequest::CallToolRequest(_)
            | ClientRequest::GetPromptRequest(_)
            | ClientRequest::ReadResourceRequest(_)
    )
}

/// A mark in a message's extensions, which never stand on the wire.
#[derive(Clone, Copy, Debug)]
struct Seen(Origin);

/// A call that a client session waits for.
#[derive(Debug)]
pub(crate) struct OpenCall(Arc<Calls>);

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.counted.fetch_sub(1, Ordering::Relaxed);
    }
}
