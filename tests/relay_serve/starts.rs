//! How the command `serve` starts, and what it says when it cannot.

#[cfg(target_os = "linux")]
use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::{
    command::{Served, asking_once, command, settings},
    harness::{Answer, Server, events, question, result, soon},
};

#[test]
fn what_is_wrong_at_the_start_is_said_with_its_place() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let bound = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let free = bound.local_addr().unwrap().to_string();
    drop(bound);
    let itself = format!(
        "[servers.a]\nurl = \"http://{}/a\"\n",
        free.replace("127.0.0.1", "localhost")
    );
    for (settings, args, code, says) in [
        (
            "[servers.a]\ncommand = \"x\"\n",
            &[][..],
            78,
            "limits.toml: no server has a url",
        ),
        (
            "[servers.metrics]\nurl = \"http://a.example\"\n",
            &[],
            78,
            "limits.toml:2:7: servers.metrics: the relay has a page of this name",
        ),
        (
            "[servers.\"..\"]\nurl = \"http://a.example\"\n",
            &[],
            78,
            "limits.toml:2:7: servers.\"..\": the relay has a page of this name",
        ),
        (
            "[servers.a]\nurl = \"http://a.example:99999/secret\"\n",
            &[],
            78,
            "limits.toml:2:7: servers.a.url: no URL",
        ),
        (
            "[servers.a]\nurl = \"http://a.example\"\nheaders = { Host = \"secret\" }\n",
            &[],
            78,
            "limits.toml:3:13: servers.a.headers.Host",
        ),
        (
            "[servers.a]\nurl = \"http://a.example\"\nheaders = { X = \"se\\ncret\" }\n",
            &[],
            78,
            "limits.toml:3:17: servers.a.headers.X",
        ),
        (
            "[servers.a]\nurl = \"http://a.example\"\nheaders = { X = \"secret ${NO_SUCH}\" }\n",
            &[],
            78,
            "limits.toml:3:17: servers.a.headers.X: environment variable NO_SUCH is not set",
        ),
        (
            "[servers.a]\nurl = \"http://a.example\"\nheaders = { X = \"${LINES_OF_THE_TEST}\" }\n",
            &[],
            78,
            "limits.toml:3:17: servers.a.headers.X: with its variables it is no header",
        ),
        (
            "[servers.a]\ncommand = \"x\"\nheaders = { X = \"secret\" }\n",
            &[],
            78,
            "limits.toml:3:1: servers.a.headers: goes with url, which is missing",
        ),
        (
            "[servers.a]\nurl = \"http://a.example\"\n",
            &["--listen", &taken],
            69,
            "tip: another program listens there",
        ),
        (
            "[servers.a]\nurl = \"http://a.example\"\n",
            &["--listen", "192.0.2.1:80"],
            69,
            "tip: it is no address of this machine",
        ),
        // The URL that it prints, pasted into its own settings: each request went round until
        // there was no connection left.
        (
            &itself,
            &["--listen", &free],
            78,
            "limits.toml:2:7: servers.a.url: leads back to this relay",
        ),
        ("", &["--listen", "nowhere"], 2, "--listen"),
        ("", &["--memory", "31"], 2, "expected 32 to 1048576 (MiB)"),
        ("", &["--memory", "1G"], 2, "expected 32 to 1048576 (MiB)"),
    ] {
        let folder = TempDir::new().unwrap();
        let mut command = command(&folder, settings);
        command.env("LINES_OF_THE_TEST", "se\ncret");
        let output = command.args(args).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(says), "{settings}{stderr}");
        assert!(
            !stderr.contains("secret") && !stderr.contains("cret"),
            "{stderr}"
        );
        assert_eq!(output.status.code(), Some(code), "{stderr}");
    }
}

/// A token had to stand in the file itself.
#[tokio::test]
async fn a_header_of_the_settings_may_name_a_variable() {
    let mut server = Server::start(|_| Answer::json("{}")).await;
    let text = format!(
        "[servers.github]\nurl = {:?}\nheaders = {{ Authorization = \"Bearer ${{GITHUB_TOKEN}}\", \
         X-Place = \"${{PLACE:-here}}\" }}\n",
        server.url()
    );
    let served = Served::start_with(&text, |command| command.env("GITHUB_TOKEN", "hunter2"));
    assert_eq!(served.call().await.status, 200);
    let seen = server.next().await;
    assert_eq!(seen.header("authorization"), Some("Bearer hunter2"));
    assert_eq!(seen.header("x-place"), Some("here"));
}

