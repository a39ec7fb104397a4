//! The status page in a browser, and the same in a terminal, with a flood running behind them.
//!
//! Needs Chromium and Node; see `tests/peers/README.md`. Pictures are left in `target/status-page`.

#![cfg(all(unix, feature = "command", feature = "serve"))]

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

#[expect(dead_code, reason = "of the servers and relays of another test")]
#[path = "relay_serve/harness.rs"]
mod harness;

use harness::{Answer, Relayed, Server, events, question, result};

const COMMAND: &str = env!("CARGO_BIN_EXE_mcp-question-throttle");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// `demo --serve`, whose flood ends after so many questions.
struct Demo {
    child: Child,
    url: String,
    // It is not to find its output closed while it still says what is where.
    _out: BufReader<ChildStdout>,
}

impl Demo {
    fn start(questions: Option<u32>) -> Self {
        let mut command = Command::new(COMMAND);
        command.args(["demo", "--serve", "--listen", "127.0.0.1:0"]);
        if let Some(questions) = questions {
            command.args(["--questions", &questions.to_string()]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let url = line
            .strip_prefix("status page  ")
            .unwrap()
            .trim()
            .to_owned();
        Self {
            child,
            url,
            _out: out,
        }
    }

    /// What the command `status` prints.
    fn status(&self, args: &[&str]) -> String {
        let status = Command::new(COMMAND)
            .args(["status", "--url", &self.url])
            .args(args)
            .output()
            .unwrap();
        assert!(status.status.success(), "{status:?}");
        String::from_utf8(status.stdout).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.status(&["--json"])).unwrap()
    }

    /// The status once the flood has ended and every question admitted is answered.
    fn at_rest(&self, questions: u64) -> Value {
        loop {
            let status = self.json();
            let usage = &status["servers"][0]["usage"];
            let counts = usage["counts"].as_array().cloned().unwrap_or_default();
            let asked: u64 = counts
                .iter()
                .map(|count| count["questions"].as_u64().unwrap())
                .sum();
            let open = ["sampling", "elicitation"].map(|kind| usage[kind]["open"].as_u64());
            if asked == questions && open == [Some(0); 2] {
                return status;
            }
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It runs until it is interrupted.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

struct Browser {
    child: Child,
    steps: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Browser {
    fn open(url: &str) -> Self {
        let pictures = Path::new(ROOT).join("target/status-page");
        fs::create_dir_all(&pictures).unwrap();
        let mut child = Command::new(format!("{ROOT}/tests/peers/run"))
            .args([
                "browser",
                &format!("{ROOT}/tests/peers/browser/look.mjs"),
                url,
            ])
            .arg(pictures)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            steps: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    fn step(&mut self, step: &Value) -> Value {
        writeln!(self.steps.as_mut().unwrap(), "{step}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("no browser: {step} was answered by {line:?}"));
        assert!(answer.get("error").is_none(), "{step}: {answer}");
        answer["ok"].clone()
    }

    fn picture(&mut self, name: &str) {
        self.step(&json!(["picture", name]));
    }

    /// Nothing was loaded from elsewhere, nothing failed, and nothing is cut off.
    fn assert_sound(&mut self) {
        assert_eq!(self.step(&json!(["faults"])), json!([]));
        assert_eq!(self.step(&json!(["overflows"])), false);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.steps.take());
        self.child.wait().unwrap();
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// What the page should read for one kind of one server.
fn expected(server: &Value, kind: &str) -> (String, String) {
    let counts = &server[kind];
    let refused = number(&counts["refusedByServerLimit"])
        + number(&counts["refusedBySessionLimit"])
        + number(&counts["refusedWhileMuted"]);
    let used = format!(
        "{} of {}",
        counts["window"]["used"], counts["window"]["limit"]
    );
    (
        used,
        format!("{} admitted · {refused} refused", counts["admitted"]),
    )
}

#[test]
#[ignore = "needs Chromium: cargo test --test status_page -- --ignored"]
fn the_page_shows_what_is_counted() {
    const QUESTIONS: u32 = 150;
    let demo = Demo::start(Some(QUESTIONS));
    let mut browser = Browser::open(&demo.url);
    browser.step(&json!(["wait", "flooding", 10_000]));
    browser.picture("flood-begins");

    let status = demo.at_rest(u64::from(QUESTIONS));
    let flooding = &status["servers"][0];
    let (used, totals) = expected(flooding, "elicitation");
    browser.step(&json!(["wait", totals, 10_000]));
    browser.step(&json!(["wait", used, 10_000]));
    let shown = browser.step(&json!(["shown"]));
    let names: Vec<_> = shown
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].clone())
        .collect();
    assert_eq!(names, ["flooding", "polite", "quiet"]);
    for (nth, kind) in ["sampling", "elicitation"].into_iter().enumerate() {
        let (used, totals) = expected(flooding, kind);
        let card = &shown[0]["kinds"][nth];
        assert_eq!(card["used"], used);
        let text = card["totals"].as_str().unwrap();
        assert!(
            text == totals || text.starts_with(&format!("{totals} · ")),
            "{text}, {totals}"
        );
        assert!(number(&card["plotted"]) > 0);
        assert_eq!(shown[2]["kinds"][nth]["totals"], "0 admitted · 0 refused");
    }
    // The causes on the page are those of the recorder, and these are what the throttle counted.
    let causes = shown[0]["causes"].as_array().unwrap();
    let of = |limit: &str| {
        let row = causes.iter().find(|row| row[0] == limit).unwrap();
        row[2].as_str().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(
        of("samplingSessionPerMinute"),
        number(&flooding["sampling"]["refusedBySessionLimit"])
    );
    assert_eq!(
        of("elicitationPerMinute"),
        number(&flooding["elicitation"]["refusedByServerLimit"])
    );
    browser.assert_sound();
}

#[test]
#[ignore = "needs Chromium: cargo test --test status_page -- --ignored"]
fn a_flood_is_seen_at_once_and_can_be_muted_by_keyboard() {
    let demo = Demo::start(None);
    let mut browser = Browser::open(&demo.url);
    // From the page's load to the flood on it; the flood itself needs a moment to fill a window.
    browser.step(&json!(["wait", "refused", 10_000]));
    browser.step(&json!(["wait", "30 of 30", 10_000]));
    browser.picture("flood");
    browser.step(&json!(["dark"]));
    browser.picture("dark");
    browser.step(&json!(["width", 390]));
    browser.assert_sound();
    browser.picture("narrow-dark");
    browser.step(&json!(["light"]));
    browser.picture("narrow");
    browser.step(&json!(["width", 1100]));

    // What a screen reader is told.
    let tree = browser.step(&json!(["tree"]));
    let tree = tree.as_str().unwrap();
    for part in [
        "heading \"Who has been asking\" [level=1]",
        "region \"flooding\"",
        "meter \"Elicitation\"",
        "button \"Mute flooding\"",
        "table \"Last refusals\"",
    ] {
        assert!(tree.contains(part), "{part} is not in {tree}");
    }

    assert_eq!(browser.step(&json!(["press", "Mute flooding"])), true);
    browser.step(&json!(["wait", "Every question is refused now.", 10_000]));
    browser.step(&json!(["wait", "server muted, sampling", 10_000]));
    browser.picture("muted");
    let status = demo.json();
    assert_eq!(status["servers"][0]["muted"], true);
    let admitted = status["servers"][0]["elicitation"]["admitted"].clone();
    assert!(number(&status["servers"][0]["elicitation"]["refusedWhileMuted"]) > 0);
    assert!(demo.status(&[]).contains("flooding  muted"));

    assert_eq!(browser.step(&json!(["press", "Unmute flooding"])), true);
    browser.step(&json!([
        "wait",
        "It may ask again, within its limits.",
        10_000
    ]));
    let status = demo.json();
    assert_eq!(status["servers"][0]["muted"], false);
    assert_eq!(status["servers"][0]["elicitation"]["admitted"], admitted);
    browser.assert_sound();
}

/// The table of what was over a limit stood in half of the card, beside nothing, and its column of
/// numbers was cut off. Its caption said "Refused" of what was admitted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: cargo test --test status_page -- --ignored"]
async fn what_is_only_observed_is_shown_whole_and_not_called_refused() {
    let server = Server::start(|seen| match seen.json()["method"].as_str() {
        Some(_) => Answer::events(events((10..70).map(question).chain([result(1)]))),
        None => Answer::new(202, ""),
    })
    .await;
    let limits = |mode| {
        format!(
            "[proto]\nelicitationSessionPerMinute = 5\nthrottleMode = \"{mode}\"\n\
             [servers.github]\nurl = {:?}\n",
            server.url()
        )
    };
    let relay = Relayed::with_settings(&limits("observe")).await;
    relay.call().await;
    let url = format!("http://{}/", relay.address);
    let mut browser = Browser::open(&url);
    browser.step(&json!(["wait", "only observed: ", 10_000]));
    let observed = "Over a limit, but only observed, since the relay began";
    for (width, theme) in [
        (1280, "light"),
        (1280, "dark"),
        (500, "light"),
        (400, "dark"),
        (400, "light"),
    ] {
        browser.step(&json!([theme]));
        browser.step(&json!(["width", width]));
        browser.picture(&format!("observed-{width}-{theme}"));
        assert_eq!(browser.step(&json!(["clipped"])), json!([]), "{width}");
        let captions = browser.step(&json!(["captions"]));
        let caption = &captions[0];
        assert_eq!(
            (&caption[0], &caption[1]),
            (&json!(observed), &json!(observed))
        );
        let wide = number(&caption[2]);
        assert!(
            wide + 120 > width.min(1248),
            "it fills its card: {wide} of {width}"
        );
    }
    browser.assert_sound();

    let settings = mcp_question_throttle::settings::parse(
        "settings.toml",
        &limits("enforce"),
        &mcp_question_throttle::settings::Environment::empty(),
    );
    relay.throttle.update(settings.unwrap().settings());
    relay.call().await;
    browser.step(&json!([
        "wait",
        "Refused, or only observed, since the relay began",
        10_000
    ]));
    browser.picture("observed-then-refused");
    assert_eq!(browser.step(&json!(["clipped"])), json!([]));
    browser.assert_sound();
}

/// Without a browser: what `status` prints is what is counted.
#[test]
fn a_terminal_shows_what_is_counted() {
    const QUESTIONS: u32 = 120;
    let demo = Demo::start(Some(QUESTIONS));
    let status = demo.at_rest(u64::from(QUESTIONS));
    let text = demo.status(&["--recent", "3"]);
    let flooding = &status["servers"][0];
    for kind in ["sampling", "elicitation"] {
        let (used, totals) = expected(flooding, kind);
        let line = text
            .lines()
            .find(|line| line.trim_start().starts_with(kind))
            .unwrap();
        assert!(
            line.contains(&used) && line.contains(&totals.replace(" ·", ",")),
            "{line}"
        );
    }
    let recent = text.lines().filter(|line| line.contains(" s ago ")).count();
    assert!(
        (3..=6).contains(&recent),
        "three of each server that has asked: {text}"
    );
    let limit = "refused elicitation, proto.elicitationPerMinute, in call";
    assert!(text.contains(limit), "{text}");
    assert!(
        text.contains("quiet\n  sampling    .................... 0 of 60; 0 admitted, 0 refused")
    );
    assert!(!text.contains('\u{1b}'), "no colours without a terminal");
}

#[test]
fn watching_goes_on_until_it_is_ended() {
    let demo = Demo::start(None);
    let mut watch = Command::new(COMMAND)
        .args(["status", "--json", "--watch", "--url", &demo.url])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut uptime = || {
        let status: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        number(&status["uptimeMs"])
    };
    assert!(uptime() < uptime());
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn without_a_relay_it_says_so() {
    let status = Command::new(COMMAND)
        .args(["status", "--url", "http://127.0.0.1:1/"])
        .output()
        .unwrap();
    assert_eq!(status.status.code(), Some(69));
    let error = String::from_utf8(status.stderr).unwrap();
    assert!(
        error.contains("no status at http://127.0.0.1:1/status: Connection refused"),
        "{error}"
    );
}

/// `127.0.0.1:7460` was called a URL that "builder error", and `http://.../status` asked for
/// `/status/status`.
#[test]
fn the_relay_is_found_by_whatever_names_it() {
    let demo = Demo::start(Some(1));
    let at = |url: &str| {
        let args = ["status", "--json", "--url", url];
        Command::new(COMMAND).args(args).output().unwrap()
    };
    let address = demo.url.trim_start_matches("http://").trim_end_matches('/');
    for url in [
        address.to_owned(),
        address.replace("127.0.0.1", "localhost"),
        format!("http://{address}/status"),
        format!("{address}/status/"),
    ] {
        let found = at(&url);
        assert!(found.status.success(), "{url}: {found:?}");
    }
    for url in ["7460", "", "ftp://127.0.0.1"] {
        let refused = at(url);
        assert_eq!(refused.status.code(), Some(2), "{url}");
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(
            said.contains("expected the URL that `serve` listens at"),
            "{said}"
        );
    }
}
