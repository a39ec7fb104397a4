//! `status`: what a running `serve` counts, in a terminal.

mod print;

use std::{io::Write, time::Duration};

use clap::ValueHint;
use reqwest::{Client, Url};
use serde_json::Value;

use crate::{
    addresses,
    exit::{self, Exit},
};

/// How often it is asked for anew with `--watch`.
const EVERY: Duration = Duration::from_secs(1);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// See which servers of a running `serve` have been asking
///
/// Shows for each server and kind its window, what was admitted and refused, and the last questions:
/// the same as the status page.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where `serve` listens
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7460/")]
    #[arg(value_hint = ValueHint::Url, value_parser = addresses::status)]
    url: Url,

    /// Print the JSON of /status, one line each time
    #[arg(long)]
    json: bool,

    /// Go on, once a second, until it is interrupted
    #[arg(long)]
    watch: bool,

    /// How many of each server's last questions to show
    #[arg(long, value_name = "N", default_value_t = 5)]
    recent: usize,
}

pub(crate) fn run(options: &Options) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(show(options)),
        Err(error) => exit::fail(Exit::Internal, error),
    }
}

async fn show(options: &Options) -> Exit {
    let url = &options.url;
    let client = match Client::builder().timeout(PATIENCE).no_proxy().build() {
        Ok(client) => client,
        Err(error) => return exit::fail(Exit::Internal, error),
    };
    loop {
        let mut status = match fetch(&client, url).await {
            Ok(status) => status,
            Err(reason) => {
                let reason = format_args!("no status at {url}: {reason}");
                return exit::fail(Exit::Unavailable, reason);
            }
        };
        let mut out = anstream::stdout().lock();
        let printed = if options.json {
            writeln!(out, "{status}")
        } else {
            print::disarm(&mut status);
            print::status(&mut out, &status, options.recent, options.watch)
        };
        let printed = printed.and_then(|()| out.flush());
        drop(out);
        if printed.is_err() || !options.watch {
            return exit::after_printing(printed, Exit::Success);
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn fetch(client: &Client, url: &Url) -> Result<Value, String> {
    let answer = client
        .get(url.clone())
        .send()
        .await
        .map_err(|error| reason(&error))?;
    let status = answer.status();
    if !status.is_success() {
        return Err(format!("the answer is {status}"));
    }
    let text = answer.text().await.map_err(|error| reason(&error))?;
    let value: Value = serde_json::from_str(&text)
        .map_err(|_| "what answers there is not this program".to_owned())?;
    match value["servers"].is_array() {
        true => Ok(value),
        false => Err("what answers there is not this program".to_owned()),
    }
}

/// The innermost reason: the others only say that a request failed.
fn reason(error: &reqwest::Error) -> String {
    let mut reason: &dyn std::error::Error = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    reason.to_string()
}
