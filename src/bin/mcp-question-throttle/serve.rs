//! `serve`: the HTTP relay, in front of every server of the settings that has a URL.

mod help;

use std::{
    io::{self, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use mcp_question_throttle::{
    relay::serve::{DEFAULT_MEMORY, MOST_CONNECTIONS, Relay, RelayError, path_of},
    settings::Loaded,
    throttle::Throttle,
};
use tokio::net::TcpListener;

use crate::{
    addresses,
    exit::{self, Exit},
    settings,
};

/// Hold the servers of a file to the limits, between clients and their URLs
///
/// Listens for MCP over Streamable HTTP, at /NAME for each `[servers.NAME]` with a `url`, and passes
/// everything on, apart from questions over the limit, which are refused in the client's place.
#[derive(Debug, clap::Args)]
#[command(after_long_help = help::AFTER_HELP)]
pub(crate) struct Options {
    /// The settings file (TOML)
    #[arg(long, value_name = "FILE")]
    settings: PathBuf,

    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7460")]
    #[arg(value_parser = addresses::listen)]
    listen: SocketAddr,

    /// A host name to answer to, as relay.example, apart from loopback and the address listened on
    #[arg(long, value_name = "NAME", value_parser = addresses::host)]
    allow_host: Vec<String>,

    /// An origin whose pages may send requests, as https://app.example, apart from loopback
    #[arg(long, value_name = "ORIGIN", value_parser = addresses::origin)]
    allow_origin: Vec<String>,

    /// How much of messages may be held at once, over all connections
    #[arg(long, value_name = "MIB", default_value_t = DEFAULT_MEMORY / MIB)]
    #[arg(value_parser = memory)]
    memory: usize,
}

const MIB: usize = 1024 * 1024;

/// `--memory`: enough for one message of the longest, of a server that gets half.
fn memory(text: &str) -> Result<usize, String> {
    const VALID: std::ops::RangeInclusive<usize> = 32..=1024 * 1024;
    let mib = text.parse().ok().filter(|mib| VALID.contains(mib));
    mib.ok_or_else(|| format!("expected {} to {} (MiB)", VALID.start(), VALID.end()))
}

pub(crate) fn run(options: &Options) -> Exit {
    let (loaded, relay) = match prepare(options) {
        Ok(prepared) => prepared,
        Err(exit) => return exit,
    };
    // One thread sees what arrives in its order; several let requests overtake one another.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => {
            let exit = runtime.block_on(serve(options, loaded, relay));
            // Whatever still runs has had its time.
            runtime.shutdown_background();
            exit
        }
        Err(error) => exit::fail(Exit::Internal, error),
    }
}

fn prepare(options: &Options) -> Result<(Loaded, Relay), Exit> {
    let loaded = settings::load(Some(&options.settings)).map_err(|error| settings::fail(&error))?;
    let mut relay = Relay::new(&loaded)
        .map_err(|error| match error {
            RelayError::Client(_) => exit::fail(Exit::Unavailable, error),
            RelayError::NoServer => exit::fail(
                Exit::Config,
                format_args!("{}: {error}", options.settings.display()),
            ),
            _ => exit::fail(Exit::Config, error),
        })?
        .with_settings_file(Some(options.settings.clone()))
        .with_memory(options.memory.saturating_mul(MIB));
    for host in &options.allow_host {
        relay = relay.with_host(host);
    }
    for origin in &options.allow_origin {
        relay = relay.with_origin(origin);
    }
    Ok((loaded, relay))
}

/// Lets this process have as many files open as it may need, if it may: a stream takes a connection
/// to the client and one to the server.
#[cfg(unix)]
fn raise_open_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    const NEEDED: u64 = 4 * MOST_CONNECTIONS as u64;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return;
    };
    if soft < NEEDED && setrlimit(Resource::RLIMIT_NOFILE, NEEDED.min(hard), hard).is_err() {
        tracing::debug!("the number of open files stays {soft}");
    }
}

#[cfg(not(unix))]
const fn raise_open_files() {}

