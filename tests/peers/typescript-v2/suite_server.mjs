// A server on the official TypeScript SDK 2.x with the tools, and the prompt, by which the official conformance suite
// has a server ask questions in both eras, log and report progress. Of the rest of the suite it offers nothing: it is
// for seeing what something between the suite and a server changes.

import { McpServer, inputRequired } from '@modelcontextprotocol/server';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { serve } from './serve.mjs';

const text = (said) => ({ content: [{ type: 'text', text: said }] });

function form(properties, required = Object.keys(properties)) {
    return { type: 'object', properties, required };
}

function sampling(question, maxTokens = 100) {
    return { messages: [{ role: 'user', content: { type: 'text', text: question } }], maxTokens };
}

const askSampling = (question) => inputRequired.createMessage(sampling(question));
const askRoots = () => inputRequired.listRoots();

/** A form with one field. */
function askFor(field, message, type = 'string') {
    return inputRequired.elicit({ message, requestedSchema: form({ [field]: { type } }) });
}

const askName = () => askFor('name', 'What is your name?');

// The tools that ask in one round: their questions, and the state that comes with them. The suite has given the names.
const ONE_ROUND = {
    test_input_required_result_elicitation: { requests: { user_name: askName() } },
    test_input_required_result_sampling: {
        requests: { capital_question: askSampling('What is the capital of France?') },
    },
    test_input_required_result_list_roots: { requests: { client_roots: askRoots() } },
    test_input_required_result_request_state: {
        requests: { confirm: askFor('ok', 'Please confirm', 'boolean') },
        state: 'state-ok',
    },
    test_input_required_result_multiple_inputs: {
        requests: { user_name: askName(), greeting: askSampling('Generate a greeting'), client_roots: askRoots() },
        state: 'all-three',
    },
};

/** Asks what is not answered yet, or returns the answers, and the state that came with them, as a text. */
function oneRound({ requests, state }, { mcpReq }) {
    const answers = mcpReq.inputResponses ?? {};
    if (Object.keys(requests).some((key) => !(key in answers))) {
        return inputRequired({ inputRequests: requests, requestState: state });
    }
    return text(`${mcpReq.requestState() ?? 'no state'}: ${JSON.stringify(answers)}`);
}

/** Asks twice, with another state each time. */
function twoRounds({ mcpReq }) {
    switch (mcpReq.requestState()) {
        case 'two':
            return text(JSON.stringify(mcpReq.inputResponses));
        case 'one':
            return inputRequired({ inputRequests: { step2: askFor('color', 'Which color?') }, requestState: 'two' });
        default:
            return inputRequired({ inputRequests: { step1: askName() }, requestState: 'one' });
    }
}

const DEFAULTS = {
    name: { type: 'string', default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true },
};

const titled = (...values) => values.map((value) => ({ const: value, title: value.toUpperCase() }));
const ENUMS = {
    untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
    titledSingle: { type: 'string', oneOf: titled('value1', 'value2', 'value3') },
    legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['One', 'Two', 'Three'] },
    untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
    titledMulti: { type: 'array', items: { anyOf: titled('value1', 'value2', 'value3') } },
};

function suiteServer() {
    const server = new McpServer({ name: 'suite-typescript-v2', version: '1.0.0' }, { capabilities: { logging: {} } });
    const tool = (name, run, inputSchema) =>
        inputSchema
            ? server.registerTool(name, { inputSchema: z.object(inputSchema) }, run)
            : server.registerTool(name, {}, run);
    // On the call's own stream: on the session's the SDK drops a question while no client has opened that, and a client
    // that opens it by one connection and calls by another may call first.
    const within = (mcpReq) => ({ relatedRequestId: mcpReq.id });
    const elicit = async ({ mcpReq }, message, requestedSchema) =>
        text(JSON.stringify(await mcpReq.elicitInput({ message, requestedSchema }, within(mcpReq))));

    tool('test_simple_text', () => text('A simple text.'));
    tool('test_error_handling', () => ({ ...text('This tool always fails.'), isError: true }));
    tool(
        'test_sampling',
        async ({ prompt }, { mcpReq }) =>
            text(JSON.stringify(await mcpReq.requestSampling(sampling(prompt), within(mcpReq)))),
        { prompt: z.string() },
    );
    tool(
        'test_elicitation',
        ({ message }, context) =>
            elicit(context, message, form({ username: { type: 'string' }, email: { type: 'string' } })),
        { message: z.string() },
    );
    tool('test_elicitation_sep1034_defaults', (context) => elicit(context, 'Defaults', form(DEFAULTS, [])));
    tool('test_elicitation_sep1330_enums', (context) => elicit(context, 'Enums', form(ENUMS, [])));
    tool('test_tool_with_logging', async ({ mcpReq }) => {
        for (const stage of ['started', 'processing data', 'completed']) {
            await mcpReq.log('info', `Tool execution: ${stage}`);
            await sleep(50);
        }
        return text('Logged.');
    });
    tool('test_tool_with_progress', async ({ mcpReq }) => {
        const { progressToken } = mcpReq._meta ?? {};
        for (const progress of [0, 50, 100]) {
            if (progressToken !== undefined) {
                const params = { progressToken, progress, total: 100 };
                await mcpReq.notify({ method: 'notifications/progress', params });
            }
            await sleep(50);
        }
        return text('Reported.');
    });
    for (const [name, round] of Object.entries(ONE_ROUND)) {
        tool(name, (context) => oneRound(round, context));
    }
    tool('test_input_required_result_multi_round', twoRounds);
    server.registerPrompt('test_input_required_result_prompt', {}, ({ mcpReq }) => {
        const { user_context: answer } = mcpReq.inputResponses ?? {};
        return answer === undefined
            ? inputRequired({ inputRequests: { user_context: askFor('context', 'Which context?') } })
            : { messages: [{ role: 'user', content: { type: 'text', text: JSON.stringify(answer) } }] };
    });
    return server;
}

serve(suiteServer);
