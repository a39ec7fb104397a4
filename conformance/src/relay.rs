//! A relay between the client under test and its servers.
//!
//! Over stdio it is a command before each server's. Over HTTP it is one process for a scenario: it is
//! told the servers' URLs, and prints those under which it offers them.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use serde_json::{Map, Value};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use crate::{
    model::Windows,
    process::{self, Group},
};

/// How long a relay may take until it has named its URLs. Generous, for those that start an
/// interpreter beside others.
const START: Duration = Duration::from_secs(20);
/// How long a relay may take to end when it is asked to.
const END: Duration = Duration::from_secs(5);

/// A relay's command, and what is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Relay {
    /// Program and arguments. Over stdio `{server}` is the server's name, and the server's command
    /// follows; over HTTP `{settings}` is a file with the servers' URLs.
    pub(crate) command: Vec<String>,
    pub(crate) windows: Windows,
}

/// What a relay over HTTP is told.
#[derive(Debug)]
pub(crate) struct Told<'a> {
    /// Names and URLs.
    pub(crate) servers: &'a Map<String, Value>,
    /// The limits that it is to hold, if there is a file of them.
    pub(crate) limits_file: Option<&'a Path>,
    /// How long its windows should be.
    pub(crate) window: Duration,
    /// Where files for it can be.
    pub(crate) folder: &'a Path,
    /// Where what it prints goes.
    pub(crate) printed: &'a File,
}

impl Relay {
    /// A server's command with the relay's before it.
    ///
    /// # Errors
    ///
    /// The server is reached by no command.
    pub(crate) fn before(&self, server: &str, address: Value) -> Result<Value, String> {
        let Value::Array(command) = address else {
            return Err("only a server's command can have another before it".to_owned());
        };
        let words = self.command.iter();
        let words = words.map(|word| word.replace("{server}", server));
        Ok(words.map(Value::from).chain(command).collect())
    }

    /// Starts the relay, and waits until it has named a URL for each server.
    ///
    /// # Errors
    ///
    /// Why it cannot be used, for people.
    pub(crate) async fn start(&self, told: &Told<'_>) -> Result<Running, String> {
        let settings = told.folder.join("relay.toml");
        fs::write(&settings, self::settings(told)?)
            .map_err(|error| format!("{}: {error}", settings.display()))?;
        let settings = settings
            .to_str()
            .ok_or("the temporary folder is not UTF-8")?;
        let words = self.command.iter();
        let mut words = words.map(|word| word.replace("{settings}", settings));
        let program = words.next().ok_or("the relay's command is empty")?;
        let errors = told
            .printed
            .try_clone()
            .map_err(|error| error.to_string())?;
        let mut command = Command::new(&program);
        command
            .args(words)
            .env(
                "MCP_CONFORMANCE_SERVERS",
                Value::Object(told.servers.clone()).to_string(),
            )
            .env(
                "QUESTION_CONFORMANCE_WINDOW_SECONDS",
                told.window.as_secs().to_string(),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .process_group(0)
            .kill_on_drop(true);
        if let Some(file) = told.limits_file {
            command.env("QUESTION_CONFORMANCE_LIMITS", file);
        }
        let mut child = command
            .spawn()
            .map_err(|error| format!("the relay did not start: {program}: {error}"))?;
        let group = Group::of(&child);
        let output = child.stdout.take().ok_or("the relay has no output")?;
        let mut lines = BufReader::new(output).lines();
        let mut printed = told
            .printed
            .try_clone()
            .map_err(|error| error.to_string())?;
        let mut urls = BTreeMap::new();
        let named = timeout(
            START,
            name_all(&mut lines, told.servers, &mut urls, &mut printed),
        );
        let missing = |urls: &BTreeMap<String, String>| {
            let names = told.servers.keys().map(String::as_str);
            let names: Vec<&str> = names.filter(|&name| !urls.contains_key(name)).collect();
            names.join(" and ")
        };
        let contract = "for each server it prints a line with the name and the URL, or a URL that \
                        ends in the name";
        match named.await {
            Ok(true) => {}
            Ok(false) => {
                let how = match timeout(END, child.wait()).await {
                    Ok(Ok(status)) => process::ending(status).to_string(),
                    _ => "it closed its output".to_owned(),
                };
                let missing = missing(&urls);
                return Err(format!(
                    "the relay named no URL of {missing}, and {how}: {contract}"
                ));
            }
            Err(_) => {
                let (missing, seconds) = (missing(&urls), START.as_secs());
                return Err(format!(
                    "the relay named no URL of {missing} within {seconds} s: {contract}"
                ));
            }
        }
        // Whatever else it prints is kept, and holds it up never.
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                keep(&line, &mut printed);
            }
        });
        Ok(Running {
            urls: urls
                .into_iter()
                .map(|(name, url)| (name, url.into()))
                .collect(),
            child,
            group,
        })
    }
}

