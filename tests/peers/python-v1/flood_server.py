"""A server on the official Python SDK 1.x that asks its client many questions within one call."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from flooding import COUNT, FORM, Tally, serve_http, transport_argument
from mcp.server.fastmcp import Context, FastMCP
from mcp.shared.exceptions import McpError
from mcp.types import SamplingMessage, TextContent

server = FastMCP("flood-python-v1", log_level="WARNING")


@server.tool(structured_output=False)
async def flood_sampling(ctx: Context, count: int = COUNT, concurrent: bool = False) -> str:
    """Asks for `count` completions, one after the other or all at once."""

    async def question(text):
        await ctx.session.create_message(
            [SamplingMessage(role="user", content=TextContent(type="text", text=text))],
            max_tokens=16,
            related_request_id=ctx.request_id,
        )

    return await Tally().ask(count, concurrent, question, McpError)


@server.tool(structured_output=False)
async def flood_elicitation(ctx: Context, count: int = COUNT, concurrent: bool = False) -> str:
    """Asks the user `count` times for a line of text, one after the other or all at once."""

    async def question(text):
        await ctx.session.elicit_form(text, FORM, related_request_id=ctx.request_id)

    return await Tally().ask(count, concurrent, question, McpError)


if __name__ == "__main__":
    if transport_argument() == "stdio":
        server.run("stdio")
    else:
        serve_http(server.streamable_http_app())
