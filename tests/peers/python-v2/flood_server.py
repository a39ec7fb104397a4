"""A server on the official Python SDK 2.x that asks its client many questions within one call or in rounds."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from flooding import COUNT, FORM, ROUNDS, WIDTH, Tally, serve_http, transport_argument
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)

server = MCPServer("flood-python-v2", log_level="WARNING")

# Over all calls and sessions of this process.
rounds_sent = 0
answers_seen = 0


def prompt(text):
    return SamplingMessage(role="user", content=TextContent(type="text", text=text))


def sampling_request(text):
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[prompt(text)], max_tokens=16))


def elicitation_request(text):
    return ElicitRequest(params=ElicitRequestFormParams(message=text, requested_schema=FORM))


@server.tool(structured_output=False)
async def flood_sampling(ctx: Context, count: int = COUNT, concurrent: bool = False) -> str:
    """Asks for `count` completions, one after the other or all at once."""

    async def question(text):
        await ctx.session.create_message([prompt(text)], max_tokens=16, related_request_id=ctx.request_id)

    return await Tally().ask(count, concurrent, question, MCPError)


@server.tool(structured_output=False)
async def flood_elicitation(ctx: Context, count: int = COUNT, concurrent: bool = False) -> str:
    """Asks the user `count` times for a line of text, one after the other or all at once."""

    async def question(text):
        await ctx.session.elicit_form(text, FORM, related_request_id=ctx.request_id)

    return await Tally().ask(count, concurrent, question, MCPError)


@server.tool(structured_output=False)
async def rounds_sampling(ctx: Context, rounds: int = ROUNDS, width: int = WIDTH) -> str | InputRequiredResult:
    """Asks for `width` completions in each of `rounds` rounds."""
    return next_round(rounds, width, sampling_request, ctx)


@server.tool(structured_output=False)
async def rounds_elicitation(ctx: Context, rounds: int = ROUNDS, width: int = WIDTH) -> str | InputRequiredResult:
    """Asks the user for `width` lines of text in each of `rounds` rounds."""
    return next_round(rounds, width, elicitation_request, ctx)


@server.tool(structured_output=False)
async def counters() -> str:
    """Says what this process has asked in rounds, and how many answers it got."""
    return json.dumps({"roundsSent": rounds_sent, "answersSeen": answers_seen})


def next_round(rounds, width, request, ctx):
    """The round after the one that `ctx` answers, or the call's result when there were enough."""
    global rounds_sent, answers_seen
    if ctx.protocol_version < "2026-07-28":
        # The SDK would answer with an internal error after the round has been counted as sent.
        raise ToolError(f"rounds need a 2026-07-28 session, this one is {ctx.protocol_version}")
    # A call is a new request each time, maybe to another session: what has been counted travels with the client.
    state = json.loads(ctx.request_state) if ctx.request_state else {"rounds": 0, "answers": 0}
    answers = len(ctx.input_responses or {})
    answers_seen += answers
    state["answers"] += answers
    if state["rounds"] == rounds:
        return json.dumps(state)
    state["rounds"] += 1
    rounds_sent += 1
    return InputRequiredResult(
        input_requests={f"k{key}": request(f"round {state['rounds']}, question {key}") for key in range(width)},
        request_state=json.dumps(state),
    )


if __name__ == "__main__":
    if transport_argument() == "stdio":
        server.run("stdio")
    else:
        serve_http(server.streamable_http_app())