// Elsewhere they are the system's own affair.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn only_https_needs_root_certificates() {
    let server = asking_once().await;
    let without = |command: &mut Command| {
        command
            .env("SSL_CERT_FILE", "/dev/null")
            .env("SSL_CERT_DIR", "/nonexistent");
    };
    let served = Served::start_with(&settings(&server.url(), 1), |command| {
        without(command);
        command
    });
    assert_eq!(served.call().await.text(), events([question(7), result(1)]));
    let folder = TempDir::new().unwrap();
    let mut command = command(&folder, &settings("https://a.example", 1));
    without(&mut command);
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("cannot set up TLS: "), "{stderr}");
    assert_eq!(output.status.code(), Some(69));
}

/// Systems give a process 256 or 1024 to begin with.
#[cfg(target_os = "linux")]
#[test]
fn it_lets_itself_have_the_open_files_that_it_may_need() {
    let folder = TempDir::new().unwrap();
    let settings = command(&folder, &settings("http://a.example", 1));
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -Sn 64; exec \"$@\"", "sh"])
        .arg(settings.get_program())
        .args(settings.get_args())
        .args(["--listen", "127.0.0.1:0"])
        .current_dir(&folder)
        .stdout(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    let mut url = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut url).unwrap();
    let limits = fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let mut numbers = line.unwrap().split_whitespace().skip(3);
    let mut next = || numbers.next().unwrap().parse::<u64>().unwrap();
    let (soft, hard) = (next(), next());
    assert_eq!(soft, hard.min(4096), "{url}");
}

/// Each was accepted and never matched, so that every request got 403.
#[test]
fn names_that_can_never_match_are_refused_with_their_form() {
    for (flag, value, form) in [
        (
            "--allow-host",
            "http://x",
            "without scheme, port and path; was x meant?",
        ),
        (
            "--allow-host",
            "relay.example:7460",
            "was relay.example meant?",
        ),
        (
            "--allow-origin",
            "app.example",
            "was https://app.example meant?",
        ),
        (
            "--allow-origin",
            "https://app.example/",
            "was https://app.example meant?",
        ),
        ("--listen", "7461", "was 127.0.0.1:7461 meant?"),
    ] {
        let folder = TempDir::new().unwrap();
        let ended = command(&folder, &settings("http://127.0.0.1:1/", 1))
            .args([flag, value])
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), Some(2), "{flag} {value}");
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(said.contains(form), "{said}");
    }
}

/// On every address, its clients come by a name as well, and were not told why they got 403.
#[tokio::test]
async fn who_listens_for_others_is_told_how_they_come_in() {
    let start = |args: &[&str]| {
        let args = args.to_vec();
        Served::start_listening(
            &settings("http://127.0.0.1:1/", 1),
            "0.0.0.0:0",
            move |command| command.args(&args),
        )
    };
    let served = start(&[]);
    let log = served.logged("is no loopback address");
    assert!(
        log.contains("put an address of this machine in its place"),
        "{log}"
    );
    assert!(
        log.contains("get 403 unless --allow-host gives it"),
        "{log}"
    );
    let port = served.urls[0].strip_prefix("http://0.0.0.0:").unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = |name, value| {
        let request = client
            .get(format!("http://127.0.0.1:{port}"))
            .header(name, value);
        async {
            soon(soon(request.send()).await.unwrap().text())
                .await
                .unwrap()
        }
    };
    let refused = request("host", "relay.example").await;
    assert!(refused.contains("--allow-host lets in a name"), "{refused}");
    let refused = request("origin", "https://app.example").await;
    assert!(refused.contains("--allow-origin allows one"), "{refused}");

    let named = start(&["--allow-host", "relay.example"]);
    let log = named.logged("is no loopback address");
    assert!(!log.contains("unless --allow-host"), "{log}");
}
