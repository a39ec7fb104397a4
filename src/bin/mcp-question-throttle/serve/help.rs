//! What `serve --help` says below the options.

pub(super) const AFTER_HELP: &str = r#"FILE names the servers:

  [servers.github]
  url = "https://mcp.example/mcp"
  headers = { Authorization = "Bearer ${TOKEN}" }   # if the client sends none

It prints the URL of each; give that one to the client, in place of the
server's own.

Claude Code, by command:

  claude mcp add --transport http github http://127.0.0.1:7460/github

Cursor (.cursor/mcp.json):

  { "mcpServers": { "github": { "url": "http://127.0.0.1:7460/github" } } }

VS Code (.vscode/mcp.json):

  {
    "servers": {
      "github": { "type": "http", "url": "http://127.0.0.1:7460/github" }
    }
  }

goose (config.yaml):

  extensions:
    github:
      type: streamable_http
      enabled: true
      name: github
      uri: http://127.0.0.1:7460/github

Codex (config.toml):

  [mcp_servers.github]
  url = "http://127.0.0.1:7460/github"

All clients of a server share its windows. A session is one of the protocol
(Mcp-Session-Id), or, where the protocol has none (2026-07-28), the path: give
clients that are to have windows of their own a path each, as in /github/work
and /github/home, up to 64.

proto.askTTL and proto.askRounds do nothing here: a relay can neither close
the client's prompt nor tell which rounds belong to one call.

The relay carries tokens, it does not log in. A client that logs in by OAuth
checks that the server is at the URL it was given, so put a server with such a
login behind `wrap` and a stdio bridge.

An https server is trusted as the system trusts it. For a private authority add
its certificate to the system's; on Linux SSL_CERT_FILE or SSL_CERT_DIR name
what is trusted in place of the system's. Clients speak plain HTTP/1.1 with the
relay.

A message may have 16 MiB, and what is held of all messages --memory, of which
one server gets half if there are several; what is no longer than 64 KiB always
finds room. Without room a client's message gets 503, and an answer goes on in
parts, cut off if a question is found in it. The log says so.

Signals: SIGHUP reads the limits of FILE again, and counts stay; a file that is
wrong changes nothing, and the log says so. Servers are read at the start only.
SIGTERM and SIGINT end streams at once and calls after 5 s; the second one ends
everything at once."#;
