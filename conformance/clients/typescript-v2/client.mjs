// A client under test on the official TypeScript SDK 2.x.
//
// Of the SDK it uses `Client` with request handlers for sampling and elicitation (form and URL), over
// `StdioClientTransport` or `StreamableHTTPClientTransport`. In 2025-11-25 it shakes hands as before (`legacy`), in
// 2026-07-28 that revision is pinned, and the SDK answers rounds by itself, ten in a call.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { ANSWER, Ending, LEGACY, ROUNDS, callOptions, filled, handling, revision, run } from '../contract.mjs';

const wanted = revision([LEGACY, ROUNDS]);

async function connect(server, address) {
    const client = new Client(
        { name: 'typescript-v2', version: '1.0.0' },
        {
            capabilities: { sampling: { tools: {} }, elicitation: { form: {}, url: {} }, roots: {} },
            versionNegotiation: { mode: wanted === LEGACY ? 'legacy' : { pin: wanted } },
        },
    );
    client.setRequestHandler('sampling/createMessage', async ({ method }) => {
        await handling(server, method);
        return { role: 'assistant', content: { type: 'text', text: ANSWER }, model: 'none', stopReason: 'endTurn' };
    });
    client.setRequestHandler('elicitation/create', async ({ method, params }) => {
        await handling(server, method);
        return params.mode === 'url'
            ? { action: 'accept' }
            : { action: 'accept', content: filled(params.requestedSchema) };
    });
    client.setRequestHandler('roots/list', () => ({ roots: [] }));
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
        callTool: (params) => client.callTool(params, callOptions()),
        ending: (error) => {
            if (error.status === 404) {
                return Ending.SESSION_UNKNOWN;
            }
            // Fetch tells by a TypeError that a connection broke.
            return hasEnded || error instanceof TypeError ? Ending.CLOSED : undefined;
        },
    };
}

await run(connect);
