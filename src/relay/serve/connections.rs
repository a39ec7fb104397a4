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

/// Connections of clients that are open at once. More wait to be accepted.
pub const MOST_CONNECTIONS: usize = 1024;
/// A connection without a request for so long is closed. Clients close theirs sooner: one that
/// sends just then would find it closed.
const IDLE: Duration = Duration::from_secs(5 * 60);
/// The head of a request may be about this long, and so much of a response waits for the client.
const LONGEST_HEAD: usize = 64 * 1024;
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
    Connections::new(MOST_CONNECTIONS)
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
        self.told &= open >= self.most / 2;
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
        .max_buf_size(LONGEST_HEAD)
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

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        net::SocketAddr,
        sync::{Arc, Mutex},
    };

    use axum::{body::Body, routing::get};
    use bytes::Bytes;
    use futures::stream;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        sync::{mpsc, watch},
        task::JoinHandle,
    };

    use super::*;

    /// Longer than anything here takes.
    const PATIENCE: Duration = Duration::from_secs(100);

    /// What was logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Log {
        fn warnings(&self) -> usize {
            let log = self.0.lock().unwrap();
            String::from_utf8_lossy(&log).matches("WARN").count()
        }
    }

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A server with two connections at most. Each of its streams begins with `a`, tells that it
    /// has begun, and ends with `b` when `end` becomes true.
    struct Served {
        address: SocketAddr,
        begun: mpsc::UnboundedReceiver<()>,
        end: watch::Sender<bool>,
        closing: CancellationToken,
        serving: JoinHandle<()>,
    }

    impl Served {
        async fn start() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (end, ends) = watch::channel(false);
            let (begin, begun) = mpsc::unbounded_channel();
            let open = move || {
                let (begin, mut ends) = (begin.clone(), ends.clone());
                begin.send(()).unwrap();
                let last = async move {
                    ends.wait_for(|end| *end).await.unwrap();
                    Ok::<_, Infallible>(Bytes::from_static(b"b"))
                };
                let first = stream::iter([Ok(Bytes::from_static(b"a"))]);
                let body = Body::from_stream(futures::StreamExt::chain(first, stream::once(last)));
                std::future::ready(body)
            };
            let router = Router::new()
                .route("/stream", get(open))
                .route("/", get(|| std::future::ready("x")));
            let closing = CancellationToken::new();
            let serving = Connections::new(2).serve(listener, router, closing.clone());
            Self {
                address,
                begun,
                end,
                closing,
                serving: tokio::spawn(serving),
            }
        }

        async fn get(&self, path: &str) -> TcpStream {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            request(&mut stream, path).await;
            stream
        }
    }

    async fn request(stream: &mut TcpStream, path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
    }

    /// Reads until `end`.
    async fn until(stream: &mut TcpStream, end: &str) -> String {
        let mut text = String::new();
        while !text.ends_with(end) {
            let byte = time::timeout(PATIENCE, stream.read_u8()).await.unwrap();
            let byte = byte.unwrap_or_else(|_| panic!("{text}"));
            text.push(char::from(byte));
        }
        text
    }

    async fn rest(mut stream: TcpStream) -> String {
        let mut text = String::new();
        let read = stream.read_to_string(&mut text);
        time::timeout(PATIENCE, read).await.unwrap().unwrap();
        text
    }

    const FIRST: &str = "1\r\na\r\n";
    const LAST: &str = "1\r\nb\r\n0\r\n\r\n";

    #[tokio::test]
    async fn beyond_the_bound_they_wait_and_no_stream_is_lost() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .finish();
        let _logging = tracing::subscriber::set_default(subscriber);
        let mut served = Served::start().await;

        // An idle connection makes room for the first that has none.
        let mut idle = served.get("/").await;
        until(&mut idle, "\r\n\r\nx").await;
        let mut one = served.get("/stream").await;
        until(&mut one, FIRST).await;
        assert_eq!(rest(idle).await, "");
        let mut two = served.get("/stream").await;
        until(&mut two, FIRST).await;
        assert_eq!(log.warnings(), 1);
        for _ in 0..2 {
            served.begun.try_recv().unwrap();
        }

        // Both are in use, so this one waits, and the other two go on.
        let mut three = served.get("/stream").await;
        // Time enough for it to be accepted and answered, if it could be.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(served.begun.try_recv().is_err());
        drop(two);
        until(&mut three, FIRST).await;
        served.begun.try_recv().unwrap();
        let mut four = served.get("/stream").await;
        served.end.send(true).unwrap();
        assert!(until(&mut one, LAST).await.ends_with(LAST));
        assert_eq!(rest(one).await, "", "it is closed after its response");
        until(&mut three, LAST).await;
        until(&mut four, LAST).await;
        assert_eq!(log.warnings(), 1, "around the bound it is said once");
    }

    #[tokio::test]
    async fn at_the_end_idle_connections_close_and_responses_are_waited_for() {
        let served = Served::start().await;
        let mut stream = served.get("/stream").await;
        until(&mut stream, FIRST).await;
        served.closing.cancel();
        served.end.send(true).unwrap();
        assert!(rest(stream).await.ends_with(LAST));
        served.serving.await.unwrap();
    }

    #[tokio::test]
    async fn a_head_has_a_bound() {
        let served = Served::start().await;
        for (length, passes) in [(LONGEST_HEAD / 2, true), (8 * LONGEST_HEAD, false)] {
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            let value = "x".repeat(length);
            let head = format!(
                "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: {value}\r\n\r\n"
            );
            // It may be closed before all of it was sent, and reset.
            let _ = stream.write_all(head.as_bytes()).await;
            let mut answer = String::new();
            let _ = time::timeout(PATIENCE, stream.read_to_string(&mut answer))
                .await
                .unwrap();
            assert_eq!(answer.starts_with("HTTP/1.1 200 "), passes, "{answer}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_is_closed() {
        let served = Served::start().await;
        let before = crate::clock::now();
        let mut fresh = TcpStream::connect(served.address).await.unwrap();
        assert_eq!(fresh.read(&mut [0]).await.unwrap(), 0);
        assert_eq!((crate::clock::now() - before).as_secs(), IDLE.as_secs());
    }
}
