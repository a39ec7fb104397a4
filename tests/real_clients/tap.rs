//! A tap on connections of HTTP/1.1: it passes bytes on, keeps all of them, and reads afterwards
//! what they were.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::Notify,
    time,
};

/// Longer than anything takes that was sent already.
const PATIENCE: Duration = Duration::from_secs(60);
const MOST_HEADERS: usize = 64;

/// A header with its name in small letters.
pub(crate) type Header = (String, Vec<u8>);

/// The half of an exchange, without the marks of its transfer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Message {
    /// The method and target, or the status and its reason.
    pub(crate) start: (String, String),
    pub(crate) headers: Vec<Header>,
    pub(crate) body: Vec<u8>,
}

impl Message {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|header| header.0 == name);
        found.map(|(_, value)| str::from_utf8(value).unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }
}

/// A request and the response to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Exchange {
    pub(crate) request: Message,
    pub(crate) response: Message,
}

/// What passed over one connection.
#[derive(Debug, Default)]
struct Connection {
    requests: Vec<u8>,
    responses: Vec<u8>,
}

#[derive(Debug, Default)]
struct Record {
    connections: Mutex<Vec<Connection>>,
    more: Notify,
}

impl Record {
    fn write(&self, connection: usize, bytes: &[u8], to: fn(&mut Connection) -> &mut Vec<u8>) {
        let mut connections = self.connections.lock().unwrap();
        to(&mut connections[connection]).extend_from_slice(bytes);
        drop(connections);
        self.more.notify_one();
    }
}

/// A tap in front of one address.
#[derive(Debug)]
pub(crate) struct Tap {
    pub(crate) address: SocketAddr,
    record: Arc<Record>,
}

impl Tap {
    pub(crate) async fn before(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let record = Arc::new(Record::default());
        let kept = Arc::clone(&record);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(&server).await else {
                    continue;
                };
                let connection = {
                    let mut connections = record.connections.lock().unwrap();
                    connections.push(Connection::default());
                    connections.len() - 1
                };
                let (from_client, to_client) = near.into_split();
                let (from_server, to_server) = far.into_split();
                tokio::spawn(pass(
                    from_client,
                    to_server,
                    Arc::clone(&record),
                    connection,
                    |it| &mut it.requests,
                ));
                tokio::spawn(pass(
                    from_server,
                    to_client,
                    Arc::clone(&record),
                    connection,
                    |it| &mut it.responses,
                ));
            }
        });
        Self {
            address,
            record: kept,
        }
    }

    /// All exchanges, in the order of their connections; waits for the ends of those that have
    /// begun.
    pub(crate) async fn exchanges(&self) -> Vec<Exchange> {
        time::timeout(PATIENCE, async {
            loop {
                let read: Option<Vec<_>> = {
                    let connections = self.record.connections.lock().unwrap();
                    connections.iter().map(exchanges).collect()
                };
                match read {
                    Some(all) => return all.concat(),
                    None => self.record.more.notified().await,
                }
            }
        })
        .await
        .expect("what has begun comes to an end")
    }
}

/// Keeps what passes before it does, so that whoever has seen an answer finds all of it kept.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    record: Arc<Record>,
    connection: usize,
    kept: fn(&mut Connection) -> &mut Vec<u8>,
) {
    let mut chunk = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        record.write(connection, &chunk[..read], kept);
        if to.write_all(&chunk[..read]).await.is_err() {
            break;
        }
    }
}

/// The exchanges of a connection, or nothing if one of them is not complete.
fn exchanges(connection: &Connection) -> Option<Vec<Exchange>> {
    let (mut requests, mut responses) = (&connection.requests[..], &connection.responses[..]);
    let mut all = Vec::new();
    while !requests.is_empty() {
        let request = request(&mut requests)?;
        let response = response(&mut responses)?;
        all.push(Exchange { request, response });
    }
    assert!(responses.is_empty(), "nobody asked for it");
    Some(all)
}

fn request(bytes: &mut &[u8]) -> Option<Message> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = head.parse(bytes).unwrap() else {
        return None;
    };
    *bytes = &bytes[length..];
    let start = (
        head.method.unwrap().to_owned(),
        head.path.unwrap().to_owned(),
    );
    message(start, head.headers, bytes)
}

fn response(bytes: &mut &[u8]) -> Option<Message> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = head.parse(bytes).unwrap() else {
        return None;
    };
    *bytes = &bytes[length..];
    let code = head.code.unwrap();
    assert!(code >= 200, "nobody here is told to go on");
    message(
        (code.to_string(), head.reason.unwrap().to_owned()),
        head.headers,
        bytes,
    )
}

fn message(
    start: (String, String),
    headers: &[httparse::Header<'_>],
    bytes: &mut &[u8],
) -> Option<Message> {
    let headers: Vec<Header> = headers
        .iter()
        .map(|header| (header.name.to_ascii_lowercase(), header.value.to_vec()))
        .collect();
    let mut message = Message {
        start,
        headers,
        body: Vec::new(),
    };
    message.body = match message.header("transfer-encoding") {
        Some("chunked") => chunks(bytes)?,
        Some(other) => panic!("{other} is sent by nobody here"),
        None => {
            let length = message.header("content-length");
            take(bytes, length.map_or(0, |length| length.parse().unwrap()))?.to_vec()
        }
    };
    Some(message)
}

/// A body in chunks, put together.
fn chunks(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let httparse::Status::Complete((head, size)) = httparse::parse_chunk_size(bytes).unwrap()
        else {
            return None;
        };
        take(bytes, head)?;
        body.extend_from_slice(take(bytes, size.try_into().unwrap())?);
        assert_eq!(
            take(bytes, 2)?,
            b"\r\n",
            "a chunk ends, and there is no trailer"
        );
        if size == 0 {
            return Some(body);
        }
    }
}

fn take<'b>(bytes: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}