/// A relay over HTTP, killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    /// Where it offers each server, by name.
    pub(crate) urls: Map<String, Value>,
    child: Child,
    group: Group,
}

impl Running {
    /// Waits for an end that nobody asked it for, and says how it was.
    pub(crate) async fn dies(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => gone(status),
            Err(error) => format!("the relay cannot be waited for: {error}"),
        }
    }

    /// How it ended, if it has: a client may fail sooner than that is noticed.
    pub(crate) fn has_died(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(gone)
    }

    /// Ends it: it is asked first, and has a while for that.
    pub(crate) async fn end(mut self) {
        self.group.ask_to_end();
        // What is left then is killed.
        let _ = timeout(END, self.child.wait()).await;
    }
}

fn gone(status: ExitStatus) -> String {
    let ending = process::ending(status);
    format!("the relay was gone before the client: {ending}")
}

/// The settings of a relay: the table `[servers]`, and beside it what a file of limits has.
fn settings(told: &Told<'_>) -> Result<String, String> {
    let mut settings = toml::Table::new();
    if let Some(file) = told.limits_file {
        let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let text = fs::read_to_string(file).map_err(|error| problem(&error))?;
        settings = text.parse().map_err(|error| problem(&error))?;
    }
    let servers = told.servers.iter().map(|(name, url)| {
        let url = url.as_str().unwrap_or_default();
        let entry = toml::Table::from_iter([("url".to_owned(), url.into())]);
        (name.clone(), entry.into())
    });
    let servers: toml::Table = servers.collect();
    settings.insert("servers".to_owned(), servers.into());
    Ok(settings.to_string())
}

/// Reads until each server has a URL; `false` if the output ends before.
async fn name_all(
    lines: &mut Lines<BufReader<ChildStdout>>,
    servers: &Map<String, Value>,
    urls: &mut BTreeMap<String, String>,
    printed: &mut File,
) -> bool {
    while urls.len() < servers.len() {
        let Ok(Some(line)) = lines.next_line().await else {
            return false;
        };
        keep(&line, printed);
        if let Some((name, url)) = named(&line, servers) {
            urls.entry(name).or_insert(url);
        }
    }
    true
}

fn keep(line: &str, printed: &mut File) {
    // It is there for people, who do without it then.
    let _ = writeln!(printed, "{line}");
}

