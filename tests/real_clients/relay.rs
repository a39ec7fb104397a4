//! The ways in which a client can reach a server.

use std::{fs, net::TcpListener, process::Stdio, time::Duration};

use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
    time,
};

use crate::peers;

/// Longer than any program takes to listen.
const PATIENCE: Duration = Duration::from_secs(60);
const RELAY: &str = env!("CARGO_BIN_EXE_mcp-question-throttle");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Stdio,
    Http,
}

/// A server among the peers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    pub(crate) peer: &'static str,
    pub(crate) program: &'static str,
}

/// The reference server.
pub(crate) const EVERYTHING: Server = Server {
    peer: "server-everything",
    program: "-",
};

/// Where a client finds a server: the words of its command, or its URL alone.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) words: Vec<String>,
    /// They end with the test.
    _listening: Vec<Child>,
}

impl Server {
    /// The server's own command, for stdio.
    pub(crate) fn words(self) -> Vec<String> {
        let arguments: &[&str] = match self.program {
            "-" => &["stdio"],
            _ => &["--transport", "stdio"],
        };
        peers::words(self.peer, self.program, arguments)
    }

    pub(crate) async fn install(self) {
        peers::install(self.peer).await;
    }

    /// A way to it with nothing in between.
    pub(crate) async fn direct(self, transport: Transport) -> Address {
        self.install().await;
        match transport {
            Transport::Stdio => Address {
                words: self.words(),
                _listening: Vec::new(),
            },
            Transport::Http => {
                let (server, url) = self.listen().await;
                Address {
                    words: vec![url],
                    _listening: vec![server],
                }
            }
        }
    }

    /// A way to it through the relay.
    pub(crate) async fn behind(self, relay: &Relay, transport: Transport) -> Address {
        let mut address = self.direct(transport).await;
        match transport {
            Transport::Stdio => address.words = relay.wrap(address.words),
            Transport::Http => {
                let (serve, url) = relay.serve(&address.words[0]).await;
                address.words = vec![url];
                address._listening.push(serve);
            }
        }
        address
    }

    async fn listen(self) -> (Child, String) {
        if self.program != "-" {
            let mut command = peers::peer(self.peer, self.program, &["--transport", "http"]);
            let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
            let output = server.stdout.take().unwrap();
            let line = line_with("listening ", output).await;
            return (server, line.trim_start_matches("listening ").to_owned());
        }
        // It takes no free port by itself, so one that was free a moment ago has to do.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut command = peers::peer(self.peer, self.program, &["streamableHttp"]);
        command.env("PORT", port.to_string()).stderr(Stdio::piped());
        let mut server = command.stdout(Stdio::null()).spawn().unwrap();
        line_with("listening on port", server.stderr.take().unwrap()).await;
        (server, format!("http://127.0.0.1:{port}/mcp"))
    }
}

/// The first line with `text`. What comes later is read as well, so that nobody waits for us.
async fn line_with(text: &str, output: impl AsyncRead + Send + Unpin + 'static) -> String {
    let mut lines = BufReader::new(output).lines();
    let finding = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(text) {
                return line;
            }
        }
        panic!("it ended before it said {text:?}");
    };
    let line = time::timeout(PATIENCE, finding)
        .await
        .unwrap_or_else(|_| panic!("it did not say {text:?}"));
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    line
}

/// The relay with settings of its own.
#[derive(Debug)]
pub(crate) struct Relay {
    settings: String,
    folder: TempDir,
}

impl Relay {
    /// Takes the settings as TOML.
    pub(crate) fn new(settings: &str) -> Self {
        let relay = Self {
            settings: settings.to_owned(),
            folder: TempDir::new().unwrap(),
        };
        fs::write(relay.file(), settings).unwrap();
        relay
    }

    fn file(&self) -> String {
        let file = self.folder.path().join("settings.toml");
        file.to_str().unwrap().to_owned()
    }

    /// The words that run `command` behind `wrap`.
    pub(crate) fn wrap(&self, command: Vec<String>) -> Vec<String> {
        let file = self.file();
        let ours = [RELAY, "wrap", "--server", "peer", "--settings", &file, "--"];
        ours.map(str::to_owned).into_iter().chain(command).collect()
    }

    /// Starts `serve` in front of a URL, and gives back the one for the client.
    pub(crate) async fn serve(&self, url: &str) -> (Child, String) {
        let servers = format!("{}\n[servers.peer]\nurl = \"{url}\"\n", self.settings);
        fs::write(self.file(), servers).unwrap();
        let mut relay = Command::new(RELAY)
            .args(["serve", "--settings", &self.file()])
            .args(["--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let url = line_with("/peer", relay.stdout.take().unwrap()).await;
        (relay, url)
    }
}
