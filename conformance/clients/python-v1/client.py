"""A client under test on the official Python SDK 1.x.

Of the SDK it uses `ClientSession` with its sampling and elicitation callbacks, over `stdio_client` or
`streamable_http_client`. This SDK reads no further message while a handler of its own runs, so that it asks one
question at a time; it has no rounds.
"""

import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from anyio import BrokenResourceError, ClosedResourceError
from contract import ANSWER, LEGACY, Call, Client, Ending, as_json, filled, tool_arguments
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CONNECTION_CLOSED,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitResult,
    ListRootsResult,
    PaginatedRequestParams,
    SamplingCapability,
    SamplingToolsCapability,
    TextContent,
)

# The errors by which this SDK tells that the connection has ended, as far as they can be told from a server's.
ENDINGS = {
    (CONNECTION_CLOSED, "Connection closed"): Ending.CLOSED,
    # The code is meant to be -32600.
    (32600, "Session terminated"): Ending.SESSION_UNKNOWN,
}


async def every(method, member):
    """All entries of a list that comes in pages."""
    entries, cursor = [], None
    while True:
        page = await method(params=PaginatedRequestParams(cursor=cursor))
        entries += getattr(page, member)
        cursor = page.nextCursor
        if cursor is None:
            return entries


class PythonV1(Client):
    revisions = (LEGACY,)

    @asynccontextmanager
    async def connect(self, server, address):
        async def sample(context, params):
            await self.handling(server, "sampling/createMessage")
            content = TextContent(type="text", text=ANSWER)
            return CreateMessageResult(role="assistant", content=content, model="none", stopReason="endTurn")

        async def elicit(context, params):
            await self.handling(server, "elicitation/create")
            if isinstance(params, ElicitRequestFormParams):
                return ElicitResult(action="accept", content=filled(params.requestedSchema))
            return ElicitResult(action="accept")

        async def roots(context):
            return ListRootsResult(roots=[])

        if isinstance(address, str):
            transport = streamable_http_client(address)
        else:
            command, *args = address
            transport = stdio_client(StdioServerParameters(command=command, args=args, env=dict(os.environ)))
        async with transport as (read, write, *_):
            async with ClientSession(
                read,
                write,
                sampling_callback=sample,
                sampling_capabilities=SamplingCapability(tools=SamplingToolsCapability()),
                elicitation_callback=elicit,
                list_roots_callback=roots,
            ) as session:
                self.expect_revision((await session.initialize()).protocolVersion)
                yield session

    async def calls(self, session):
        tools = await every(session.list_tools, "tools")
        arguments = tool_arguments({entry.name: entry.inputSchema for entry in tools})

        def tool(entry):
            async def make():
                return as_json(await session.call_tool(entry.name, arguments[entry.name]))

            return Call("tools/call", entry.name, make)

        def prompt(entry):
            async def make():
                arguments = {argument.name: ANSWER for argument in entry.arguments or [] if argument.required}
                return as_json(await session.get_prompt(entry.name, arguments))

            return Call("prompts/get", entry.name, make)

        def resource(entry):
            async def make():
                return as_json(await session.read_resource(entry.uri))

            return Call("resources/read", str(entry.uri), make)

        declared = session.get_server_capabilities()
        calls = [tool(entry) for entry in tools]
        if declared.prompts:
            calls += [prompt(entry) for entry in await every(session.list_prompts, "prompts")]
        if declared.resources:
            calls += [resource(entry) for entry in await every(session.list_resources, "resources")]
        return calls

    def ending(self, error):
        if isinstance(error, McpError):
            return ENDINGS.get((error.error.code, error.error.message))
        return Ending.CLOSED if isinstance(error, (ClosedResourceError, BrokenResourceError)) else None


PythonV1.run()
