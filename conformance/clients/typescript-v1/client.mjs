// A client under test on the official TypeScript SDK 1.x.
//
// Of the SDK it uses `Client` with request handlers for sampling and elicitation (form and URL), over
// `StdioClientTransport` or `StreamableHTTPClientTransport`. It has no rounds.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
    CreateMessageRequestSchema,
    ElicitRequestSchema,
    ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { ANSWER, Ending, LEGACY, callOptions, filled, handling, revision, run } from '../contract.mjs';

revision([LEGACY]);

async function connect(server, address) {
    const client = new Client(
        { name: 'typescript-v1', version: '1.0.0' },
        { capabilities: { sampling: { tools: {} }, elicitation: { form: {}, url: {} }, roots: {} } },
    );
    client.setRequestHandler(CreateMessageRequestSchema, async ({ method }) => {
        await handling(server, method);
        return { role: 'assistant', content: { type: 'text', text: ANSWER }, model: 'none', stopReason: 'endTurn' };
    });
    client.setRequestHandler(ElicitRequestSchema, async ({ method, params }) => {
        await handling(server, method);
        return params.mode === 'url'
            ? { action: 'accept' }
            : { action: 'accept', content: filled(params.requestedSchema) };
    });
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [] }));
    let hasEnded = false;
    client.onclose = () => {
        hasEnded = true;
    };
    const [command, ...args] = address;
    const transport = Array.isArray(address)
        ? new StdioClientTransport({ command, args, env: process.env })
        : new StreamableHTTPClientTransport(new URL(address));
    await client.connect(transport, callOptions());
    return {
        client,
        callTool: (params) => client.callTool(params, undefined, callOptions()),
        ending: (error) => {
            if (error.code === 404) {
                return Ending.SESSION_UNKNOWN;
            }
            // Fetch tells by a TypeError that a connection broke.
            return hasEnded || error instanceof TypeError ? Ending.CLOSED : undefined;
        },
    };
}

await run(connect);
