//! The connections of clients: how many there may be, and how long they may be idle.

use std::{io, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time,
};
use tokio_util::sync::CancellationToken;

/// Connections that are open at once. More wait to be accepted.
const MOST: usize = 1024;
/// A connection without a request for so long is closed. Clients close theirs sooner: one that
/// sends just then would find it closed.
const IDLE: Duration = Duration::from_secs(5 * 60);
/// A client that is gone without a word is noticed by this, in the middle of a stream as well.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// How long to wait when no connection can be accepted, for want of file descriptors for instance.
const SHORTAGE: Duration = Duration::from_secs(1);

/// Serves connections until `closing` fires, and then those that are open until they end.
///
/// # Cancel safety
///
/// When dropped, every connection breaks off.
pub(super) async fn serve(listener: TcpListener, router: Router, closing: CancellationToken) {
    Connections::new(MOST)
        .serve(listener, router, closing)
        .await;
}

struct Connections {
    most: usize,
    /// Fires when there is no room: idle connections close then, and others after their response.
    crowded: CancellationToken,
    told: bool,
}

impl Connections {
    fn new(most: usize) -> Self {
        Self {
            most,
            crowded: CancellationToken::new(),
            told: false,
        }
    }

    async fn serve(mut self, listener: TcpListener, router: Router, closing: CancellationToken) {
        let mut open = JoinSet::new();
        loop {
            let accepts = !closing.is_cancelled();
            tokio::select! {
                biased;
                Some(_) = open.join_next() => self.fewer(open.len()),
                () = closing.cancelled(), if accepts => {}
                stream = accept(&listener), if accepts && open.len() < self.most => {
                    let ends = [closing.clone(), self.crowded.clone()];
                    open.spawn(connection(stream, router.clone(), ends));
                    self.more(open.len());
                }
                else => return,
            }
        }
    }

    fn more(&mut self, open: usize) {
        if open < self.most {
            return;
        }
        self.crowded.cancel();
        if !std::mem::replace(&mut self.told, true) {
            tracing::warn!(
                "{open} connections of clients are open, which is the most: others wait until one \
                 ends, and idle ones are closed"
            );
        }
    }

    fn fewer(&mut self, open: usize) {
        if self.crowded.is_cancelled() {
            self.crowded = CancellationToken::new();
        }
        // Around the bound it is said once.
        self.told &= open > self.most / 2;
    }
}

/// The next connection.
///
/// # Cancel safety
///
/// When dropped, none is lost.
async fn accept(listener: &TcpListener) -> TcpStream {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // It was that connection's alone.
            Err(error)
                if matches!(
                    error.kind(),
                    ConnectionAborted | ConnectionRefused | ConnectionReset
                ) => {}
            Err(error) => {
                tracing::error!("cannot accept a connection: {error}");
                time::sleep(SHORTAGE).await;
            }
        }
    }
}

/// Serves one connection until it ends: when one of `ends` fires, it takes no further request.
async fn connection(stream: TcpStream, router: Router, ends: [CancellationToken; 2]) {
    // Without it small events wait for one another; with it nothing else changes.
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let [closing, crowded] = ends;
    let served = tokio::select! {
        biased;
        served = &mut connection => served,
        () = async { tokio::select! {
            () = closing.cancelled() => {}
            () = crowded.cancelled() => {}
        } } => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!("a client's connection ended: {error}");
    }
}
