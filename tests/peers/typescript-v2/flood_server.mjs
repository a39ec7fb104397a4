// A server on the official TypeScript SDK 2.x that asks its client many questions within one call or in rounds.

import { randomUUID } from 'node:crypto';
import { toNodeHandler } from '@modelcontextprotocol/node';
import {
    McpServer,
    WebStandardStreamableHTTPServerTransport,
    createMcpHandler,
    inputRequired,
    isLegacyRequest,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import {
    flood,
    floodInput,
    form,
    json,
    roundsInput,
    samplingParams,
    serveHttp,
    transportArgument,
} from '../flooding.mjs';

// Over all calls and sessions of this process.
const counters = { roundsSent: 0, answersSeen: 0 };

const samplingRequest = (text) => inputRequired.createMessage(samplingParams(text));
const elicitationRequest = (text) => inputRequired.elicit({ message: text, requestedSchema: form });

// The round after the one that `mcpReq` answers, or the call's result when there were enough.
function nextRound({ rounds, width }, request, { mcpReq }) {
    // A call is a new request each time, maybe to another session: what has been counted travels with the client.
    const state = JSON.parse(mcpReq.requestState() ?? '{"rounds":0,"answers":0}');
    const answers = Object.keys(mcpReq.inputResponses ?? {}).length;
    counters.answersSeen += answers;
    state.answers += answers;
    if (state.rounds === rounds) {
        return json(state);
    }
    state.rounds += 1;
    counters.roundsSent += 1;
    const inputRequests = {};
    for (let key = 0; key < width; key += 1) {
        inputRequests[`k${key}`] = request(`round ${state.rounds}, question ${key}`);
    }
    return inputRequired({ inputRequests, requestState: JSON.stringify(state) });
}

function floodServer() {
    const server = new McpServer({ name: 'flood-typescript-v2', version: '1.0.0' });
    server.registerTool(
        'flood_sampling',
        {
            description: 'Asks for `count` completions, one after the other or all at once.',
            inputSchema: z.object(floodInput),
        },
        (input, { mcpReq }) => flood(input, (text) => mcpReq.requestSampling(samplingParams(text))),
    );
    server.registerTool(
        'flood_elicitation',
        {
            description: 'Asks the user `count` times for a line of text, one after the other or all at once.',
            inputSchema: z.object(floodInput),
        },
        (input, { mcpReq }) =>
            flood(input, (text) => mcpReq.elicitInput({ message: text, requestedSchema: form })),
    );
    server.registerTool(
        'rounds_sampling',
        { description: 'Asks for `width` completions in each of `rounds` rounds.', inputSchema: z.object(roundsInput) },
        (input, context) => nextRound(input, samplingRequest, context),
    );
    server.registerTool(
        'rounds_elicitation',
        { description: 'Asks the user for `width` lines of text in each of `rounds` rounds.', inputSchema: z.object(roundsInput) },
        (input, context) => nextRound(input, elicitationRequest, context),
    );
    server.registerTool(
        'counters',
        { description: 'Says what this process has asked in rounds, and how many answers it got.' },
        () => json(counters),
    );
    return server;
}

// The SDK's handler serves 2025-era requests without sessions, where a server cannot ask: those get sessions of ours.
const modern = createMcpHandler(floodServer, { legacy: 'reject' });
const sessions = new Map();

async function handle(request, options) {
    if (!(await isLegacyRequest(request))) {
        return modern.fetch(request, options);
    }
    const id = request.headers.get('mcp-session-id');
    let transport = sessions.get(id);
    if (!transport) {
        if (id !== null) {
            return new Response(null, { status: 404 });
        }
        transport = new WebStandardStreamableHTTPServerTransport({
            sessionIdGenerator: randomUUID,
            onsessioninitialized: (started) => sessions.set(started, transport),
            onsessionclosed: (ended) => sessions.delete(ended),
        });
        await floodServer().connect(transport);
    }
    return transport.handleRequest(request, options);
}

if (transportArgument() === 'stdio') {
    serveStdio(floodServer);
} else {
    serveHttp(toNodeHandler({ fetch: handle }));
}
