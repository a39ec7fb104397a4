// The conformance suite's contract for clients under test, for the JavaScript ones: everything but the SDK. What it
// says stands in contract.py, which this file does for Node.

import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

export const LEGACY = '2025-11-25';
export const ROUNDS = '2026-07-28';

/** What every question is answered with. */
export const ANSWER = 'An answer.';

/** How a connection ended, as a call on it found out. */
export const Ending = {
    /** While the call was on its way: it has been made. */
    CLOSED: 'closed',
    /** Before, over HTTP: the server knows no such session and has not looked at the call. */
    SESSION_UNKNOWN: 'session unknown',
};

/** The error by which a server has a person open URLs before the call is made again (2025-11-25). */
const URL_ELICITATION_REQUIRED = -32042;

/** Exit codes. */
const UNREACHABLE = 1;
const MISCONFIGURED = 2;

/** What an SDK is given for a call: the signal bounds all of its rounds together. */
export function callOptions() {
    const timeout = patienceSeconds * 1000;
    return { timeout, signal: AbortSignal.timeout(timeout) };
}

/** The revision to speak, which is one of `spoken`. */
export function revision(spoken) {
    const wanted = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION ?? LEGACY;
    if (!spoken.includes(wanted)) {
        misconfigured(
            `MCP_CONFORMANCE_PROTOCOL_VERSION: '${wanted}' is not spoken here, ${spoken.join(' and ')} is`,
        );
    }
    return wanted;
}

/** To be called by every handler of a question as it is entered. */
export async function handling(server, method) {
    note(server, method);
    await sleep(answerDelay);
}

function note(server, method) {
    if (process.env.QUESTION_CONFORMANCE_LOG) {
        appendFileSync(process.env.QUESTION_CONFORMANCE_LOG, `${server}\t${method}\n`);
    }
}

/**
 * Makes every call that each server offers, once and in order. `connect(server, address)` opens a connection: the
 * SDK's `client`, `callTool(params)`, and `ending(error)`, one of `Ending` if a call failed because of that.
 */
export async function run(connect) {
    for (const [server, address] of Object.entries(servers())) {
        if (!(await exhaust(connect, server, address))) {
            console.error(`${server} cannot be reached`);
            process.exitCode = UNREACHABLE;
        }
    }
}

/** Content for an object schema: the defaults that it states, and something valid for the rest of what it requires. */
export function filled(schema) {
    const required = schema.required ?? [];
    const members = Object.entries(schema.properties ?? {});
    return Object.fromEntries(
        members
            .filter(([name, member]) => required.includes(name) || 'default' in member)
            .map(([name, member]) => [name, value(member)]),
    );
}

if (process.env.QUESTION_CONFORMANCE_LOG) {
    // An empty log says that no handler was entered; none at all, that nothing is noted.
    appendFileSync(process.env.QUESTION_CONFORMANCE_LOG, '');
}

const answerDelay = number('QUESTION_CONFORMANCE_ANSWER_DELAY_MS', '0');
const patienceSeconds = number('QUESTION_CONFORMANCE_PATIENCE_SECONDS', '15');

function number(variable, otherwise) {
    const text = process.env[variable] ?? otherwise;
    if (!/^\d+$/.test(text)) {
        misconfigured(`${variable}: '${text}' is no whole number`);
    }
    return Number(text);
}

function misconfigured(why) {
    console.error(why);
    process.exit(MISCONFIGURED);
}

/** Names to URLs or commands. */
function servers() {
    const text = process.env.MCP_CONFORMANCE_SERVERS;
    if (text === undefined) {
        if (process.argv.length < 3) {
            misconfigured('no server: set MCP_CONFORMANCE_SERVERS or name one as the last argument');
        }
        return { server: address(process.argv.at(-1)) };
    }
    let named;
    try {
        named = JSON.parse(text);
    } catch (error) {
        misconfigured(`MCP_CONFORMANCE_SERVERS: ${error.message}`);
    }
    if (typeof named !== 'object' || named === null || Array.isArray(named)) {
        misconfigured(`MCP_CONFORMANCE_SERVERS: an object is wanted, not ${text}`);
    }
    return Object.fromEntries(Object.entries(named).map(([name, where]) => [name, address(where)]));
}

/** A URL as it is, a command as its words. */
function address(where) {
    if (/^https?:\/\//.test(where)) {
        return where;
    }
    const command = typeof where === 'string' ? words(where) : where;
    if (!Array.isArray(command) || command.length === 0 || command.some((word) => typeof word !== 'string')) {
        misconfigured(`a server is a URL or a command, not ${JSON.stringify(where)}`);
    }
    return command;
}

