//! `wrap`: the stdio relay, in front of one server's command.

mod chain;
mod help;

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{self, ExitCode},
    sync::Arc,
};

use mcp_question_throttle::{
    clock,
    limits::ServerName,
    relay::{
        Judge, McpConfig,
        wrap::{self, WrapError},
    },
    settings::{Command, Endpoint, Loaded},
    throttle::Throttle,
};

use self::chain::Link;
use crate::{
    exit::{self, Exit},
    settings,
};

/// Hold a server to the limits, between a client and its command
///
/// Starts COMMAND and passes everything between it and the client, apart from questions over the
/// limit, which are refused in the client's place.
#[derive(Debug, clap::Args)]
#[command(after_long_help = help::AFTER_HELP)]
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
            Err(error @ WrapError::Start { .. }) => {
                let tip = tip_for(&error);
                let exit = exit::fail(Exit::Unavailable, error);
                if let Some(tip) = tip {
                    exit::tip(tip);
                }
                exit.into()
            }
            Err(error) => exit::fail(Exit::Internal, error).into(),
        },
        Err(exit) => exit.into(),
    }
}

/// What to do about a program that cannot be started.
fn tip_for(error: &WrapError) -> Option<&'static str> {
    let WrapError::Start { program, error, .. } = error else {
        return None;
    };
    let is_path = program.contains('/');
    match error.kind() {
        _ if program.starts_with('-') => {
            Some("options of `wrap` stand before the `--`, and after it the server's command alone")
        }
        io::ErrorKind::NotFound if program.contains(' ') => {
            Some("give each word by itself, as in `-- npx -y SERVER`")
        }
        io::ErrorKind::NotFound if is_path => {
            Some("there is no such file in this folder, or what its first line names is not there")
        }
        io::ErrorKind::NotFound => Some(
            "it is in no folder of PATH, and clients start servers with a PATH of their own: give \
             its absolute path, as `which` prints it",
        ),
        io::ErrorKind::PermissionDenied => Some(
            "it is no program: make it one by `chmod +x`, or give what runs it, as in `-- python3 \
             server.py`",
        ),
        _ => None,
    }
}

fn prepare(options: &Options) -> Result<(process::Command, Judge), Exit> {
    let name = ServerName::new(options.server.as_str())
        .map_err(|error| exit::fail(Exit::Usage, format_args!("--server: {error}")))?;
    let file = options.settings.as_deref();
    let loaded = settings::load(file).map_err(|error| settings::fail(&error))?;
    let command = command(options, &name, &loaded)?;
    if let Some(file) = file {
        warn_of_a_slip(&name, &loaded, file);
    }
    let throttle = Arc::new(Throttle::new(loaded.into_settings(), clock::now()));
    let judge = Judge::new(throttle.session(name)).with_settings_file(options.settings.clone());
    Ok((command, judge))
}

/// How many names of other servers are told.
const TOLD: usize = 5;

/// Says that the settings have no server of this name, if they have limits for others: those that
/// were meant would not hold, and nobody would notice.
fn warn_of_a_slip(name: &ServerName, loaded: &Loaded, file: &Path) {
    let servers = loaded.servers();
    let settings = loaded.settings();
    let has_limits = settings.servers().next().is_some() || !settings.muted().is_empty();
    if servers.contains_key(name) || !has_limits {
        return;
    }
    let found = name.as_str().to_lowercase();
    let near = servers.keys().find(|known| {
        let distance = strsim::damerau_levenshtein(&known.as_str().to_lowercase(), &found);
        distance * 3 <= found.len()
    });
    let known: Vec<_> = servers
        .keys()
        .map(|it| format!("{:?}", it.as_str()))
        .collect();
    let others = match known.len().saturating_sub(TOLD) {
        0 => known.join(", "),
        more => format!("{} and {more} more", known[..TOLD].join(", ")),
    };
    let meant = near.map_or_else(String::new, |near| {
        format!("; was {:?} meant?", near.as_str())
    });
    tracing::warn!(
        "no [servers.{:?}] in {}, so the limits of [proto] hold; it has {others}{meant}",
        name.as_str(),
        file.display()
    );
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
    let (endpoint, file) = match (&options.mcp_config, &options.settings) {
        (Some(file), _) => {
            let endpoint = of_client(name, file)?;
            let endpoint = endpoint.map_err(|known| {
                missing(&format!("{} has only {}", file.display(), known.join(", ")))
            })?;
            (endpoint, Some(file))
        }
        (None, file) => {
            let entry = loaded.servers().get(name);
            let endpoint = entry.and_then(|server| server.endpoint()).cloned();
            let endpoint = endpoint.ok_or_else(|| {
                missing("give it after `--`, as `command` in the settings, or by --mcp-config")
            })?;
            (endpoint, file.as_ref())
        }
    };
    match endpoint {
        Endpoint::Command(command) => child_of(&command, name, file.map(PathBuf::as_path)),
        _ => Err(missing(
            "it is reached by URL: put `serve` in front of it, only commands can be wrapped",
        )),
    }
}

/// How a client reaches the server, or the names of those it knows.
fn of_client(name: &ServerName, file: &Path) -> Result<Result<Endpoint, Vec<String>>, Exit> {
    let endpoint = McpConfig::load(file).and_then(|config| {
        let endpoint = config.endpoint(name.as_str())?;
        Ok(endpoint.ok_or_else(|| config.names().map(|name| format!("{name:?}")).collect()))
    });
    endpoint.map_err(|error| {
        let exit = if error.is_unreadable() {
            Exit::NoInput
        } else {
            Exit::Config
        };
        exit::fail(exit, error)
    })
}

/// The command of an entry of `file`, which must not be the entry that started us.
fn child_of(
    command: &Command,
    name: &ServerName,
    file: Option<&Path>,
) -> Result<process::Command, Exit> {
    let mut child = process::Command::from(command);
    let wrong = |what: &str| {
        let server = name.as_str();
        let file = file.unwrap_or(Path::new("")).display();
        exit::fail(
            Exit::Config,
            format_args!("{file}: server {server:?}: {what}"),
        )
    };
    if command.cwd().is_some_and(|folder| !folder.is_dir()) {
        return Err(wrong("cwd: expected a folder that is there"));
    }
    if let Some(file) = file {
        let link = Link::new(file, name);
        if link.has_begun() {
            return Err(wrong(
                "its command starts this `wrap` again, and so on without end; give the server's \
                 own command there, after `--`",
            ));
        }
        link.add_to(&mut child);
    }
    Ok(child)
}
