// A server on the official TypeScript SDK 1.x that asks its client many questions within one call.

import { randomUUID } from 'node:crypto';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CreateMessageResultSchema, ElicitResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { flood, floodInput, form, samplingParams, serveHttp, transportArgument } from '../flooding.mjs';

function floodServer() {
    const server = new McpServer({ name: 'flood-typescript-v1', version: '1.0.0' });
    server.registerTool(
        'flood_sampling',
        { description: 'Asks for `count` completions, one after the other or all at once.', inputSchema: floodInput },
        (input, { sendRequest }) =>
            flood(input, (text) =>
                sendRequest(
                    { method: 'sampling/createMessage', params: samplingParams(text) },
                    CreateMessageResultSchema,
                ),
            ),
    );
    server.registerTool(
        'flood_elicitation',
        {
            description: 'Asks the user `count` times for a line of text, one after the other or all at once.',
            inputSchema: floodInput,
        },
        (input, { sendRequest }) =>
            flood(input, (text) =>
                sendRequest(
                    { method: 'elicitation/create', params: { message: text, requestedSchema: form } },
                    ElicitResultSchema,
                ),
            ),
    );
    return server;
}

const sessions = new Map();

async function handle(request, response) {
    const id = request.headers['mcp-session-id'];
    let transport = sessions.get(id);
    if (!transport) {
        if (id !== undefined) {
            response.writeHead(404).end();
            return;
        }
        transport = new StreamableHTTPServerTransport({
            sessionIdGenerator: randomUUID,
            onsessioninitialized: (started) => sessions.set(started, transport),
            onsessionclosed: (ended) => sessions.delete(ended),
        });
        await floodServer().connect(transport);
    }
    await transport.handleRequest(request, response);
}

if (transportArgument() === 'stdio') {
    await floodServer().connect(new StdioServerTransport());
} else {
    serveHttp(handle);
}
