"""A client under test on FastMCP (Python).

Of FastMCP it uses `Client` with its sampling and elicitation handlers, over `StreamableHttpTransport` or
`StdioTransport`. In 2025-11-25 it shakes hands as before (`mode="legacy"`), in 2026-07-28 it discovers (`mode="auto"`)
and leaves rounds to FastMCP, which stops after ten in a call. An elicitation handler's content is checked against the
schema by FastMCP itself.
"""

import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from contract import ANSWER, LEGACY, ROUNDS, Call, Client, Ending, as_json, filled, tool_arguments
from fastmcp import Client as FastMcpClient
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from mcp import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    ElicitRequestFormParams,
    SamplingCapability,
    SamplingToolsCapability,
)

# The errors by which the SDK tells that the connection has ended, as far as they can be told from a server's.
ENDINGS = {
    (CONNECTION_CLOSED, "Connection closed"): Ending.CLOSED,
    (INVALID_REQUEST, "Session terminated"): Ending.SESSION_UNKNOWN,
}


class FastMcp(Client):
    revisions = (LEGACY, ROUNDS)

    @asynccontextmanager
    async def connect(self, server, address):
        async def sample(messages, params, context):
            await self.handling(server, "sampling/createMessage")
            return ANSWER

        async def elicit(message, response_type, params, context):
            await self.handling(server, "elicitation/create")
            if isinstance(params, ElicitRequestFormParams):
                return ElicitResult(action="accept", content=filled(params.requested_schema))
            return ElicitResult(action="accept")

        if isinstance(address, str):
            transport = StreamableHttpTransport(address)
        else:
            command, *args = address
            # Without `keep_alive` the server's process ends with the connection, as elsewhere.
            transport = StdioTransport(command, args, env=dict(os.environ), keep_alive=False)
        mode = "legacy" if self.revision == LEGACY else "auto"
        async with FastMcpClient(
            transport,
            mode=mode,
            sampling_handler=sample,
            sampling_capabilities=SamplingCapability(tools=SamplingToolsCapability()),
            elicitation_handler=elicit,
            roots=[],
        ) as client:
            self.expect_revision(client.session.protocol_version)
            yield client

    async def calls(self, client):
        tools = await client.list_tools()
        arguments = tool_arguments({entry.name: entry.input_schema for entry in tools})

        def tool(entry):
            async def make():
                return as_json(await client.call_tool_mcp(entry.name, arguments[entry.name]))

            return Call("tools/call", entry.name, make)

        def prompt(entry):
            async def make():
                arguments = {argument.name: ANSWER for argument in entry.arguments or [] if argument.required}
                return as_json(await client.get_prompt_mcp(entry.name, arguments))

            return Call("prompts/get", entry.name, make)

        def resource(entry):
            async def make():
                return as_json(await client.read_resource_mcp(entry.uri))

            return Call("resources/read", str(entry.uri), make)

        declared = client.session.server_capabilities
        calls = [tool(entry) for entry in tools]
        if declared.prompts:
            calls += [prompt(entry) for entry in await client.list_prompts()]
        if declared.resources:
            calls += [resource(entry) for entry in await client.list_resources()]
        return calls

    def ending(self, error):
        # `is_connected` does not tell: it stays true after a server over stdio has gone.
        return ENDINGS.get((error.code, error.message)) if isinstance(error, MCPError) else None


FastMcp.run()
