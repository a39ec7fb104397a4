//! Arguments that are addresses, names or URLs: what could never work is refused with its form.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use reqwest::Url;

/// `--listen`: an IP address and a port, or `localhost` and a port.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    let local = || {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok()?;
        host.eq_ignore_ascii_case("localhost")
            .then(|| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port))
    };
    text.parse().ok().or_else(local).ok_or_else(|| {
        let meant = match text.parse::<u16>() {
            Ok(port) => format!("; was 127.0.0.1:{port} meant?"),
            Err(_) => String::new(),
        };
        format!("expected an IP address and a port, as 127.0.0.1:7460{meant}")
    })
}

/// `--allow-host`: a name as it stands in `Host`, where its port is no matter.
pub(crate) fn host(text: &str) -> Result<String, String> {
    let address = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .unwrap_or(text);
    let is_name = |text: &str| {
        let is_part = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_');
        !text.is_empty() && text.chars().all(is_part)
    };
    if address.parse::<IpAddr>().is_ok() {
        return Ok(address.to_owned());
    }
    if is_name(text) {
        return Ok(text.to_owned());
    }
    let url = Url::parse(&with_scheme("http", text)).ok();
    let meant = url.as_ref().and_then(Url::host_str);
    let meant = meant.filter(|meant| is_name(meant)).map(was_meant);
    Err(format!(
        "expected the name of a host, as relay.example, without scheme, port and path{}",
        meant.unwrap_or_default()
    ))
}

/// `--allow-origin`: an origin as a browser writes it, letter for letter.
pub(crate) fn origin(text: &str) -> Result<String, String> {
    let origin = |url: &Url| match url.scheme() {
        "http" | "https" => Some(url.origin().ascii_serialization()),
        // Those of extensions and web views, whose URLs are in no way special.
        _ => {
            let bare = url.has_host() && url.path().is_empty();
            (bare && url.query().is_none() && url.fragment().is_none() && url.username().is_empty())
                .then(|| url.as_str().to_owned())
        }
    };
    let meant = Url::parse(&with_scheme("https", text)).ok();
    let meant = meant.as_ref().and_then(origin);
    if meant.as_deref() == Some(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "expected an origin as a browser sends it, as https://app.example or http://10.0.0.2:8080{}",
        meant.as_deref().map(was_meant).unwrap_or_default()
    ))
}

/// `status --url`: where `serve` listens, with or without scheme and with or without `/status`.
/// It is given back with the path of the status.
pub(crate) fn status(text: &str) -> Result<Url, String> {
    let with_scheme = with_scheme("http", text);
    // A URL forgives a slash too many, and a number is an address: neither is what was meant.
    let is_meant = !with_scheme.contains(":///") && text.parse::<u16>().is_err();
    let url = Url::parse(&with_scheme).ok().filter(|_| is_meant);
    let Some(mut url) =
        url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
    else {
        return Err(
            "expected the URL that `serve` listens at, as http://127.0.0.1:7460".to_owned(),
        );
    };
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix("/status").unwrap_or(path);
    let path = format!("{}/status", path.trim_end_matches('/'));
    url.set_path(&path);
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

fn with_scheme(scheme: &str, text: &str) -> String {
    if text.contains("://") {
        text.to_owned()
    } else {
        format!("{scheme}://{text}")
    }
}

fn was_meant(text: &str) -> String {
    format!("; was {text} meant?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_to_listen_at_is_an_address_or_localhost() {
        for (text, expected) in [
            ("127.0.0.1:7460", "127.0.0.1:7460"),
            ("[::]:0", "[::]:0"),
            ("localhost:7461", "127.0.0.1:7461"),
        ] {
            assert_eq!(listen(text), Ok(expected.parse().unwrap()), "{text}");
        }
        for text in [
            "",
            "localhost",
            "7461",
            "host.example:1",
            ":7461",
            "127.0.0.1",
            "localhost:x",
        ] {
            let error = listen(text).unwrap_err();
            assert!(error.contains("as 127.0.0.1:7460"), "{text}: {error}");
        }
        assert!(
            listen("7461")
                .unwrap_err()
                .ends_with("was 127.0.0.1:7461 meant?")
        );
    }

    #[test]
    fn a_host_that_can_never_match_is_refused() {
        for text in ["relay.example", "relay", "10.0.0.2", "a_b-c"] {
            assert_eq!(host(text).as_deref(), Ok(text));
        }
        assert_eq!(host("[2001:db8::1]").as_deref(), Ok("2001:db8::1"));
        for (text, meant) in [
            ("http://x", Some("x")),
            ("relay.example:7460", Some("relay.example")),
            ("https://relay.example/github", Some("relay.example")),
            ("*", None),
            ("*.example", None),
            ("", None),
            ("a b", None),
        ] {
            let error = host(text).unwrap_err();
            assert!(error.contains("without scheme, port and path"), "{error}");
            let told = error.split_once("; was ").map(|(_, told)| told.to_owned());
            assert_eq!(told, meant.map(|meant| format!("{meant} meant?")), "{text}");
        }
    }

    #[test]
    fn an_origin_that_can_never_match_is_refused() {
        for text in [
            "https://app.example",
            "http://10.0.0.2:8080",
            "https://[2001:db8::1]:1",
            "chrome-extension://abcdef",
            "vscode-webview://1a2b",
        ] {
            assert_eq!(origin(text).as_deref(), Ok(text));
        }
        for (text, meant) in [
            ("app.example", Some("https://app.example")),
            ("https://app.example/", Some("https://app.example")),
            ("https://app.example:443", Some("https://app.example")),
            ("http://app.example:80/x?y", Some("http://app.example")),
            ("HTTPS://App.example", Some("https://app.example")),
            ("chrome-extension://abcdef/", None),
            ("file:///x", None),
            ("", None),
        ] {
            let error = origin(text).unwrap_err();
            assert!(error.contains("as a browser sends it"), "{error}");
            let told = error.split_once("; was ").map(|(_, told)| told.to_owned());
            assert_eq!(told, meant.map(|meant| format!("{meant} meant?")), "{text}");
        }
        // `*` is a host of its own to a URL, and `null` as well: neither is an origin to trust.
        for text in ["*", "null"] {
            assert!(origin(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_status_is_found_however_its_relay_is_given() {
        for (text, expected) in [
            ("http://127.0.0.1:7460/", "http://127.0.0.1:7460/status"),
            ("127.0.0.1:7460", "http://127.0.0.1:7460/status"),
            ("localhost:7460", "http://localhost:7460/status"),
            (
                "http://127.0.0.1:7460/status",
                "http://127.0.0.1:7460/status",
            ),
            (
                "http://127.0.0.1:7460/status/",
                "http://127.0.0.1:7460/status",
            ),
            ("https://a.example/relay", "https://a.example/relay/status"),
            ("[::1]:7460/#x", "http://[::1]:7460/status"),
        ] {
            assert_eq!(status(text).unwrap().as_str(), expected, "{text}");
        }
        for text in [
            "",
            "7460",
            "ftp://a.example",
            "http://",
            "a b",
            "/status",
            ":7460",
        ] {
            assert!(status(text).is_err(), "{text}");
        }
    }
}
