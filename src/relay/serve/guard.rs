//! Who may talk to the relay: nobody whom a web page sent.
//!
//! A page of any site can make a browser send requests to a loopback address, and by DNS
//! rebinding read the answers. `Host` names the page's site then, and `Origin` too.

use std::net::{IpAddr, SocketAddr};

use axum::http::{
    HeaderMap, Uri,
    header::{HOST, ORIGIN},
    uri::Authority,
};

/// The hosts and origins that are let in.
#[derive(Clone, Debug, Default)]
pub(super) struct Guard {
    listens_on: Option<IpAddr>,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Guard {
    pub(super) fn listening_on(mut self, address: SocketAddr) -> Self {
        self.listens_on = Some(address.ip());
        self
    }

    pub(super) fn with_host(mut self, host: String) -> Self {
        self.hosts.push(host);
        self
    }

    pub(super) fn with_origin(mut self, origin: String) -> Self {
        self.origins.push(origin);
        self
    }

    /// Whether a request may come in; if not, why.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), &'static str> {
        const HOST_REASON: &str = "the Host is neither a loopback address nor one listened \
                                   on; --allow-host lets in a name";
        const ORIGIN_REASON: &str = "the Origin is neither a loopback address nor one allowed; \
                                     --allow-origin allows one";
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err("a request has one Host");
        };
        let host = host.to_str().ok().and_then(|host| host.parse().ok());
        let named = host.is_some_and(|host| self.is_ours(&host));
        // A request in absolute form names its host in the target.
        if !named || uri.authority().is_some_and(|it| !self.is_ours(it)) {
            return Err(HOST_REASON);
        }
        let allowed = |origin: &str| {
            let loopback = || {
                let origin: Option<Uri> = origin.parse().ok();
                origin.is_some_and(|origin| {
                    origin.scheme_str().is_some()
                        && origin
                            .authority()
                            .is_some_and(|it| is_loopback(host_of(it)))
                })
            };
            self.origins.iter().any(|one| one == origin) || loopback()
        };
        for origin in headers.get_all(ORIGIN) {
            if !origin.to_str().is_ok_and(allowed) {
                return Err(ORIGIN_REASON);
            }
        }
        Ok(())
    }

    fn is_ours(&self, authority: &Authority) -> bool {
        let host = host_of(authority);
        let listens_on = || {
            let address: Option<IpAddr> = host.parse().ok();
            match (address, self.listens_on) {
                // Bound to every address, any of them is one; a rebound name is none.
                (Some(_), Some(listens_on)) if listens_on.is_unspecified() => true,
                (address, listens_on) => address.is_some() && address == listens_on,
            }
        };
        let listed = || self.hosts.iter().any(|one| one.eq_ignore_ascii_case(host));
        !authority.as_str().contains('@') && (is_loopback(host) || listens_on() || listed())
    }
}

/// Whether a request for a server comes from a program; if not, why.
///
/// A link and an image name no `Origin`, wherever they stand. What a server answers to a link would
/// be a page of the relay's own origin, which may read the status and all other servers, and with
/// an image any site could send requests with the headers of the settings. Browsers say so.
pub(super) fn is_of_a_program(headers: &HeaderMap) -> Result<(), &'static str> {
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|it| it == value);
    if is("sec-fetch-mode", "navigate") {
        return Err("a server is no page: give its URL to an MCP client");
    }
    if is("sec-fetch-site", "cross-site") && !headers.contains_key(ORIGIN) {
        return Err("a page of another site asks without an Origin");
    }
    Ok(())
}

/// The host, with the brackets of an IPv6 address taken off.
fn host_of(authority: &Authority) -> &str {
    let host = authority.host();
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
}

pub(super) fn is_loopback(host: &str) -> bool {
    let address: Result<IpAddr, _> = host.parse();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|it| it.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn check(listen: &str, headers: &[(HeaderName, &str)]) -> bool {
        let guard = Guard::default()
            .listening_on(listen.parse().unwrap())
            .with_host("relay.example".to_owned())
            .with_origin("https://app.example".to_owned());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        guard.check(&Uri::from_static("/github"), &map).is_ok()
    }

    #[test]
    fn a_host_is_loopback_listened_on_or_listed() {
        for host in [
            "127.0.0.1:7460",
            "127.9.9.9",
            "localhost",
            "LOCALHOST:1",
            "[::1]:7460",
            "192.0.2.7:7460",
            "relay.example",
        ] {
            assert!(check("192.0.2.7:7460", &[(HOST, host)]), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "192.0.2.8",
            "user@localhost",
            "0.0.0.0",
            "",
            "a b",
        ] {
            assert!(!check("192.0.2.7:7460", &[(HOST, host)]), "{host}");
        }
        assert!(!check("127.0.0.1:1", &[]));
        assert!(!check(
            "127.0.0.1:1",
            &[(HOST, "localhost"), (HOST, "localhost")]
        ));
        assert!(check("0.0.0.0:1", &[(HOST, "192.0.2.8")]));
        assert!(!check("0.0.0.0:1", &[(HOST, "evil.example")]));
    }

    #[test]
    fn an_origin_is_absent_loopback_or_listed() {
        for origin in [
            "http://localhost:6274",
            "http://127.0.0.1",
            "https://[::1]:1",
            "https://app.example",
        ] {
            assert!(
                check("127.0.0.1:1", &[(HOST, "localhost"), (ORIGIN, origin)]),
                "{origin}"
            );
        }
        for origin in [
            "null",
            "",
            "https://evil.example",
            "https://app.example.evil.example",
            "http://app.example",
            "http://localhost.evil.example",
            "localhost",
        ] {
            assert!(
                !check("127.0.0.1:1", &[(HOST, "localhost"), (ORIGIN, origin)]),
                "{origin}"
            );
        }
    }

    #[test]
    fn the_target_of_a_request_counts_as_well() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        let evil = Uri::from_static("http://evil.example/github");
        assert!(Guard::default().check(&evil, &headers).is_err());
    }
}
