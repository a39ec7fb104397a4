"""The conformance suite's contract for clients under test, for the Python ones: everything but the SDK.

A client takes its servers from `MCP_CONFORMANCE_SERVERS` (a JSON object: name to URL, or to a command as a list or a
line) or, without that, a single one from its last argument. In the revision of `MCP_CONFORMANCE_PROTOCOL_VERSION` it
makes every call that each server offers, once and in order, whatever comes of it, and connects again when the server
closes the connection before the last one; it gives a call up after `QUESTION_CONFORMANCE_PATIENCE_SECONDS` (15), so
that one that hangs keeps none of the others from being made. It answers questions after
`QUESTION_CONFORMANCE_ANSWER_DELAY_MS` (none) and notes each in `QUESTION_CONFORMANCE_LOG`, as a line
`SERVER<TAB>METHOD`, before that. Standard output has a JSON line for every call.

Exit codes: 0 every call was made, 1 a server could not be reached, 2 the configuration is wrong.
"""

import asyncio
import json
import os
import shlex
import sys
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Awaitable, Callable

LEGACY = "2025-11-25"
ROUNDS = "2026-07-28"

ANSWER = "An answer."

# The error by which a server has a person open URLs before the call is made again (2025-11-25).
URL_ELICITATION_REQUIRED = -32042


@dataclass
class Call:
    """A call that a server offers, ready to be made; `make` gives the result as JSON."""

    method: str
    name: str
    make: Callable[[], Awaitable[Any]]


class Ending(Enum):
    """How a connection ended, as a call on it found out."""

    # While the call was on its way: it has been made.
    CLOSED = auto()
    # Before, over HTTP: the server knows no such session and has not looked at the call.
    SESSION_UNKNOWN = auto()


class WrongRevision(Exception):
    """The server speaks another revision than the one that is wanted."""


class Misconfigured(Exception):
    """What this program was told to do makes no sense."""


class Client:
    """A client under test. What it takes from its SDK is in the methods that subclasses give it."""

    # The protocol revisions that it speaks.
    revisions: tuple[str, ...]

    def __init__(self):
        self.revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", LEGACY)
        if self.revision not in self.revisions:
            spoken = " and ".join(self.revisions)
            raise Misconfigured(f"MCP_CONFORMANCE_PROTOCOL_VERSION: '{self.revision}' is not spoken here, {spoken} is")
        self._log = os.environ.get("QUESTION_CONFORMANCE_LOG")
        if self._log:
            # An empty log says that no handler was entered; none at all, that nothing is noted.
            open(self._log, "ab").close()
        self._delay_seconds = _number("QUESTION_CONFORMANCE_ANSWER_DELAY_MS", 0) / 1000
        self._patience_seconds = _number("QUESTION_CONFORMANCE_PATIENCE_SECONDS", 15)

    def connect(self, server: str, address: str | list[str]):
        """An asynchronous context manager over one connection, which it gives."""
        raise NotImplementedError

    async def calls(self, connection) -> list[Call]:
        """What the server offers: tools, then prompts and resources if it declares them."""
        raise NotImplementedError

    def ending(self, error: Exception) -> Ending | None:
        """How the connection ended, if a call failed because of that."""
        raise NotImplementedError

    def expect_revision(self, spoken: str) -> None:
        """Ends a connection whose server did not agree to the wanted revision."""
        if spoken != self.revision:
            raise WrongRevision(f"the server speaks {spoken}, wanted is {self.revision}")

    async def handling(self, server: str, method: str) -> None:
        """To be called by every handler of a question as it is entered."""
        self._note(server, method)
        await asyncio.sleep(self._delay_seconds)

    def _note(self, server: str, method: str) -> None:
        if self._log:
            # One write: handlers of several connections may note at the same time.
            with open(self._log, "ab", buffering=0) as log:
                log.write(f"{server}\t{method}\n".encode())

    async def _exhaust(self, server: str, address: str | list[str]) -> bool:
        """Makes every call once, connecting again for those that are left when the server closes."""
        calls, made, repeated = None, 0, 0
        attempts_in_vain = 0
        while calls is None or made < len(calls):
            if attempts_in_vain == 2:
                return False
            attempts_in_vain += 1
            try:
                async with self.connect(server, address) as connection:
                    async with asyncio.timeout(self._patience_seconds):
                        calls = await self.calls(connection)
                    for call in calls[made:]:
                        made += 1
                        attempts_in_vain = 0
                        ending = await self._make(server, call)
                        if ending is Ending.SESSION_UNKNOWN and repeated < made:
                            repeated = made
                            made -= 1
                        if ending is not None:
                            break
            except Exception as error:
                # The SDKs wrap what ends a connection in exception groups of many kinds.
                print(f"{server}: the connection ended: {error!r}", file=sys.stderr)
        return True

    async def _make(self, server: str, call: Call) -> Ending | None:
        """Makes a call and prints what came of it."""
        report = {"server": server, "method": call.method, "name": call.name}
        try:
            async with asyncio.timeout(self._patience_seconds):
                report["result"] = await call.make()
        except TimeoutError:
            report["error"] = f"no result within {self._patience_seconds} s"
        except Exception as error:
            # The SDKs' errors have what the server replied in `error`.
            replied = getattr(error, "error", None)
            report["error"] = repr(error) if replied is None else as_json(replied)
            if replied is not None:
                self._show_urls(server, replied)
            return self.ending(error)
        finally:
            # Also when the SDK takes the call down with its connection.
            print(json.dumps(report), flush=True)
        return None

    def _show_urls(self, server: str, error) -> None:
        """Shows the URLs that a call's error wants opened, which no SDK here does by itself: notes them, that is."""
        if error.code == URL_ELICITATION_REQUIRED and isinstance(error.data, dict):
            urls = error.data.get("elicitations")
            for _ in urls if isinstance(urls, list) else []:
                self._note(server, "elicitation/create")

    async def _exhaust_all(self) -> int:
        code = 0
        for server, address in _servers().items():
            if not await self._exhaust(server, address):
                print(f"{server} cannot be reached", file=sys.stderr)
                code = 1
        return code

    @classmethod
    def run(cls) -> None:
        """Is the program."""
        try:
            code = asyncio.run(cls()._exhaust_all())
        except Misconfigured as why:
            print(why, file=sys.stderr)
            code = 2
        sys.exit(code)


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable, str(default))
    if not text.isdecimal():
        raise Misconfigured(f"{variable}: '{text}' is no whole number")
    return int(text)


