//! The server's side: requests to its URL.

use std::{
    collections::HashMap,
    error::Error,
    fmt,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use axum::http::{HeaderMap, Method, StatusCode, header::LOCATION};
use bytes::Bytes;
use reqwest::{Body, Client, Response, Url, redirect};

use super::{guard::is_loopback, order::Opening};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// A peer that is gone without a word is noticed by this.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// Redirects that are followed for one request.
const MOST_REDIRECTS: usize = 5;

/// Why a server did not answer in a way that can be passed on. It names no more of a URL than the
/// host: the rest may hold a secret.
#[derive(Debug)]
pub(super) enum Failure {
    /// No response came.
    Unreachable { host: String, error: reqwest::Error },
    /// It would have led around the relay.
    Redirect {
        host: String,
        status: StatusCode,
        to: String,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { host, error } => {
                write!(f, "no answer from {host}: {}", Causes(error))
            }
            Self::Redirect { host, status, to } => write!(
                f,
                "{host} redirects to {to} ({}), which would lead around the relay: only 307 and \
                 308 to the same origin are followed",
                status.as_u16()
            ),
        }
    }
}

/// The HTTP clients of a relay, made when a server needs one: servers share their connections.
#[derive(Debug, Default)]
pub(super) struct Clients {
    /// By whether it is for loopback, and whether for TLS.
    made: HashMap<(bool, bool), Client>,
}

impl Clients {
    fn for_url(&mut self, url: &Url) -> Result<Client, reqwest::Error> {
        let is_near = url
            .host_str()
            .is_some_and(|host| is_loopback(host.trim_matches(['[', ']'])));
        let needs_tls = url.scheme() == "https";
        if let Some(client) = self.made.get(&(is_near, needs_tls)) {
            return Ok(client.clone());
        }
        let mut builder = Client::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT)
            .tcp_keepalive(KEEPALIVE)
            .tcp_nodelay(true);
        if is_near {
            // No proxy of the environment can reach it.
            builder = builder.no_proxy();
        }
        if !needs_tls {
            // A machine without root certificates is no hindrance.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build()?;
        self.made.insert((is_near, needs_tls), client.clone());
        Ok(client)
    }
}

/// An error with all its causes: HTTP errors leave them out.
pub(super) struct Causes<'a>(pub(super) &'a dyn Error);

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

/// A server behind a URL.
#[derive(Clone)]
pub(super) struct Upstream {
    client: Client,
    url: Url,
    /// Sent where the client has no header of the name.
    headers: HeaderMap,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").finish_non_exhaustive()
    }
}

impl Upstream {
    /// # Errors
    ///
    /// When TLS cannot be set up.
    pub(super) fn new(
        clients: &mut Clients,
        url: Url,
        headers: HeaderMap,
    ) -> Result<Self, reqwest::Error> {
        Ok(Self {
            client: clients.for_url(&url)?,
            url,
            headers,
        })
    }

    /// Whether its URL is that of a listener at `address`.
    pub(super) fn leads_to(&self, address: SocketAddr) -> bool {
        let Some(host) = self.url.host_str() else {
            return false;
        };
        let ip: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        let is_near = is_loopback(host.trim_matches(['[', ']']));
        let is_its_host = match ip {
            Some(ip) => ip == address.ip() || (is_near && address.ip().is_unspecified()),
            None => is_near && (address.ip().is_loopback() || address.ip().is_unspecified()),
        };
        is_its_host && self.url.port_or_known_default() == Some(address.port())
    }

    /// Sends a request, and follows redirects that stay at the server. It is on its way once
    /// `opening` is dropped.
    pub(super) async fn send(
        &self,
        method: &Method,
        query: Option<&str>,
        headers: &HeaderMap,
        body: &Bytes,
        mut opening: Option<Opening>,
    ) -> Result<Response, Failure> {
        let mut url = self.url.clone();
        if let Some(query) = query {
            let both = match url.query() {
                Some(own) => format!("{own}&{query}"),
                None => query.to_owned(),
            };
            url.set_query(Some(&both));
        }
        for _ in 0..=MOST_REDIRECTS {
            let body = match opening.take() {
                Some(opening) if body.is_empty() => Some(Body::wrap(opening)),
                _ if body.is_empty() && method != Method::POST => None,
                _ => Some(body.clone().into()),
            };
            let response = self.once(method, url.clone(), headers, body).await?;
            let status = response.status();
            let Some(to) = location(&url, &response) else {
                return Ok(response);
            };
            let to_itself = to
                .as_ref()
                .is_some_and(|to| to.origin() == self.url.origin());
            let is_same_request = matches!(
                status,
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
            );
            match to {
                Some(to) if to_itself && is_same_request => url = to,
                to => return Err(self.redirect(status, to.as_ref())),
            }
        }
        Err(self.redirect(StatusCode::TEMPORARY_REDIRECT, Some(&url)))
    }

    /// Sends a request once: a redirect is an answer like any other.
    pub(super) async fn once(
        &self,
        method: &Method,
        url: Url,
        headers: &HeaderMap,
        body: Option<Body>,
    ) -> Result<Response, Failure> {
        let mut all = headers.clone();
        for (name, value) in &self.headers {
            if !headers.contains_key(name) {
                all.append(name, value.clone());
            }
        }
        let mut request = self.client.request(method.clone(), url).headers(all);
        if let Some(body) = body {
            request = request.body(body);
        }
        request.send().await.map_err(|error| Failure::Unreachable {
            host: self.host(),
            error: error.without_url(),
        })
    }

    fn host(&self) -> String {
        host_of(&self.url)
    }

    fn redirect(&self, status: StatusCode, to: Option<&Url>) -> Failure {
        Failure::Redirect {
            host: self.host(),
            status,
            to: to.map_or_else(|| "nowhere".to_owned(), host_of),
        }
    }
}

/// Where a response redirects; `Some(None)` if it does so to nowhere.
fn location(from: &Url, response: &Response) -> Option<Option<Url>> {
    // 304 answers a condition, and the other codes without a place are answers as well.
    if !response.status().is_redirection() || response.status() == StatusCode::NOT_MODIFIED {
        return None;
    }
    let to = response.headers().get(LOCATION);
    Some(to.and_then(|to| from.join(to.to_str().ok()?).ok()))
}

fn host_of(url: &Url) -> String {
    match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_owned(),
        (None, _) => "nowhere".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_the_relays_own_is_known() {
        let leads = |url: &str, address: &str| {
            let upstream = Upstream::new(
                &mut Clients::default(),
                url.parse().unwrap(),
                HeaderMap::new(),
            );
            upstream.unwrap().leads_to(address.parse().unwrap())
        };
        for (url, address) in [
            ("http://127.0.0.1:7460/a", "127.0.0.1:7460"),
            ("http://localhost:7460/a", "127.0.0.1:7460"),
            ("http://localhost/a", "[::]:80"),
            ("http://[::1]:7460/", "[::1]:7460"),
            ("http://127.0.0.1:7460/a", "0.0.0.0:7460"),
        ] {
            assert!(leads(url, address), "{url} {address}");
        }
        for (url, address) in [
            ("http://127.0.0.1:7461/a", "127.0.0.1:7460"),
            ("http://127.0.0.2:7460/a", "127.0.0.1:7460"),
            ("http://a.example:7460/a", "127.0.0.1:7460"),
            ("http://192.0.2.1:7460/a", "0.0.0.0:7460"),
        ] {
            assert!(!leads(url, address), "{url} {address}");
        }
    }
}