/// The server that a line names, and its URL.
fn named(line: &str, servers: &Map<String, Value>) -> Option<(String, String)> {
    let line = line.trim();
    let (name, url) = match line.rsplit_once([' ', '\t']) {
        Some((name, url)) => (name.trim_end(), url),
        None => (line.rsplit_once('/')?.1, line),
    };
    let is_url = url.starts_with("http://") || url.starts_with("https://");
    (is_url && servers.contains_key(name)).then(|| (name.to_owned(), url.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn relay(words: &[&str]) -> Relay {
        Relay {
            command: words.iter().map(|&word| word.to_owned()).collect(),
            windows: Windows::Server,
        }
    }

    fn servers() -> Map<String, Value> {
        let url = |port: u16| Value::from(format!("http://127.0.0.1:{port}/mcp"));
        Map::from_iter([("alpha".to_owned(), url(1)), ("beta".to_owned(), url(2))])
    }

    #[test]
    fn a_relay_stands_before_a_command_and_before_nothing_else() {
        let relay = relay(&["wrap", "--server={server}"]);
        let command = relay.before("alpha", json!(["serve", "stdio"]));
        let wanted = json!(["wrap", "--server=alpha", "serve", "stdio"]);
        assert_eq!(command, Ok(wanted));
        assert!(relay.before("alpha", "http://127.0.0.1/".into()).is_err());
    }

    #[test]
    fn a_line_names_a_server_by_name_and_url_or_by_a_url_alone() {
        let named = |line: &str| named(line, &servers());
        let is = |url: &str| Some(("alpha".to_owned(), url.to_owned()));
        assert_eq!(named("alpha http://[::1]:7/x"), is("http://[::1]:7/x"));
        assert_eq!(named(" alpha\t https://h/ "), is("https://h/"));
        assert_eq!(named("http://h:7/a/alpha"), is("http://h:7/a/alpha"));
        for nothing in [
            "",
            "alpha",
            "alpha 7",
            "gamma http://h/",
            "http://h/gamma",
            "on http://h/alpha",
        ] {
            assert_eq!(named(nothing), None, "{nothing:?}");
        }
    }

    #[derive(PartialEq)]
    enum Waits {
        ForProcesses,
        OnlyForTime,
    }

    fn started(
        relay: &Relay,
        limits_file: Option<&Path>,
        waits: Waits,
    ) -> (Result<Map<String, Value>, String>, String) {
        let folder = tempfile::tempdir().unwrap();
        let printed = folder.path().join("printed");
        let file = File::create(&printed).unwrap();
        let servers = servers();
        let told = Told {
            servers: &servers,
            limits_file,
            window: Duration::from_secs(60),
            folder: folder.path(),
            printed: &file,
        };
        // Time goes on when there is nothing to wait for but time.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(waits == Waits::OnlyForTime)
            .build()
            .unwrap();
        let urls = runtime.block_on(async {
            let running = relay.start(&told).await?;
            let urls = running.urls.clone();
            running.end().await;
            Ok(urls)
        });
        (urls, fs::read_to_string(printed).unwrap())
    }

    #[test]
    fn a_relay_is_told_the_servers_and_the_limits_and_says_where_it_offers_them() {
        let folder = tempfile::tempdir().unwrap();
        let limits = folder.path().join("limits.toml");
        fs::write(&limits, "[proto]\naskRounds = 3\n").unwrap();
        let program = r#"echo "$MCP_CONFORMANCE_SERVERS" "$QUESTION_CONFORMANCE_WINDOW_SECONDS" >&2
            cat "$1" >&2
            echo "listening"
            echo "http://127.0.0.1:3/beta"
            echo "alpha http://127.0.0.1:3/"
            exec sleep 600"#;
        let relay = relay(&["sh", "-c", program, "sh", "{settings}"]);
        let (urls, printed) = started(&relay, Some(&limits), Waits::ForProcesses);
        let wanted = json!({"alpha": "http://127.0.0.1:3/", "beta": "http://127.0.0.1:3/beta"});
        assert_eq!(urls.map(Value::Object), Ok(wanted));
        let first = r#"{"alpha":"http://127.0.0.1:1/mcp","beta":"http://127.0.0.1:2/mcp"} 60"#;
        for word in [
            first,
            "askRounds = 3",
            "url = \"http://127.0.0.1:2/mcp\"",
            "listening",
        ] {
            assert!(printed.contains(word), "no {word:?} in {printed}");
        }
    }

    #[test]
    fn a_relay_that_ends_or_names_nothing_is_said_with_what_is_missing() {
        let dies = relay(&["sh", "-c", "echo alpha http://h/; echo no port >&2; exit 7"]);
        let (urls, printed) = started(&dies, None, Waits::ForProcesses);
        let why = urls.unwrap_err();
        assert!(
            why.starts_with("the relay named no URL of beta, and it ended with the exit code 7: "),
            "{why}"
        );
        assert!(printed.contains("no port"), "{printed}");
        let (urls, _) = started(&relay(&["/nowhere/relay"]), None, Waits::ForProcesses);
        let why = urls.unwrap_err();
        assert!(
            why.starts_with("the relay did not start: /nowhere/relay: "),
            "{why}"
        );
    }

    #[test]
    fn a_relay_that_says_nothing_is_not_waited_for_for_ever() {
        let silent = relay(&["sleep", "600"]);
        let (urls, _) = started(&silent, None, Waits::OnlyForTime);
        let why = urls.unwrap_err();
        assert!(
            why.starts_with("the relay named no URL of alpha and beta within 20 s: "),
            "{why}"
        );
    }
}
