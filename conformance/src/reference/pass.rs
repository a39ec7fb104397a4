//! A relay over HTTP that does as the contract for relays says, and bounds nothing: bytes go through
//! it as they come. It shows that servers are reached through a relay, and what is found then.

use std::{collections::BTreeMap, net::SocketAddr};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::variable;

/// Passes bytes on, for as long as the process lives.
///
/// # Errors
///
/// What is wrong with the configuration, or with a port.
pub(crate) async fn run() -> Result<(), String> {
    let servers = variable("MCP_CONFORMANCE_SERVERS")?;
    let servers: BTreeMap<String, String> =
        serde_json::from_str(&servers).map_err(|error| format!("the servers: {error}"))?;
    let mut ports = JoinSet::new();
    for (name, url) in servers {
        let (upstream, path) =
            parts(&url).ok_or_else(|| format!("no URL of the runner: {url:?}"))?;
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        println!("{name} http://{address}/{path}");
        ports.spawn(pass(listener, upstream));
    }
    ports.join_all().await;
    Ok(())
}

/// The address and the path of a URL that the runner gave.
fn parts(url: &str) -> Option<(SocketAddr, &str)> {
    let (address, path) = url.strip_prefix("http://")?.split_once('/')?;
    Some((address.parse().ok()?, path))
}

async fn pass(listener: TcpListener, upstream: SocketAddr) {
    while let Ok((mut client, _)) = listener.accept().await {
        tokio::spawn(async move {
            // Either end may go first; then there is no one left to tell.
            if let Ok(mut server) = TcpStream::connect(upstream).await {
                let _ = copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_the_runner_has_an_address_and_a_path() {
        let address = SocketAddr::from(([127, 0, 0, 1], 7));
        assert_eq!(parts("http://127.0.0.1:7/alpha"), Some((address, "alpha")));
        assert_eq!(parts("https://127.0.0.1:7/alpha"), None);
        assert_eq!(parts("http://example.com/alpha"), None);
    }
}
