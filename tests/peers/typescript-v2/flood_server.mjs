// A server on the official TypeScript SDK 2.x that asks its client many questions within one call or in rounds.

import { McpServer, inputRequired } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { flood, floodInput, form, json, roundsInput, samplingParams } from '../flooding.mjs';
import { serve } from './serve.mjs';

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

/** Sends a question on its call's own stream. On the session's stream the SDK drops it while no client has opened that. */
const within = (mcpReq) => ({ relatedRequestId: mcpReq.id });

function floodServer() {
    const server = new McpServer({ name: 'flood-typescript-v2', version: '1.0.0' });
    server.registerTool(
        'flood_sampling',
        {
            description: 'Asks for `count` completions, one after the other or all at once.',
            inputSchema: z.object(floodInput),
        },
        (input, { mcpReq }) =>
            flood(input, (text) => mcpReq.requestSampling(samplingParams(text), within(mcpReq))),
    );
    server.registerTool(
        'flood_elicitation',
        {
            description: 'Asks the user `count` times for a line of text, one after the other or all at once.',
            inputSchema: z.object(floodInput),
        },
        (input, { mcpReq }) =>
            flood(input, (text) => mcpReq.elicitInput({ message: text, requestedSchema: form }, within(mcpReq))),
    );
    server.registerTool(
        'rounds_sampling',
        { description: 'Asks for `width` completions in each of `rounds` rounds.', inputSchema: z.object(roundsInput) },
        (input, context) => nextRound(input, samplingRequest, context),
    );
    server.registerTool(
        'rounds_elicitation',
        {
            description: 'Asks the user for `width` lines of text in each of `rounds` rounds.',
            inputSchema: z.object(roundsInput),
        },
        (input, context) => nextRound(input, elicitationRequest, context),
    );
    server.registerTool(
        'counters',
        { description: 'Says what this process has asked in rounds, and how many answers it got.' },
        () => json(counters),
    );
    return server;
}

serve(floodServer);
