//! Servers over stdio. What a client starts is this program as a mere pipe: it joins its standard
//! input and output to the runner, where all servers of a scenario are played and recorded.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    thread,
};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::{
        TcpListener,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    task::JoinSet,
};

use super::{
    Stage,
    session::{Outgoing, Session},
};

/// Where pipes connect to.
#[derive(Debug)]
pub(crate) struct Gate {
    listener: TcpListener,
    address: SocketAddr,
}

impl Gate {
    pub(crate) async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The arguments of this program that make it a pipe to a server.
    pub(crate) fn arguments(&self, server: &str) -> [String; 4] {
        let to = format!("--to={}", self.address);
        let server = format!("--server={server}");
        ["serve".to_owned(), "stdio".to_owned(), to, server]
    }

    /// Plays servers for whoever connects, until dropped.
    pub(crate) async fn serve(&self, stage: &Stage, connections: &mut JoinSet<()>) {
        // A failed accept is a connection that its client sees fail as well.
        while let Ok((stream, _)) = self.listener.accept().await {
            connections.spawn(connection(stream, stage.clone()));
        }
    }
}

async fn connection(stream: tokio::net::TcpStream, stage: Stage) {
    let (reader, writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    let Ok(Some(name)) = lines.next_line().await else {
        return;
    };
    let mut servers = stage.scenario.servers.iter();
    let Some(server) = servers.position(|server| server.name == name) else {
        return;
    };
    let (session, outgoing) = Session::open(stage, server);
    tokio::select! {
        () = read(lines, &session) => {}
        () = write(writer, outgoing) => {}
    }
}

async fn read(mut lines: Lines<BufReader<OwnedReadHalf>>, session: &Session) {
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str::<Value>(&line) {
            Ok(message) => session.receive(&message),
            Err(_) => session.receive_garbage(line),
        }
    }
}

async fn write(mut writer: OwnedWriteHalf, mut outgoing: mpsc::UnboundedReceiver<Outgoing>) {
    while let Some(Outgoing::Write { messages, .. }) = outgoing.recv().await {
        let lines: String = messages
            .iter()
            .map(|message| format!("{message}\n"))
            .collect();
        if writer.write_all(lines.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Is a pipe: from standard input to the runner, and back to standard output.
pub(crate) fn run(to: SocketAddr, server: &str) -> io::Result<()> {
    let mut upstream = TcpStream::connect(to)?;
    writeln!(upstream, "{server}")?;
    let mut downstream = upstream.try_clone()?;
    thread::spawn(move || {
        // Either end may go first; then there is no one left to tell.
        let _ = copy(&mut io::stdin().lock(), &mut upstream);
        let _ = upstream.shutdown(Shutdown::Write);
    });
    // The server closes: so does this process, wherever the other thread is.
    copy(&mut downstream, &mut io::stdout().lock())
}

/// Copies with a flush after each piece.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read])?;
        to.flush()?;
    }
}
