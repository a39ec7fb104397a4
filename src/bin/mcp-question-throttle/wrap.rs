//! `wrap`: the stdio relay, in front of one server's command.

use std::{
    ffi::OsString,
    path::PathBuf,
    process::{self, ExitCode},
    sync::Arc,
};

use mcp_question_throttle::{
    clock,
    limits::ServerName,
    relay::{Judge, McpConfig, wrap},
    settings::{Command, Endpoint, Loaded},
    throttle::Throttle,
};

use crate::{
    exit::{self, Exit},
    settings,
};

const AFTER_HELP: &str = r#"For a client that starts its servers by itself, put this command in front of the server's own.
A refusal shows in the log that the client keeps of the server's error output.

Claude Desktop (claude_desktop_config.json), Claude Code (.mcp.json), Cursor (.cursor/mcp.json):

  {
    "mcpServers": {
      "github": {
        "command": "mcp-question-throttle",
        "args": ["wrap", "--server", "github", "--", "npx", "-y", "SERVER"],
        "env": { "TOKEN": "as before" }
      }
    }
  }

Claude Code, by command:

  claude mcp add github -- mcp-question-throttle wrap --server github -- npx -y SERVER

VS Code (.vscode/mcp.json):

  {
    "servers": {
      "github": {
        "type": "stdio",
        "command": "mcp-question-throttle",
        "args": ["wrap", "--server", "github", "--", "npx", "-y", "SERVER"]
      }
    }
  }

Zed (settings.json):

  {
    "context_servers": {
      "github": {
        "source": "custom",
        "command": "mcp-question-throttle",
        "args": ["wrap", "--server", "github", "--", "npx", "-y", "SERVER"]
      }
    }
  }

goose (config.yaml):

  extensions:
    github:
      type: stdio
      enabled: true
      name: github
      cmd: mcp-question-throttle
      args: [wrap, --server, github, --, npx, -y, SERVER]

Codex (config.toml):

  [mcp_servers.github]
  command = "mcp-question-throttle"
  args = ["wrap", "--server", "github", "--", "npx", "-y", "SERVER"]

Clients start servers in folders of their own, and some with another PATH than your shell's: give
the settings file, and this command if it is not found, by an absolute path. For a log in JSON put
"--log-format", "json" before the "--".

When a server has asked too often, two lines of the log say so:

  WARN ... question refused: proto.elicitationPerMinute allows 30 per minute; retry in 42 s ...
  WARN ... server "github" asks more often than it may; to admit more, raise ...

Of the refusals by one limit in a window, the 1st, the 10th, the 100th and so on are logged.

What a server writes that is no message passes as it is: half a line, bad UTF-8, NUL bytes, CR LF,
lines of any length. If a client could read a question out of it, it is withheld, with a warning. A
server that leaves 4 MiB of refusals unread is not read either until it reads; a client that does
not read is waited for. When a server dies, what it wrote before is passed on.

Exit code: that of the server, or 128 and the number of the signal that ended it. Errors of our own
end with the codes that `mcp-question-throttle --help` lists; from 64 up, few servers use them.

The windows are those of this process: a server that ends and is started again starts full, and two
clients have two sets. When the client closes our input, the server's is closed; 5 s later it gets
SIGTERM, and 1.5 s after a SIGTERM, ours or the client's, SIGKILL."#;

/// Hold a server to the limits, between a client and its command
///
/// Starts COMMAND and passes everything between it and the client, apart from questions over the
/// limit, which are refused in the client's place.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct Options {
    /// The server's name in the settings: its limits are those of `[servers.NAME.proto]`
    #[arg(long, value_name = "NAME")]
    server: String,

    /// The settings file (TOML); without one, the defaults and the environment hold
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,

    /// A client's configuration (JSON, "mcpServers") to take the command of NAME from
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    mcp_config: Option<PathBuf>,

    /// The server's command; without one, that of the settings or of --mcp-config
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(options: &Options) -> ExitCode {
    match prepare(options) {
        Ok((command, judge)) => match wrap::wrap(command, judge) {
            Ok(outcome) => outcome.code().into(),
            Err(error @ wrap::WrapError::Start { .. }) => {
                let exit = exit::fail(Exit::Unavailable, error);
                if let [only] = &options.command[..]
                    && only.to_string_lossy().contains(' ')
                {
                    eprintln!("  tip: give each word by itself, as in `-- npx -y SERVER`");
                }
                exit.into()
            }
            Err(error) => exit::fail(Exit::Internal, error).into(),
        },
        Err(exit) => exit.into(),
    }
}

fn prepare(options: &Options) -> Result<(process::Command, Judge), Exit> {
    let name = ServerName::new(options.server.as_str())
        .map_err(|error| exit::fail(Exit::Usage, format_args!("--server: {error}")))?;
    let file = options.settings.as_deref();
    let loaded = settings::load(file).map_err(|error| settings::fail(&error))?;
    let command = command(options, &name, &loaded)?;
    warn_of_a_slip(&name, &loaded);
    let throttle = Arc::new(Throttle::new(loaded.into_settings(), clock::now()));
    let judge = Judge::new(throttle.session(name)).with_settings_file(options.settings.clone());
    Ok((command, judge))
}

/// Says that the settings have no server of this name, if they have one that is nearly the same:
/// the limits that were meant would not hold, and nobody would notice.
fn warn_of_a_slip(name: &ServerName, loaded: &Loaded) {
    let servers = loaded.servers();
    if servers.get(name).is_some() {
        return;
    }
    let found = name.as_str().to_lowercase();
    let near = servers.keys().find(|known| {
        let distance = strsim::damerau_levenshtein(&known.as_str().to_lowercase(), &found);
        distance * 3 <= found.len()
    });
    if let Some(near) = near {
        tracing::warn!(
            "the settings have no server {:?}, so the limits of [proto] hold; was {:?} meant?",
            name.as_str(),
            near.as_str()
        );
    }
}

fn command(
    options: &Options,
    name: &ServerName,
    loaded: &Loaded,
) -> Result<process::Command, Exit> {
    if let Some((program, args)) = options.command.split_first() {
        let mut command = process::Command::new(program);
        command.args(args);
        return Ok(command);
    }
    let missing = |place: &str| {
        exit::fail(
            Exit::Usage,
            format_args!("no command for server {:?}: {place}", name.as_str()),
        )
    };
    let endpoint = if let Some(file) = &options.mcp_config {
        let config = McpConfig::load(file).map_err(|error| {
            let exit = if error.is_unreadable() {
                Exit::NoInput
            } else {
                Exit::Config
            };
            exit::fail(exit, error)
        })?;
        let endpoint = config.endpoint(name.as_str()).cloned();
        endpoint.ok_or_else(|| {
            let known: Vec<_> = config.names().map(|name| format!("{name:?}")).collect();
            missing(&format!("{} has only {}", file.display(), known.join(", ")))
        })?
    } else {
        let entry = loaded.servers().get(name);
        let endpoint = entry.and_then(|server| server.endpoint()).cloned();
        endpoint.ok_or_else(|| {
            missing("give it after `--`, as `command` in the settings, or by --mcp-config")
        })?
    };
    match endpoint {
        Endpoint::Command(command) => Ok(child_of(&command)),
        _ => Err(missing(
            "it is reached by URL: put `serve` in front of it, only commands can be wrapped",
        )),
    }
}

fn child_of(command: &Command) -> process::Command {
    let mut child = process::Command::new(command.program());
    child.args(command.args()).envs(command.env());
    child
}
