//! What `wrap --help` says below the options.

pub(super) const AFTER_HELP: &str = r#"For a client that starts its servers by itself, put this command in front of
the server's own. A refusal shows in the log that the client keeps of the
server's error output.

Claude Desktop (claude_desktop_config.json), Claude Code (.mcp.json),
Cursor (.cursor/mcp.json):

  {
    "mcpServers": {
      "github": {
        "command": "mcp-question-throttle",
        "args": ["wrap", "--server", "github", "--", "npx", "-y", "SERVER"],
        "env": { "TOKEN": "as before" }
      }
    }
  }

Claude Code, by command:

  claude mcp add github -- mcp-question-throttle wrap --server github -- \
    npx -y SERVER

VS Code (.vscode/mcp.json):

  {
    "servers": {
      "github": {
        "type": "stdio",
        "command": "mcp-question-throttle",
        "args": ["wrap", "--server", "github", "--", "npx", "-y", "SERVER"]
      }
    }
  }

Zed (settings.json):

  {
    "context_servers": {
      "github": {
        "source": "custom",
        "command": "mcp-question-throttle",
        "args": ["wrap", "--server", "github", "--", "npx", "-y", "SERVER"]
      }
    }
  }

goose (config.yaml):

  extensions:
    github:
      type: stdio
      enabled: true
      name: github
      cmd: mcp-question-throttle
      args: [wrap, --server, github, --, npx, -y, SERVER]

Codex (config.toml):

  [mcp_servers.github]
  command = "mcp-question-throttle"
  args = ["wrap", "--server", "github", "--", "npx", "-y", "SERVER"]

Clients start servers in folders of their own, and some with another PATH than
your shell's: give the settings file, and this command if it is not found, by
an absolute path. For a log in JSON put "--log-format", "json" before the "--".

--mcp-config takes the command from a file that no client starts this command
from: a copy of the client's own, for instance. ${VAR}, ${VAR:-default} and
${env:VAR} in it are replaced; ${input:...} and envFile are refused. Comments
may stand in it.

When a server has asked too often, two lines of the log say so:

  WARN ... question refused: proto.elicitationPerMinute allows 30 per minute;
           retry in 42 s ...
  WARN ... server "github" asks more often than it may; to admit more, raise ...

Of the refusals by one limit in a window, the 1st, the 10th, the 100th and so
on are logged.

proto.askTTL and proto.askRounds do nothing here: a relay can neither close
the client's prompt nor tell which rounds belong to one call.

What a server writes that is no message passes as it is: half a line, bad
UTF-8, NUL bytes, CR LF, lines of any length. If a client could read a question
out of it, it is withheld, with a warning. A server that leaves 4 MiB of
refusals unread is not read either until it reads; a client that does not read
is waited for. When a server dies, what it wrote before is passed on.

Exit code: that of the server, or 128 and the number of the signal that ended
it. Errors of our own end with the codes that `mcp-question-throttle --help`
lists; from 64 up, few servers use them.

The windows are those of this process: a server that ends and is started again
starts full, and two clients have two sets. When the client closes our input,
the server's is closed; 5 s later it gets SIGTERM, and 1.5 s after a SIGTERM,
ours or the client's, SIGKILL."#;