async fn serve(options: &Options, loaded: Loaded, relay: Relay) -> Exit {
    raise_open_files();
    let listening = async {
        let signals = signals::Signals::new()?;
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        Ok::<_, io::Error>((signals, listener, address))
    };
    let (mut signals, listener, address) = match listening.await {
        Ok(listening) => listening,
        Err(error) => {
            let reason = format_args!("cannot listen on {}: {error}", options.listen);
            let exit = exit::fail(Exit::Unavailable, reason);
            if let Some(tip) = tip_for(&error) {
                exit::tip(tip);
            }
            return exit;
        }
    };
    if let Err(error) = relay.check_address(address) {
        return exit::fail(Exit::Config, error);
    }
    if !address.ip().is_loopback() {
        warn_of_strangers(address, !options.allow_host.is_empty());
    }
    if let Err(error) = announce(address, &relay) {
        return exit::fail(Exit::Internal, format_args!("cannot print: {error}"));
    }
    let throttle = Arc::clone(relay.throttle());
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let mut end = Some(end);
    let serving = relay.serve(listener, async move {
        // Sent, or dropped with us: either way it is the end.
        let _ = ended.await;
    });
    tokio::pin!(serving);
    loop {
        tokio::select! {
            served = &mut serving => {
                return match served {
                    Ok(()) => Exit::Success,
                    Err(error) => exit::fail(Exit::Internal, error),
                };
            }
            signal = signals.next() => match signal {
                signals::Signal::Reload => reload(&options.settings, &loaded, &throttle),
                signals::Signal::End => match end.take() {
                    Some(end) => {
                        tracing::info!("ending, after the calls in flight");
                        // Nobody is left to be told only if serving has ended.
                        let _ = end.send(());
                    }
                    None => return Exit::Success,
                },
            }
        }
    }
}

/// What to do about an address that cannot be listened on.
fn tip_for(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::AddrInUse => Some(
            "another program listens there, a `serve` perhaps; --listen takes another address, and \
             its port 0 a free one",
        ),
        io::ErrorKind::AddrNotAvailable => Some("it is no address of this machine"),
        io::ErrorKind::PermissionDenied => {
            Some("ports below 1024 need rights of their own; --listen takes another one")
        }
        _ => None,
    }
}

/// Says who can come in, and how.
fn warn_of_strangers(address: SocketAddr, has_name: bool) {
    let every = if address.ip().is_unspecified() {
        "; in the URLs put an address of this machine in its place"
    } else {
        ""
    };
    let named = if has_name {
        ""
    } else {
        "; clients that come by a host name get 403 unless --allow-host gives it"
    };
    tracing::warn!(
        "{address} is no loopback address: whoever reaches it can use the servers, with the \
         headers of the settings{every}{named}"
    );
}

/// Prints the URL of each server.
fn announce(address: SocketAddr, relay: &Relay) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for server in relay.servers() {
        writeln!(out, "http://{address}{}", path_of(server))?;
    }
    out.flush()
}

/// Reads the limits again (D11). What is wrong changes nothing.
fn reload(file: &Path, started: &Loaded, throttle: &Throttle) {
    let loaded = match settings::load(Some(file)) {
        Ok(loaded) => loaded,
        Err(error) => {
            for line in error.to_string().lines() {
                tracing::error!("{line}");
            }
            tracing::error!("the settings were not read again: the old ones stay in force");
            return;
        }
    };
    throttle.update(loaded.settings());
    tracing::info!("the limits of {} are in force", file.display());
    if loaded.servers() != started.servers() {
        tracing::warn!(
            "servers, their URLs and headers are those of the start; to change them, start again"
        );
    }
}

#[cfg(unix)]
mod signals {
    use std::io;

    use tokio::signal::unix::{self, SignalKind, signal};

    /// What a signal asks for.
    pub(super) enum Signal {
        Reload,
        End,
    }

    pub(super) struct Signals {
        hangup: unix::Signal,
        terminate: unix::Signal,
        interrupt: unix::Signal,
    }

    impl Signals {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self {
                hangup: signal(SignalKind::hangup())?,
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
            })
        }

        pub(super) async fn next(&mut self) -> Signal {
            tokio::select! {
                _ = self.hangup.recv() => Signal::Reload,
                _ = self.terminate.recv() => Signal::End,
                _ = self.interrupt.recv() => Signal::End,
            }
        }
    }
}

#[cfg(not(unix))]
mod signals {
    use std::{future, io};

    /// What a signal asks for.
    pub(super) enum Signal {
        #[expect(dead_code, reason = "only Unix has a signal for it")]
        Reload,
        End,
    }

    pub(super) struct Signals;

    impl Signals {
        #[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
        pub(super) const fn new() -> io::Result<Self> {
            Ok(Self)
        }

        pub(super) async fn next(&mut self) -> Signal {
            match tokio::signal::ctrl_c().await {
                Ok(()) => Signal::End,
                Err(_) => future::pending().await,
            }
        }
    }
}