def _servers() -> dict[str, str | list[str]]:
    """Names to URLs or commands."""
    text = os.environ.get("MCP_CONFORMANCE_SERVERS")
    if text is None:
        if len(sys.argv) < 2:
            raise Misconfigured("no server: set MCP_CONFORMANCE_SERVERS or name one as the last argument")
        return {"server": _address(sys.argv[-1])}
    try:
        servers = json.loads(text)
    except ValueError as error:
        raise Misconfigured(f"MCP_CONFORMANCE_SERVERS: {error}") from None
    if not isinstance(servers, dict):
        raise Misconfigured(f"MCP_CONFORMANCE_SERVERS: an object is wanted, not {text}")
    return {name: _address(address) for name, address in servers.items()}


def _address(value: Any) -> str | list[str]:
    """A URL as it is, a command as its words."""
    if isinstance(value, str) and value.startswith(("http://", "https://")):
        return value
    words = shlex.split(value) if isinstance(value, str) else value
    if not (isinstance(words, list) and words and all(isinstance(word, str) for word in words)):
        raise Misconfigured(f"a server is a URL or a command, not {value!r}")
    return words


def as_json(model) -> Any:
    """A model of an SDK as it is on the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def tool_arguments(schemas: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Arguments for the tools with these input schemas.

    Those of some tools are the official suite's: the context of a scenario states them, and `json_schema_echo` gets the
    schema of another tool, to show what the SDK has left of it.
    """
    arguments = {name: filled(schema) for name, schema in schemas.items()}
    if "json_schema_echo" in schemas:
        others = [schema for name, schema in schemas.items() if name != "json_schema_echo"]
        arguments["json_schema_echo"] = {"schema": others[0] if others else None}
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    for call in context.get("toolCalls", []):
        arguments[call["name"]] = call.get("arguments", {})
    return arguments


def filled(schema: dict[str, Any]) -> dict[str, Any]:
    """Content for an object schema: its defaults, and something valid for the rest of what it requires."""
    required = schema.get("required", [])
    return {
        name: _value(member)
        for name, member in schema.get("properties", {}).items()
        if name in required or "default" in member
    }


def _value(schema: dict[str, Any]) -> Any:
    if "default" in schema:
        return schema["default"]
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for choice in ("oneOf", "anyOf"):
        if choice in schema:
            return _value(schema[choice][0])
    match schema.get("type"):
        case "object":
            return filled(schema)
        case "array":
            return [_value(schema.get("items", {}))] * schema.get("minItems", 0)
        case "boolean":
            return True
        case "integer" | "number":
            return schema.get("minimum", 1)
        case _:
            return _text(schema)


def _text(schema: dict[str, Any]) -> str:
    formats = {
        "email": "someone@example.com",
        "uri": "https://example.com/",
        "date": "2026-07-28",
        "date-time": "2026-07-28T00:00:00Z",
    }
    return formats.get(schema.get("format"), "text".ljust(schema.get("minLength", 0), "."))
