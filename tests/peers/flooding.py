"""What the flooding servers on the Python SDKs share: counting answers, and serving on a free port."""

import argparse
import asyncio
import json
import socket

import uvicorn

# What a client that calls every tool with the defaults of its schema gets to see.
COUNT, ROUNDS, WIDTH = 30, 3, 4

FORM = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


class Tally:
    """What became of the questions of one call, counted from what the client sent back."""

    def __init__(self):
        self.asked = self.answered = self.refused = self.other = 0
        self.first_refusal = None

    async def ask(self, count, concurrent, question, error_type):
        """Asks `count` questions, all at once or each when the one before is done, and counts how they end."""
        questions = (self._ask(question(f"question {number}"), error_type) for number in range(count))
        if concurrent:
            await asyncio.gather(*questions)
        else:
            for asked in questions:
                await asked
        return self._text()

    async def _ask(self, asked, error_type):
        self.asked += 1
        try:
            await asked
        except error_type as raised:
            self._count_error(raised.error)
        except Exception:
            # An answer that the SDK does not understand is neither an answer nor a refusal.
            self.other += 1
        else:
            self.answered += 1

    def _count_error(self, error):
        data = error.data
        if error.code == -32603 and isinstance(data, dict) and isinstance(data.get("cause"), str):
            self.refused += 1
            if self.first_refusal is None:
                self.first_refusal = {"code": error.code, "message": error.message, "data": data}
        else:
            self.other += 1

    def _text(self):
        return json.dumps(
            {
                "asked": self.asked,
                "answered": self.answered,
                "refused": self.refused,
                "other": self.other,
                "firstRefusal": self.first_refusal,
            }
        )


def transport_argument():
    """The transport named on the command line."""
    parser = argparse.ArgumentParser(description="An MCP server that asks its client many questions.")
    parser.add_argument("--transport", choices=["stdio", "http"], default="stdio")
    return parser.parse_args().transport


def serve_http(app):
    """Serves an ASGI app on a free port of this machine and says which one before the first request."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(f"listening http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
