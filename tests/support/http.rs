//! Just enough HTTP for a scripted server of the Streamable HTTP transport.

use std::collections::HashMap;

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::TcpStream,
};

/// How a response begins that is a stream of events.
pub const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nmcp-session-id: s\r\nconnection: close\r\n\r\n";

/// A message as an event of such a stream.
pub fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

/// The next request on a connection: its method and its body.
pub async fn read_request(connection: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let headers: HashMap<_, _> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect();
    let length = headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await.ok()?;
    let method = lines[0].split(' ').next().unwrap().to_owned();
    Some((method, serde_json::from_slice(&body).unwrap_or_default()))
}
