// What the flooding servers on the TypeScript SDKs share: counting answers, and serving on a free port.

import { createServer } from 'node:http';
import { parseArgs } from 'node:util';
import { z } from 'zod';

/** The arguments of a flood. The defaults are what a client that calls every tool with them gets to see. */
export const floodInput = { count: z.number().int().nonnegative().default(30), concurrent: z.boolean().default(false) };

/** The arguments of a call in rounds. */
export const roundsInput = {
    rounds: z.number().int().nonnegative().default(3),
    width: z.number().int().positive().default(4),
};

/** The schema of every form. */
export const form = {
    type: 'object',
    properties: { answer: { type: 'string' } },
    required: ['answer'],
};

/** The parameters of a sampling question. */
export function samplingParams(text) {
    return { messages: [{ role: 'user', content: { type: 'text', text } }], maxTokens: 16 };
}

/** A tool result that is one JSON text. */
export function json(value) {
    return { content: [{ type: 'text', text: JSON.stringify(value) }] };
}

/** Asks `count` questions, all at once or each when the one before is done, and says how they ended. */
export async function flood({ count, concurrent }, question) {
    const tally = { asked: 0, answered: 0, refused: 0, other: 0, firstRefusal: null };
    const ask = async (number) => {
        tally.asked += 1;
        try {
            await question(`question ${number}`);
            tally.answered += 1;
        } catch (error) {
            if (error.code === -32603 && typeof error.data?.cause === 'string') {
                tally.refused += 1;
                tally.firstRefusal ??= refusal(error);
            } else {
                tally.other += 1;
            }
        }
    };
    const numbers = Array.from({ length: count }, (_, number) => number);
    if (concurrent) {
        await Promise.all(numbers.map(ask));
    } else {
        for (const number of numbers) {
            await ask(number);
        }
    }
    return json(tally);
}

function refusal({ code, message, data }) {
    // The 1.x SDK puts a text of its own in front of what the client sent.
    return { code, message: message.replace(/^MCP error -?\d+: /, ''), data };
}

/** The transport named on the command line. */
export function transportArgument() {
    const { transport } = parseArgs({ options: { transport: { type: 'string', default: 'stdio' } } }).values;
    if (transport !== 'stdio' && transport !== 'http') {
        console.error(`--transport is stdio or http, not '${transport}'`);
        process.exit(2);
    }
    return transport;
}

/** Serves a Node request handler on a free port of this machine and says which one before the first request. */
export function serveHttp(handler) {
    const server = createServer(handler);
    server.listen(0, '127.0.0.1', () => {
        console.log(`listening http://127.0.0.1:${server.address().port}/mcp`);
    });
}