/** The words of a command line, with a shell's quotes and backslashes. */
function words(line) {
    const quoted = /'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^\s'"\\]+)/gs;
    return [...line.matchAll(/(?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\])+/gs)].map(([word]) =>
        word.replace(quoted, (_, single, double, escaped, plain) =>
            single ?? double?.replace(/\\(["\\$`])/g, '$1') ?? escaped ?? plain,
        ),
    );
}

/** Makes every call of a server once, connecting again for those that are left when it closes. */
async function exhaust(connect, server, where) {
    let offered;
    let made = 0;
    let repeated = 0;
    let attemptsInVain = 0;
    while (offered === undefined || made < offered.length) {
        if (attemptsInVain === 2) {
            return false;
        }
        attemptsInVain += 1;
        let connection;
        try {
            connection = await connect(server, where);
            offered = await calls(connection.client);
            for (const call of offered.slice(made)) {
                made += 1;
                attemptsInVain = 0;
                const ending = await make(connection, server, call);
                if (ending === Ending.SESSION_UNKNOWN && repeated < made) {
                    repeated = made;
                    made -= 1;
                }
                if (ending !== undefined) {
                    break;
                }
            }
        } catch (error) {
            console.error(`${server}: the connection ended: ${error}`);
        } finally {
            await connection?.client.close();
        }
    }
    return true;
}

/** What a server offers: tools, then prompts and resources if it declares them. */
async function calls(client) {
    const declared = client.getServerCapabilities() ?? {};
    const tools = await every('tools', (page) => client.listTools(page, callOptions()));
    const toolArgs = toolArguments(tools);
    const offered = tools.map(({ name }) => ({
        method: 'tools/call',
        name,
        make: (callTool) => callTool({ name, arguments: toolArgs[name] }),
    }));
    if (declared.prompts) {
        for (const prompt of await every('prompts', (page) => client.listPrompts(page, callOptions()))) {
            const required = (prompt.arguments ?? []).filter((argument) => argument.required);
            const args = Object.fromEntries(required.map((argument) => [argument.name, ANSWER]));
            offered.push({
                method: 'prompts/get',
                name: prompt.name,
                make: () => client.getPrompt({ name: prompt.name, arguments: args }, callOptions()),
            });
        }
    }
    if (declared.resources) {
        for (const { uri } of await every('resources', (page) => client.listResources(page, callOptions()))) {
            offered.push({
                method: 'resources/read',
                name: uri,
                make: () => client.readResource({ uri }, callOptions()),
            });
        }
    }
    return offered;
}

/** All entries of a list that comes in pages. */
async function every(member, method) {
    const entries = [];
    let cursor;
    do {
        const page = await method(cursor === undefined ? {} : { cursor });
        entries.push(...page[member]);
        cursor = page.nextCursor;
    } while (cursor !== undefined);
    return entries;
}

/** Makes a call and prints what came of it. Returns how the connection ended, if it did. */
async function make(connection, server, { method, name, make: send }) {
    const report = { server, method, name };
    try {
        report.result = await send(connection.callTool);
    } catch (error) {
        const { code, message, data } = error;
        report.error = { code, message, data };
        showUrls(server, error);
        return connection.ending(error);
    } finally {
        console.log(JSON.stringify(report));
    }
    return undefined;
}

/** Shows the URLs that a call's error wants opened, which no SDK here does by itself: notes them, that is. */
function showUrls(server, { code, data }) {
    if (code === URL_ELICITATION_REQUIRED && Array.isArray(data?.elicitations)) {
        data.elicitations.forEach(() => note(server, 'elicitation/create'));
    }
}

/**
 * Arguments for tools, by name. Those of some are the official suite's: the context of a scenario states them, and
 * `json_schema_echo` gets the schema of another tool, to show what the SDK has left of it.
 */
function toolArguments(tools) {
    const args = Object.fromEntries(tools.map(({ name, inputSchema }) => [name, filled(inputSchema)]));
    if ('json_schema_echo' in args) {
        args.json_schema_echo = { schema: tools.find(({ name }) => name !== 'json_schema_echo')?.inputSchema };
    }
    const { toolCalls = [] } = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
    for (const call of toolCalls) {
        args[call.name] = call.arguments ?? {};
    }
    return args;
}

function value(schema) {
    if ('default' in schema) {
        return schema.default;
    }
    if ('const' in schema) {
        return schema.const;
    }
    if (schema.enum) {
        return schema.enum[0];
    }
    const choices = schema.oneOf ?? schema.anyOf;
    if (choices) {
        return value(choices[0]);
    }
    switch (schema.type) {
        case 'object':
            return filled(schema);
        case 'array':
            return Array.from({ length: schema.minItems ?? 0 }, () => value(schema.items ?? {}));
        case 'boolean':
            return true;
        case 'integer':
        case 'number':
            return schema.minimum ?? 1;
        default:
            return text(schema);
    }
}

function text({ format, minLength }) {
    const formats = {
        email: 'someone@example.com',
        uri: 'https://example.com/',
        date: '2026-07-28',
        'date-time': '2026-07-28T00:00:00Z',
    };
    return formats[format] ?? 'text'.padEnd(minLength ?? 0, '.');
}
