//! `check`: validates settings, and shows those in force and where each came from.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use mcp_question_throttle::settings::{
    Endpoint, InForce, Level, Loaded, Origin, Problem, SettingsError, StatusPage,
    variables as settings_variables,
};
use serde_json::{Value, json};

use crate::{
    exit::{self, Exit},
    settings,
    style::{FAINT, GOOD, HEADER, NOTE, STRONG, WARNING},
};

/// Validate settings, and show those in force and where each came from
///
/// Exits with 0 if they are valid; warnings and notes change nothing in that.
#[derive(Debug, clap::Args)]
#[command(after_long_help = variables())]
pub(crate) struct Options {
    /// The settings file (TOML); without one, the defaults and the environment are checked
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,

    /// Print one JSON object, also for settings that are wrong
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Exit {
    let loaded = settings::load(options.settings.as_deref());
    let mut out = anstream::stdout().lock();
    let printed = match &loaded {
        Ok(loaded) if options.json => writeln!(out, "{}", valid_as_json(loaded)),
        Ok(loaded) => print(&mut out, loaded),
        Err(error) if options.json => writeln!(out, "{}", wrong_as_json(error)),
        Err(_) => Ok(()),
    };
    match loaded {
        Ok(_) => exit::after_printing(printed, Exit::Success),
        // With `--json` the errors are in the object, and here for whoever looks.
        Err(error) => settings::fail(&error),
    }
}

/// The environment variables, for `--help`.
fn variables() -> String {
    let mut help = format!(
        "{HEADER}Environment variables{HEADER:#} (above [proto] of the file, below a server's own\n\
         table), each with its setting:"
    );
    for (name, variable) in settings_variables() {
        help += &format!("\n  {variable}\n      {name}");
    }
    help
}

fn print(out: &mut impl Write, loaded: &Loaded) -> io::Result<()> {
    let servers = loaded.servers();
    let count = match servers.len() {
        0 => "no servers".to_owned(),
        1 => "1 server".to_owned(),
        many => format!("{many} servers"),
    };
    writeln!(out, "{GOOD}valid{GOOD:#}, with {count}")?;
    writeln!(
        out,
        "\n{HEADER}servers without a table of their own{HEADER:#}"
    )?;
    print_settings(out, &loaded.in_force(None))?;
    let page = status_page(loaded);
    writeln!(out, "\n{HEADER}status page of serve{HEADER:#}")?;
    writeln!(out, "  {}  {}  {}", page.0, page.1, page.2)?;
    for (name, server) in servers {
        let reached = reached(server.endpoint()).unwrap_or("connected by its host");
        let quoted = name.as_str();
        let muted = if loaded.settings().muted().contains(name) {
            ", muted"
        } else {
            ""
        };
        writeln!(
            out,
            "\n{HEADER}server {quoted:?}{HEADER:#} {FAINT}({reached}{muted}){FAINT:#}"
        )?;
        print_settings(out, &loaded.in_force(Some(name)))?;
    }
    let warnings = warnings(loaded);
    if !warnings.is_empty() {
        writeln!(out)?;
    }
    for (level, warning) in &warnings {
        let style = match level {
            Level::Warning => WARNING,
            _ => NOTE,
        };
        let level = level.as_str();
        writeln!(out, "{style}{level}:{style:#} {warning}")?;
    }
    Ok(())
}

/// What deserves a look, the more important first.
fn warnings(loaded: &Loaded) -> Vec<(Level, String)> {
    let of_settings = loaded.warnings();
    let of_settings = of_settings.iter().map(|it| (it.level(), it.to_string()));
    not_served(loaded).into_iter().chain(of_settings).collect()
}

/// Why `serve` would not start with servers that are valid otherwise.
#[cfg(feature = "serve")]
fn not_served(loaded: &Loaded) -> Option<(Level, String)> {
    use mcp_question_throttle::relay::serve::{Relay, RelayError};

    match Relay::new(loaded) {
        // Without a URL it is not meant to; and TLS is that of the machine it will run on.
        Ok(_) | Err(RelayError::NoServer | RelayError::Client(_)) => None,
        Err(error) => Some((Level::Warning, format!("`serve` would not start: {error}"))),
    }
}

#[cfg(not(feature = "serve"))]
const fn not_served(_loaded: &Loaded) -> Option<(Level, String)> {
    None
}

/// The setting of the status page: name, value, origin.
fn status_page(loaded: &Loaded) -> (&'static str, bool, Origin) {
    let name = StatusPage::MUTE_BUTTON;
    let origin = loaded.origin(None, name).cloned();
    let value = loaded.status_page().mute_button;
    (name, value, origin.unwrap_or(Origin::Default))
}

fn print_settings(out: &mut impl Write, settings: &[InForce]) -> io::Result<()> {
    let longest = |length: fn(&InForce) -> usize| settings.iter().map(length).max().unwrap_or(0);
    let name_width = longest(|setting| setting.name.chars().count());
    let value_width = longest(|setting| value(setting).chars().count());
    for setting in settings {
        let style = match setting.origin {
            Origin::Default => FAINT,
            _ => STRONG,
        };
        writeln!(
            out,
            "  {:name_width$}  {style}{:<value_width$}  {}{style:#}",
            setting.name,
            value(setting),
            setting.origin
        )?;
    }
    Ok(())
}

fn value(setting: &InForce) -> String {
    match &setting.value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.as_u64() == Some(0) => "0 (off)".to_owned(),
        other => other.to_string(),
    }
}

/// By what a server is reached; never the command or the URL itself, which may hold secrets.
const fn reached(endpoint: Option<&Endpoint>) -> Option<&'static str> {
    match endpoint {
        Some(Endpoint::Command(_)) => Some("command"),
        Some(Endpoint::Url(_)) => Some("url"),
        _ => None,
    }
}

fn valid_as_json(loaded: &Loaded) -> Value {
    let settings = |server| -> Vec<Value> {
        let in_force = loaded.in_force(server).into_iter();
        in_force
            .map(|it| json!({"name": it.name, "value": it.value, "origin": it.origin}))
            .collect()
    };
    let servers: Vec<_> = loaded
        .servers()
        .iter()
        .map(|(name, server)| {
            json!({
                "name": name,
                "reachedBy": reached(server.endpoint()),
                "muted": loaded.settings().muted().contains(name),
                "settings": settings(Some(name)),
            })
        })
        .collect();
    let page = status_page(loaded);
    let warnings = warnings(loaded);
    let warnings = warnings
        .iter()
        .map(|(level, message)| json!({"level": level.as_str(), "message": message}));
    json!({
        "ok": true,
        "settings": settings(None),
        "statusPage": [{"name": page.0, "value": page.1, "origin": page.2}],
        "servers": servers,
        "warnings": warnings.collect::<Vec<_>>(),
    })
}

fn wrong_as_json(error: &SettingsError) -> Value {
    let errors: Vec<_> = match error.problems() {
        [] => vec![json!({"message": error.to_string()})],
        problems => problems.iter().map(problem_as_json).collect(),
    };
    json!({"ok": false, "errors": errors})
}

fn problem_as_json(problem: &Problem) -> Value {
    let mut object = json!({"key": problem.key(), "message": problem.fault().to_string()});
    match problem.at() {
        Origin::File {
            file, line, column, ..
        } => {
            object["file"] = json!(file);
            object["line"] = json!(line);
            object["column"] = json!(column);
        }
        Origin::Variable(name) => object["variable"] = json!(name),
        _ => {}
    }
    object
}
