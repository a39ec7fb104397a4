//! The command `serve` as its operator meets it.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Answer, Response_, Server, call, events, question, rest, result, soon};

const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Served {
    child: Child,
    pub(crate) urls: Vec<String>,
    stderr: Receiver<String>,
    folder: TempDir,
}

/// The command with a settings file of this text, that may fail to start.
pub(crate) fn command(folder: &TempDir, settings: &str) -> Command {
    fs::write(folder.path().join("limits.toml"), settings).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-question-throttle"));
    command
        .args(["serve", "--settings", "limits.toml"])
        .current_dir(folder)
        .env_clear();
    command
}

impl Served {
    pub(crate) fn start(settings: &str) -> Self {
        Self::start_with(settings, |command| command)
    }

    pub(crate) fn start_with(
        settings: &str,
        change: impl Fn(&mut Command) -> &mut Command,
    ) -> Self {
        Self::start_listening(settings, "127.0.0.1:0", change)
    }

    pub(crate) fn start_listening(
        settings: &str,
        listen: &str,
        change: impl Fn(&mut Command) -> &mut Command,
    ) -> Self {
        let folder = TempDir::new().unwrap();
        let mut child = change(&mut command(&folder, settings))
            .args(["--listen", listen])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let servers = settings.matches("url =").count();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, stderr) = mpsc::channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            urls: stdout.lines().take(servers).map(Result::unwrap).collect(),
            stderr,
            folder,
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("limits.toml")
    }

    fn signal(&self, signal: Signal) {
        signal::kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Waits for a line on stderr that holds `text`, and gives back all until then.
    pub(crate) fn logged(&self, text: &str) -> String {
        let mut all = String::new();
        loop {
            match self.stderr.recv_timeout(PATIENCE) {
                Ok(line) => {
                    all = format!("{all}{line}\n");
                    if line.contains(text) {
                        return all;
                    }
                }
                Err(_) => panic!("{text:?} is not on stderr:\n{all}"),
            }
        }
    }

    fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) async fn call(&self) -> Response_ {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let sent = client.post(&self.urls[0]).body(call(1).to_string()).send();
        Response_::of(soon(sent).await.unwrap()).await
    }

    /// The most memory that it had, in bytes.
    fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kilobytes = peak.unwrap().split_whitespace().nth(1).unwrap();
        kilobytes.parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind; one that passed has ended it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn settings(url: &str, limit: i32) -> String {
    format!("[proto]\nelicitationPerMinute = {limit}\n[servers.github]\nurl = {url:?}\n")
}

/// A server that asks once in answer to each call.
pub(crate) async fn asking_once() -> Server {
    Server::start(|seen| match seen.json()["method"].as_str() {
        Some(_) => Answer::events(events([question(7), result(1)])),
        None => Answer::new(202, ""),
    })
    .await
}

#[tokio::test]
async fn it_prints_its_urls_and_relays() {
    let server = asking_once().await;
    let more = "[servers.\"a b\"]\nurl = \"https://a.example\"\n[servers.local]\ncommand = \"x\"\n";
    let mut served = Served::start(&format!("{}{more}", settings(&server.url(), 1)));
    assert_eq!(served.urls.len(), 2);
    assert!(served.urls[1].ends_with("/github"), "{:?}", served.urls);
    assert!(served.urls[0].ends_with("/a%20b"), "{:?}", served.urls);
    served.urls.remove(0);
    assert_eq!(served.call().await.text(), events([question(7), result(1)]));
    assert_eq!(served.call().await.text(), events([result(1)]));
    let log = served.logged("to admit more, raise elicitationPerMinute under");
    assert!(log.contains("in limits.toml"), "{log}");
    served.signal(Signal::SIGTERM);
    let log = served.logged("counted in all");
    assert!(log.contains("admitted=1 refused=1"), "{log}");
    assert_eq!(served.wait().code(), Some(0));
}

#[tokio::test]
async fn a_hangup_reads_the_limits_again_and_counts_stay() {
    let server = asking_once().await;
    let served = Served::start(&settings(&server.url(), 1));
    let (asked, refused) = (events([question(7), result(1)]), events([result(1)]));
    assert_eq!(served.call().await.text(), asked);
    assert_eq!(served.call().await.text(), refused);

    fs::write(served.file(), settings(&server.url(), 2)).unwrap();
    served.signal(Signal::SIGHUP);
    served.logged("the limits of limits.toml are in force");
    assert_eq!(served.call().await.text(), asked);
    assert_eq!(
        served.call().await.text(),
        refused,
        "what was counted counts"
    );

    // The same file gives nothing back.
    served.signal(Signal::SIGHUP);
    served.logged("the limits of limits.toml are in force");
    assert_eq!(served.call().await.text(), refused);

    // A file that is wrong changes nothing, and says so with the line.
    fs::write(served.file(), "[proto]\nelicitationPerMinute = true\n").unwrap();
    served.signal(Signal::SIGHUP);
    let log = served.logged("the old ones stay in force");
    assert!(
        log.contains("limits.toml:2:24: proto.elicitationPerMinute"),
        "{log}"
    );
    assert_eq!(served.call().await.text(), refused);
    fs::remove_file(served.file()).unwrap();
    served.signal(Signal::SIGHUP);
    let log = served.logged("the old ones stay in force");
    assert!(
        log.contains("cannot read settings file limits.toml"),
        "{log}"
    );

    // Servers are those of the start.
    fs::write(served.file(), settings("http://elsewhere.example", 3)).unwrap();
    served.signal(Signal::SIGHUP);
    served.logged("start again");
    assert_eq!(served.call().await.text(), asked);
}

