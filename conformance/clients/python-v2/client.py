"""A client under test on the official Python SDK 2.x.

Of the SDK it uses `Client` with its sampling and elicitation callbacks, over Streamable HTTP or stdio. In 2025-11-25 it
shakes hands as before (`mode="legacy"`), in 2026-07-28 it discovers (`mode="auto"`) and leaves rounds to the SDK's own
driver, which stops after ten in a call.
"""

import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from contract import ANSWER, LEGACY, ROUNDS, Call, Client, Ending, as_json, filled, tool_arguments
from mcp import Client as McpClient
from mcp import MCPError, StdioServerParameters
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitResult,
    ListRootsResult,
    SamplingCapability,
    SamplingToolsCapability,
    TextContent,
)

# The errors by which the SDK tells that the connection has ended, as far as they can be told from a server's.
ENDINGS = {
    (CONNECTION_CLOSED, "Connection closed"): Ending.CLOSED,
    (INVALID_REQUEST, "Session terminated"): Ending.SESSION_UNKNOWN,
}


async def every(method, member):
    """All entries of a list that comes in pages."""
    entries, cursor = [], None
    while True:
        page = await method(cursor=cursor)
        entries += getattr(page, member)
        cursor = page.next_cursor
        if cursor is None:
            return entries


class PythonV2(Client):
    revisions = (LEGACY, ROUNDS)

    @asynccontextmanager
    async def connect(self, server, address):
        async def sample(context, params):
            await self.handling(server, "sampling/createMessage")
            content = TextContent(type="text", text=ANSWER)
            return CreateMessageResult(role="assistant", content=content, model="none", stop_reason="endTurn")

        async def elicit(context, params):
            await self.handling(server, "elicitation/create")
            if isinstance(params, ElicitRequestFormParams):
                return ElicitResult(action="accept", content=filled(params.requested_schema))
            return ElicitResult(action="accept")

        async def roots(context):
            return ListRootsResult(roots=[])

        if isinstance(address, list):
            command, *args = address
            address = StdioServerParameters(command=command, args=args, env=dict(os.environ))
        mode = "legacy" if self.revision == LEGACY else "auto"
        async with McpClient(
            address,
            mode=mode,
            sampling_callback=sample,
            sampling_capabilities=SamplingCapability(tools=SamplingToolsCapability()),
            elicitation_callback=elicit,
            list_roots_callback=roots,
        ) as client:
            self.expect_revision(client.protocol_version)
            yield client

    async def calls(self, client):
        tools = await every(client.list_tools, "tools")
        arguments = tool_arguments({entry.name: entry.input_schema for entry in tools})

        def tool(entry):
            async def make():
                return as_json(await client.call_tool(entry.name, arguments[entry.name]))

            return Call("tools/call", entry.name, make)

        def prompt(entry):
            async def make():
                arguments = {argument.name: ANSWER for argument in entry.arguments or [] if argument.required}
                return as_json(await client.get_prompt(entry.name, arguments))

            return Call("prompts/get", entry.name, make)

        def resource(entry):
            async def make():
                return as_json(await client.read_resource(entry.uri))

            return Call("resources/read", entry.uri, make)

        declared = client.server_capabilities
        calls = [tool(entry) for entry in tools]
        if declared.prompts:
            calls += [prompt(entry) for entry in await every(client.list_prompts, "prompts")]
        if declared.resources:
            calls += [resource(entry) for entry in await every(client.list_resources, "resources")]
        return calls

    def ending(self, error):
        return ENDINGS.get((error.code, error.message)) if isinstance(error, MCPError) else None


PythonV2.run()
