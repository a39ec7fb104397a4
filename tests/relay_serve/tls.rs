//! Servers behind TLS, with certificates of an authority that only the operator knows.

use std::{fs, net::SocketAddr, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::PrivatePkcs8KeyDer},
};

use crate::{
    command::Served,
    harness::{Answer, Server, events, limited, question, result, soon},
};

/// An authority of its own, in a file.
struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let folder = TempDir::new().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Self {
            folder,
            issuer: Issuer::new(params, key),
        }
    }

    /// For a server of this name.
    fn acceptor(&self, name: &str) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into());
        Arc::new(config.unwrap()).into()
    }

    /// The command in front of a server at this port, trusting this authority alone.
    fn trusted(&self, port: u16) -> Served {
        let settings = limited(&format!("https://127.0.0.1:{port}/mcp?key=hunter2"));
        Served::start_with(&settings, |command| {
            command.env("SSL_CERT_FILE", self.folder.path().join("ca.pem"))
        })
    }
}

/// Passes on to a server without TLS what comes over TLS.
async fn through(tls: TlsAcceptor, stream: TcpStream, server: SocketAddr) {
    // A client that does not trust us goes away.
    if let Ok(mut stream) = tls.accept(stream).await {
        let mut server = TcpStream::connect(server).await.unwrap();
        let _ = copy_bidirectional(&mut stream, &mut server).await;
    }
}

async fn front(tls: TlsAcceptor, server: SocketAddr) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(through(tls.clone(), stream, server));
        }
    });
    port
}

#[tokio::test]
async fn a_server_of_a_private_authority_is_relayed_and_told_of_refusals() {
    let mut server = Server::start(|seen| match seen.json()["method"].as_str() {
        Some(_) => Answer::events(events((1..=6).map(question).chain([result(1)]))),
        None => Answer::new(202, ""),
    })
    .await;
    let authority = Authority::new();
    let port = front(authority.acceptor("127.0.0.1"), server.address).await;
    let served = authority.trusted(port);
    let passed = events((1..=5).map(question).chain([result(1)]));
    assert_eq!(served.call().await.text(), passed);
    let seen = server.next().await;
    assert_eq!(seen.header("host"), Some(&*format!("127.0.0.1:{port}")));
    let refusal = server.next().await.json();
    assert_eq!(
        (&refusal["id"], &refusal["error"]["code"]),
        (&json!(6), &json!(-32603))
    );
}

#[tokio::test]
async fn a_server_that_cannot_be_trusted_is_not_asked() {
    let mut server = Server::start(|_| Answer::json("{}")).await;
    let authority = Authority::new();
    for (other, acceptor) in [
        ("name", authority.acceptor("elsewhere.example")),
        ("authority", Authority::new().acceptor("127.0.0.1")),
    ] {
        let port = front(acceptor, server.address).await;
        let served = authority.trusted(port);
        let answer = served.call().await;
        assert_eq!(answer.status, 502, "another {other}");
        let host = format!("no answer from 127.0.0.1:{port}: ");
        assert!(answer.text().contains(&host), "{}", answer.text());
        assert!(answer.text().contains("certificate"), "{}", answer.text());
        assert!(!answer.text().contains("hunter2"), "{}", answer.text());
    }
    assert!(server.rest().is_empty());
}

/// A client that asks for its session's stream and calls at once; a connection for the stream is
/// slow to be made. Whether the call came after it, though there was a way for it.
async fn call_waits() -> bool {
    let mut server = Server::start(|_| {
        // It keeps the connection, so that the stream cannot have it.
        let (writer, answer) = Answer::written();
        std::mem::forget(writer);
        answer
    })
    .await;
    let authority = Authority::new();
    let tls = authority.acceptor("127.0.0.1");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let served = authority.trusted(listener.local_addr().unwrap().port());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let send = |method: Method, session: &str| {
        let request = client.request(method, &served.urls[0]);
        soon(request.header("mcp-session-id", session).send())
    };

    let stream = send(Method::GET, "one");
    let called = async {
        let (slow, _) = listener.accept().await.unwrap();
        let address = server.address;
        let others = tls.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(through(others.clone(), stream, address));
            }
        });
        let call = send(Method::POST, "one");
        let others = async {
            // Whatever was sent before these could be there before them.
            for session in ["two", "three"] {
                send(Method::POST, session).await.unwrap();
            }
            let before = server.rest();
            tokio::spawn(through(tls, slow, address));
            before
        };
        let (call, before) = tokio::join!(call, others);
        call.unwrap();
        before
    };
    let (stream, before) = tokio::join!(stream, called);
    stream.unwrap();
    let sessions: Vec<_> = before
        .iter()
        .map(|seen| seen.header("mcp-session-id"))
        .collect();
    sessions == [Some("two"), Some("three")] && server.next().await.method == Method::GET
}

#[tokio::test]
async fn a_call_waits_until_the_stream_has_its_connection() {
    // It waits for 1 s, so on a machine that stands still for so long an attempt says nothing.
    for _ in 0..20 {
        if call_waits().await {
            return;
        }
    }
    panic!("it never waits");
}
