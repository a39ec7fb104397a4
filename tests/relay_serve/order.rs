//! In which order a session's requests reach the server.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{self, Sender},
    thread,
};

use crate::command::Served;

/// How often it is tried, each time with connections of its own.
const TIMES: usize = 100;
/// The message that is sent right after the session's stream is asked for.
const AFTER: &str = r#"{"after":1}"#;

/// One connection of an HTTP/1.1 client or server.
struct Connection {
    socket: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    fn of(socket: TcpStream) -> Self {
        socket.set_nodelay(true).unwrap();
        Self {
            socket,
            read: Vec::new(),
        }
    }

    fn to(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect(address).unwrap())
    }

    fn get(&mut self) {
        self.write("GET /github HTTP/1.1\r\nhost: localhost\r\nmcp-session-id: s\r\n\r\n");
    }

    fn post(&mut self, body: &str) {
        let length = body.len();
        self.write(&format!(
            "POST /github HTTP/1.1\r\nhost: localhost\r\nmcp-session-id: s\r\n\
             content-length: {length}\r\n\r\n{body}"
        ));
    }

    fn write(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).unwrap();
    }

    /// The next message, head and body.
    fn message(&mut self) -> String {
        loop {
            if let Some(message) = self.complete() {
                return message;
            }
            assert!(self.fill().unwrap(), "it ended");
        }
    }

    /// The next message, if all of it is here.
    fn complete(&mut self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.read).to_ascii_lowercase();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length = head
            .split("content-length: ")
            .nth(1)
            .map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
        let message = (body.len() >= length).then(|| text[..head.len() + 4 + length].to_owned())?;
        self.read.drain(..message.len());
        Some(message)
    }

    /// Reads what is there; false at the end.
    fn fill(&mut self) -> std::io::Result<bool> {
        let mut part = [0; 4096];
        let length = self.socket.read(&mut part)?;
        self.read.extend_from_slice(&part[..length]);
        Ok(length > 0)
    }
}

/// A server that tells of each message of [`AFTER`] whether the session's stream had been asked for
/// when it came: not in the order in which a server happens to read its connections, but in that in
/// which they could be read.
fn server() -> (SocketAddr, mpsc::Receiver<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let (send, told) = mpsc::channel();
    thread::spawn(move || run(&listener, &send));
    (address, told)
}

fn run(listener: &TcpListener, told: &Sender<bool>) {
    let mut connections = Vec::new();
    let (mut asked, mut after) = (false, false);
    loop {
        let (gets, afters) = look(listener, &mut connections);
        asked |= gets;
        if afters {
            after = true;
            // Whatever was sent before can be read now.
            asked |= look(listener, &mut connections).0;
            if told.send(asked).is_err() {
                return;
            }
        }
        if asked && after {
            (asked, after) = (false, false);
        }
        if !gets && !afters {
            thread::yield_now();
        }
    }
}

/// Reads and answers what has come; whether a GET was there, and whether [`AFTER`].
fn look(listener: &TcpListener, connections: &mut Vec<Connection>) -> (bool, bool) {
    while let Ok((socket, _)) = listener.accept() {
        socket.set_nonblocking(true).unwrap();
        connections.push(Connection::of(socket));
    }
    let (mut gets, mut afters) = (false, false);
    connections.retain_mut(|connection| {
        let goes_on = match connection.fill() {
            Ok(goes_on) => goes_on,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        while let Some(message) = connection.complete() {
            if message.starts_with("get ") {
                gets = true;
                connection.write(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                     transfer-encoding: chunked\r\n\r\n",
                );
            } else {
                afters |= message.ends_with(AFTER);
                connection.write("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
            }
        }
        goes_on
    });
    (gets, afters)
}

/// A server may ask on the session's stream whenever it is called, and drops its question while
/// there is no stream. The relay once let calls overtake it, one in eight: what arrived at the same
/// moment was read by several threads.
#[test]
fn a_message_does_not_overtake_the_stream_that_was_asked_for_before_it() {
    let (address, told) = server();
    let settings = format!("[servers.github]\nurl = \"http://{address}/\"\n");
    let served = Served::start(&settings);
    let url: reqwest::Url = served.urls[0].parse().unwrap();
    let relay = url.socket_addrs(|| None).unwrap()[0];
    // Over a connection that is there, and over one that is made then.
    for is_there in [true, false] {
        for time in 0..TIMES {
            let (mut one, mut other) = (Connection::to(relay), None);
            one.post("{}");
            one.message();
            if is_there {
                let other = other.insert(Connection::to(relay));
                other.post("{}");
                other.message();
            }
            one.get();
            let mut other = other.unwrap_or_else(|| Connection::to(relay));
            other.post(AFTER);
            other.message();
            one.message();
            assert!(told.recv().unwrap(), "{is_there} {time}");
        }
    }
}
