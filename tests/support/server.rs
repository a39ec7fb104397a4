//! A server that speaks raw JSON-RPC over an in-memory pipe.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

/// The server's end of the pipe: lines out, lines in.
pub struct Server {
    reader: Reader,
    writer: WriteHalf<DuplexStream>,
}

impl Server {
    pub async fn send(&mut self, message: &Value) {
        self.send_raw(&format!("{message}\n")).await;
    }

    pub async fn send_raw(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).await.unwrap();
    }

    /// Ear and mouth apart, for a server that does one without the other.
    pub fn split(self) -> (Reader, WriteHalf<DuplexStream>) {
        (self.reader, self.writer)
    }

    /// The next line the client wrote, as it stood on the wire.
    pub async fn line(&mut self) -> Option<String> {
        self.reader.line().await
    }

    pub async fn receive(&mut self) -> Value {
        self.reader.receive().await
    }

    pub async fn receive_all(&mut self, count: usize) -> Vec<Value> {
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            all.push(self.receive().await);
        }
        all
    }

    /// Answers the handshake of 2025-11-25, and gives back the initialize request.
    pub async fn handshake(&mut self) -> Value {
        let initialize = self.receive().await;
        self.welcome(&initialize, "scripted").await;
        initialize
    }

    /// The same under another name.
    pub async fn handshake_as(&mut self, name: &str) {
        let initialize = self.receive().await;
        self.welcome(&initialize, name).await;
    }

    async fn welcome(&mut self, initialize: &Value, name: &str) {
        assert_eq!(initialize["method"], "initialize");
        self.answer(
            initialize,
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
                "serverInfo": {"name": name, "version": "1.0.0"},
            }),
        )
        .await;
        assert_eq!(self.receive().await["method"], "notifications/initialized");
    }

    /// Answers the discovery of 2026-07-28.
    pub async fn discovery(&mut self) {
        let discover = self.receive().await;
        assert_eq!(discover["method"], "server/discover");
        self.answer(
            &discover,
            json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {
                    "tools": {}, "prompts": {}, "resources": {},
                    "extensions": {
                        "io.modelcontextprotocol/tasks": {},
                        "io.modelcontextprotocol/skills": {},
                    },
                },
                "serverInfo": {"name": "scripted", "version": "1.0.0"},
                "ttlMs": 0,
                "cacheScope": "private",
            }),
        )
        .await;
    }

    /// Answers a request with a result.
    pub async fn answer(&mut self, request: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
            .await;
    }

    /// Answers a request with an error.
    pub async fn answer_error(&mut self, request: &Value, error: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}))
            .await;
    }

    /// The next request of this method; the client's notifications are passed over.
    pub async fn request(&mut self, method: &str) -> Value {
        loop {
            let message = self.receive().await;
            if message.get("id").is_some() {
                assert_eq!(message["method"], method, "{message}");
                return message;
            }
        }
    }

    /// Everything the client still writes until it has gone.
    pub async fn until_gone(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(line) = self.line().await {
            all.push(serde_json::from_str(&line).unwrap());
        }
        all
    }
}

/// Its ear.
pub struct Reader(BufReader<ReadHalf<DuplexStream>>);

impl Reader {
    /// The next line the client wrote, as it stood on the wire.
    pub async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).await.unwrap();
        (read > 0).then_some(line)
    }

    pub async fn receive(&mut self) -> Value {
        serde_json::from_str(&self.line().await.expect("the client is connected")).unwrap()
    }
}

/// The two ends of a pipe.
pub fn pipe() -> (DuplexStream, Server) {
    pipe_of(1 << 20)
}

/// The two ends of a pipe that holds so many bytes each way.
pub fn pipe_of(bytes: usize) -> (DuplexStream, Server) {
    let (client, server) = tokio::io::duplex(bytes);
    let (reader, writer) = tokio::io::split(server);
    let server = Server {
        reader: Reader(BufReader::new(reader)),
        writer,
    };
    (client, server)
}
