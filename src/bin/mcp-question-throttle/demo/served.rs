//! `demo --serve`: the HTTP relay with flooding servers behind it, for its status page.
//!
//! Servers, relay and client are one process here, and talk over loopback as they would from
//! three. The client answers every question after a moment, as a person who is quick would.

mod client;
mod servers;

use std::{io::Write, net::SocketAddr};

use mcp_question_throttle::{
    relay::serve::{Relay, path_of},
    settings::{self, Environment},
};
use tokio::{net::TcpListener, signal};

use crate::exit::{self, Exit};

/// How the servers are called, and what they do.
const SERVERS: [(&str, Conduct); 3] = [
    ("flooding", Conduct::Floods),
    ("polite", Conduct::AsksNowAndThen),
    ("quiet", Conduct::IsSilent),
];

/// What a server of the demo does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conduct {
    /// Asks within one call, as long as it lasts.
    Floods,
    /// Asks a question every few seconds, outside of any call.
    AsksNowAndThen,
    IsSilent,
}

/// Serves until it is interrupted. `questions` ends the flood after so many.
pub(super) fn run(listen: SocketAddr, questions: Option<u32>) -> Exit {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => {
            let exit = runtime.block_on(serve(listen, questions));
            runtime.shutdown_background();
            exit
        }
        Err(error) => exit::fail(Exit::Internal, error),
    }
}

async fn serve(listen: SocketAddr, questions: Option<u32>) -> Exit {
    let unavailable = |error| {
        let reason = format_args!("cannot listen on {listen}: {error}");
        exit::fail(Exit::Unavailable, reason)
    };
    let listener = match TcpListener::bind(listen).await {
        Ok(listener) => listener,
        Err(error) => return unavailable(error),
    };
    let address = match listener.local_addr() {
        Ok(address) => address,
        Err(error) => return unavailable(error),
    };
    let relay = match relay(questions).await {
        Ok(relay) => relay,
        Err(error) => return exit::fail(Exit::Internal, error),
    };
    for (name, server) in SERVERS.iter().zip(relay.servers()) {
        let url = format!("http://{address}{}", path_of(server));
        tokio::spawn(client::keep_calling(url, name.1));
    }
    let mut out = anstream::stdout().lock();
    let printed = writeln!(
        out,
        "status page  http://{address}/\nmetrics      http://{address}/metrics\n\n\
         A flooding server is behind it, a polite one and a quiet one. Ctrl-C ends it."
    )
    .and_then(|()| out.flush());
    drop(out);
    if printed.is_err() {
        return exit::after_printing(printed, Exit::Success);
    }
    let end = async {
        // Without a signal to wait for, it ends when it is killed.
        if signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    match relay.serve(listener, end).await {
        Ok(()) => Exit::Success,
        Err(error) => exit::fail(Exit::Internal, error),
    }
}

/// The relay in front of the demo's servers.
async fn relay(questions: Option<u32>) -> Result<Relay, Box<dyn std::error::Error>> {
    let mut text = String::from("[status]\nmuteButton = true\n");
    for (name, conduct) in SERVERS {
        let url = servers::start(conduct, questions).await?;
        text += &format!("[servers.{name}]\nurl = {url:?}\n");
    }
    let loaded = settings::parse("demo", &text, &Environment::empty())?;
    Ok(Relay::new(&loaded)?)
}
