//! Facts about how rmcp treats a transport: the ground that the shield stands on.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, GetExtensions, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    service::InboundStreamOrigin,
    transport::{IntoTransport, Transport},
};
use serde_json::json;

use crate::{
    E, Probe, modern_on,
    support::{pipe, question},
};

/// A transport that says on which stream a request came, as that of Streamable HTTP does, and
/// counts the `receive` futures that are dropped before they have brought anything.
struct Watched<T> {
    inner: T,
    origin: Arc<Mutex<Option<InboundStreamOrigin>>>,
    dropped: Arc<AtomicUsize>,
}

struct CountDrop<'a>(Option<&'a AtomicUsize>);

impl Drop for CountDrop<'_> {
    fn drop(&mut self) {
        if let Some(dropped) = self.0 {
            dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let mut pending = CountDrop(Some(&self.dropped));
        let mut message = self.inner.receive().await;
        pending.0 = None;
        if let Some(JsonRpcMessage::Request(request)) = &mut message
            && let Some(origin) = self.origin.lock().unwrap().clone()
        {
            request.request.extensions_mut().insert(origin);
        }
        message
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.inner.close().await
    }
}

/// Why the shield must lose nothing when its `receive` is dropped.
#[tokio::test(start_paused = true)]
async fn pending_receives_are_dropped() {
    let (client, server) = pipe();
    let dropped = Arc::new(AtomicUsize::new(0));
    let transport = Watched {
        inner: client.into_transport(),
        origin: Arc::default(),
        dropped: Arc::clone(&dropped),
    };
    let (running, mut server) = modern_on(Probe::default(), transport, server).await;
    let before = dropped.load(Ordering::Relaxed);
    let serve = async {
        let list = server.request("tools/list").await;
        server
            .answer_error(&list, json!({"code": -32603, "message": "enough"}))
            .await;
    };
    let (listed, ()) = tokio::join!(running.list_tools(None), serve);
    assert!(listed.is_err());
    assert!(dropped.load(Ordering::Relaxed) > before);
}

/// A question on a stream of its own belongs to no call, whatever is in flight (SEP-2260); on that
/// of a call it does. Over a pipe nobody can tell, and any call in flight will do.
#[tokio::test(start_paused = true)]
async fn a_legacy_question_must_come_on_the_stream_of_a_call_where_there_are_streams() {
    let (client, server) = pipe();
    let origin = Arc::new(Mutex::new(None));
    let transport = Watched {
        inner: client.into_transport(),
        origin: Arc::clone(&origin),
        dropped: Arc::default(),
    };
    let probe = Probe::default();
    let (running, mut server) = modern_on(probe.clone(), transport, server).await;
    let serve = async {
        let list = server.request("tools/list").await;
        let id: RequestId = serde_json::from_value(list["id"].clone()).unwrap();
        for (stream, handled) in [
            (InboundStreamOrigin::Unassociated, false),
            (
                InboundStreamOrigin::OutboundRequest(RequestId::Number(99)),
                false,
            ),
            (InboundStreamOrigin::OutboundRequest(id), true),
        ] {
            *origin.lock().unwrap() = Some(stream.clone());
            server.send(&question(E, 1)).await;
            let reply = server.receive().await;
            assert_eq!(
                reply["error"]["code"] == -32602,
                !handled,
                "{stream:?}: {reply}"
            );
            assert_eq!(probe.take().len(), usize::from(handled), "{stream:?}");
        }
        server
            .answer_error(&list, json!({"code": -32603, "message": "enough"}))
            .await;
    };
    let (listed, ()) = tokio::join!(running.list_tools(None), serve);
    assert!(listed.is_err());
}
