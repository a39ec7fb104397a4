// A whole session with `server-everything` on the official TypeScript SDK 1.x, one thing after another:
//
//     tests/peers/run typescript-v1 tests/peers/typescript-v1/session.mjs URL TIMES
//
// Each question is asked for TIMES times. Prints one JSON: how many questions reached the handlers, and what came of
// the calls that asked them. When it ends, every stream that it opened has been read to its end.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
    CallToolResultSchema,
    CreateMessageRequestSchema,
    ElicitRequestSchema,
    ListRootsRequestSchema,
    ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';

const [url, times] = process.argv.slice(2);
const RESOURCE = 'demo://resource/dynamic/text/1';

/** The streams that a GET opened: each of them resolves when it was read to its end. */
const streams = [];
let streamOpened;
const aStream = new Promise((resolve) => {
    streamOpened = resolve;
});

/** Fetches as always, and watches the streams. */
async function watched(address, init) {
    const response = await fetch(address, init);
    if (init?.method !== 'GET' || !response.ok) {
        return response;
    }
    let ended;
    streams.push(
        new Promise((resolve) => {
            ended = resolve;
        }),
    );
    streamOpened();
    const body = response.body.pipeThrough(new TransformStream({ flush: () => ended() }));
    return new Response(body, { status: response.status, headers: response.headers });
}

const client = new Client(
    { name: 'session', version: '1.0.0' },
    { capabilities: { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } } },
);
const asked = { 'sampling/createMessage': 0, 'elicitation/create': 0 };
client.setRequestHandler(CreateMessageRequestSchema, ({ method }) => {
    asked[method] += 1;
    return { role: 'assistant', content: { type: 'text', text: 'An answer — “ja”.' }, model: 'none' };
});
client.setRequestHandler(ElicitRequestSchema, ({ method }) => {
    asked[method] += 1;
    return { action: 'accept', content: { name: 'A name', check: true } };
});
client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///a', name: 'a' }] }));
const updated = new Promise((resolve) => {
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, resolve);
});

const transport = new StreamableHTTPClientTransport(new URL(url), {
    fetch: watched,
    requestInit: { headers: { Authorization: 'Bearer a-secret', 'X-Tenant': 'me', 'Mcp-Param-Region': 'eu' } },
    reconnectionOptions: {
        initialReconnectionDelay: 1000,
        maxReconnectionDelay: 1000,
        reconnectionDelayGrowFactor: 1,
        // A stream that ended stays ended.
        maxRetries: 0,
    },
});
await client.connect(transport);
await aStream;

await client.ping();
await client.setLoggingLevel('debug');
await client.listTools();
await client.listPrompts();
await client.listResources();
await client.listResourceTemplates();

await client.callTool({ name: 'echo', arguments: { message: 'Ein Gruß \u2028 an alle \u{1F600}' } });
await client.callTool({ name: 'get-tiny-image', arguments: {} });
await client.callTool({ name: 'get-sum', arguments: { a: 'no number', b: 2 } });
await client.callTool({ name: 'trigger-long-running-operation', arguments: { duration: 0.2, steps: 4 } }, undefined, {
    onprogress: () => {},
});
await client.getPrompt({ name: 'args-prompt', arguments: { city: 'Bern' } });
await client.complete({
    ref: { type: 'ref/prompt', name: 'completable-prompt' },
    argument: { name: 'department', value: 'E' },
});
await client.readResource({ uri: RESOURCE });
await client.readResource({ uri: 'demo://no/such/resource' }).catch(() => {});

// An update reaches the stream of the session, not that of a call.
await client.subscribeResource({ uri: RESOURCE });
await client.callTool({ name: 'toggle-subscriber-updates', arguments: {} });
await updated;
await client.callTool({ name: 'toggle-subscriber-updates', arguments: {} });
await client.unsubscribeResource({ uri: RESOURCE });
await client.sendRootsListChanged();

const results = [];
for (let time = 0; time < Number(times); time += 1) {
    for (const name of ['trigger-sampling-request', 'trigger-elicitation-request']) {
        const { isError = false, content } = await client.callTool({ name, arguments: { prompt: 'A question?' } });
        results.push({ name, isError, text: content[0].text });
    }
}

// A stream is resumed where it was left, with one message behind that place.
const echo = (message, options) =>
    client.request(
        { method: 'tools/call', params: { name: 'echo', arguments: { message } } },
        CallToolResultSchema,
        options,
    );
let place;
await echo('before', {
    onresumptiontoken: (id) => {
        place = id;
    },
});
await echo('after');
await transport.resumeStream(place);

await transport.terminateSession();
await Promise.all(streams);
await client.close();
console.log(JSON.stringify({ asked, results, streams: streams.length }));