#[tokio::test]
async fn no_secret_is_logged_however_much_is() {
    let server = asking_once().await;
    let settings = format!(
        "[proto]\nelicitationPerMinute = 1\n[servers.github]\nurl = \"{}?key=hunter2\"\n\
         headers = {{ X-Key = \"hunter2\" }}\n",
        server.url()
    );
    let mut served = Served::start_with(&settings, |command| {
        command.env("MCP_QUESTION_THROTTLE_LOG", "trace")
    });
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for _ in 0..2 {
        let sent = client
            .post(format!("{}?token=hunter2", served.urls[0]))
            .header("authorization", "Bearer hunter2")
            .header("cookie", "hunter2")
            .header("mcp-session-id", "hunter2")
            .body(call("hunter2").to_string());
        let response = Response_::of(soon(sent.send()).await.unwrap()).await;
        assert_eq!(response.status, 200);
    }
    let before = served.logged("to admit more, raise");
    served.signal(Signal::SIGTERM);
    let log = before + &served.logged("counted in all");
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "{log}");
    let all: Vec<_> = served.stderr.try_iter().collect();
    assert!(!log.contains("hunter2"), "{log}");
    assert!(!all.concat().contains("hunter2"), "{all:?}");
    assert_eq!(served.wait().code(), Some(0));
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let (writer, answer) = Answer::written();
    let answer = std::sync::Mutex::new(Some(answer));
    let server = Server::start(move |_| answer.lock().unwrap().take().unwrap()).await;
    let mut served = Served::start(&settings(&server.url(), 1));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let called = client
        .post(&served.urls[0])
        .body(call(1).to_string())
        .send();
    let called = soon(called).await.unwrap();
    served.signal(Signal::SIGINT);
    served.logged("ending, after the calls in flight");
    served.signal(Signal::SIGINT);
    assert_eq!(served.wait().code(), Some(0));
    assert!(soon(called.bytes()).await.is_err());
    soon(writer.closed()).await;
}

/// A million questions that nobody has to be told of, and some thousands that go back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_costs_bounded_memory() {
    const PART: usize = 1000;
    let server = Server::start(|seen| {
        let message = seen.json();
        let questions = match message["params"]["name"].as_str() {
            Some("without id") => {
                let question = json!({"method": "elicitation/create", "params": {"message": "q"}});
                (1000, events(vec![question; PART]))
            }
            Some(_) => (5, events((0..PART).map(|id| question(id as u64)))),
            None => return Answer::new(202, ""),
        };
        let (parts, part) = (questions.0, Bytes::from(questions.1));
        let parts = std::iter::repeat_n(part, parts).chain([events([result(1)]).into()]);
        Answer::events(Body::from_stream(stream::iter(
            parts.map(Ok::<_, std::io::Error>),
        )))
    })
    .await;
    let served = Served::start(&settings(&server.url(), 1));
    served.call().await;
    let before = served.peak_memory();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for name in ["with id", "without id"] {
        let mut message = call(1);
        message["params"]["name"] = name.into();
        let sent = client
            .post(&served.urls[0])
            .body(message.to_string())
            .send();
        let response = soon(sent).await.unwrap();
        let left = rest(response).await;
        assert!(left.ends_with(events([result(1)]).as_bytes()));
        assert!(left.len() < 1000, "{}", left.len());
    }
    let read = async |path: &str| {
        let base = served.urls[0].rsplit_once('/').unwrap().0;
        let response = soon(client.get(format!("{base}{path}")).send()).await;
        String::from_utf8(rest(response.unwrap()).await).unwrap()
    };
    // Each of them is in the totals, and what is shown of them has not grown.
    let asked = 5000 + 5000 + 1_000_000;
    let status = read("/status").await;
    assert!(status.len() < 256 * 1024, "{} bytes", status.len());
    let status: Value = serde_json::from_str(&status).unwrap();
    let github = &status["servers"][0];
    let number = |value: &Value| value.as_u64().unwrap();
    let elicitation = &github["elicitation"];
    assert_eq!(
        number(&elicitation["admitted"]) + number(&elicitation["refusedByServerLimit"]),
        asked
    );
    assert_eq!(github["usage"]["recent"].as_array().unwrap().len(), 256);
    let metrics = read("/metrics").await;
    assert!(metrics.len() < 64 * 1024, "{} bytes", metrics.len());
    let counted: u64 = metrics
        .lines()
        .filter(|line| line.starts_with("mcp_question_throttle_questions_total{"))
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum();
    assert_eq!(counted, asked);
    assert!(read("/").await.contains("<script"));
    let grown = served.peak_memory() - before;
    assert!(grown <= 16 * 1024 * 1024, "{grown} bytes more");
}
