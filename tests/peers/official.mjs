// Runs the official conformance suite and prints one line for each check, in an order of its own, so that two runs can
// be compared with `diff`: REVISION, SCENARIO, CHECK, STATUS and DESCRIPTION, with tabs between them.
//
//     tests/peers/run conformance-official tests/peers/official.mjs client 'COMMAND' [REVISION]
//     tests/peers/run conformance-official tests/peers/official.mjs server URL [REVISION]
//
// A client's command gets the URL of the scenario's server as its last argument, the scenario's name in
// MCP_CONFORMANCE_SCENARIO and the revision in MCP_CONFORMANCE_PROTOCOL_VERSION. Its scenarios are those that need no
// authorization server; a server is given all that its revision requires. What the suite itself prints goes to standard
// error.
//
// Exit codes: 0 every check passed, 1 some did not, 2 wrong arguments or a scenario without results.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const CLIENT_SCENARIOS = {
    '2025-11-25': [
        'initialize',
        'tools_call',
        'elicitation-sep1034-client-defaults',
        'sse-retry',
        'json-schema-2020-12-preservation',
    ],
    '2026-07-28': [
        'tools_call',
        'request-metadata',
        'sep-2322-client-request-state',
        'http-standard-headers',
        'http-custom-headers',
        'http-invalid-tool-headers',
        'json-schema-ref-no-deref',
        'json-schema-2020-12-preservation',
    ],
};
const REVISIONS = Object.keys(CLIENT_SCENARIOS);
const suite = join(process.env.PEER_FOLDER, 'node_modules', '.bin', 'conformance');

function usage(why) {
    console.error(`${why}\nusage: official.mjs client 'COMMAND'|server URL [${REVISIONS.join('|')}]`);
    process.exit(2);
}

/** Runs the suite once and returns the checks of each scenario that it ran. */
function play(args) {
    const results = mkdtempSync(join(tmpdir(), 'official-'));
    try {
        const { error } = spawnSync(process.execPath, [suite, ...args, '--output-dir', results], {
            // Both of the suite's streams are for a reader; the checks are in its files.
            stdio: ['ignore', process.stderr, process.stderr],
        });
        if (error) {
            throw error;
        }
        // A folder is named after its scenario and the time.
        return readdirSync(results)
            .filter((folder) => existsSync(join(results, folder, 'checks.json')))
            .map((folder) => ({
                scenario: folder.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, ''),
                checks: JSON.parse(readFileSync(join(results, folder, 'checks.json'), 'utf8')),
            }));
    } finally {
        rmSync(results, { recursive: true });
    }
}

const runs = {
    client: (command, revision) =>
        CLIENT_SCENARIOS[revision].map((scenario) => {
            const common = ['--command', command, '--spec-version', revision];
            const [played] = play(['client', '--scenario', scenario, ...common]);
            return { scenario, checks: played?.checks ?? [] };
        }),
    server: (url, revision) => play(['server', '--url', url, '--requirements', revision]),
};

const [role, what, revision] = process.argv.slice(2);
if (!(role in runs) || what === undefined) {
    usage(`client or server, and which, are wanted, not '${[role, what].join(' ').trim()}'`);
}
if (revision !== undefined && !REVISIONS.includes(revision)) {
    usage(`no revision '${revision}'`);
}

const lines = [];
for (const played of revision ? [revision] : REVISIONS) {
    for (const { scenario, checks } of runs[role](what, played)) {
        // The rest is the suite's log of the traffic.
        const judged = checks.filter(({ status }) => status !== 'INFO');
        if (judged.length === 0) {
            console.error(`${scenario} of ${played} has no results`);
            process.exitCode = 2;
        }
        for (const { id, status, description } of judged) {
            lines.push([played, scenario, id, status, description.replace(/\s+/g, ' ')].join('\t'));
            if (status === 'FAILURE') {
                process.exitCode ??= 1;
            }
        }
    }
}
if (lines.length === 0) {
    console.error('the suite ran nothing');
    process.exitCode = 2;
}
console.log(lines.sort().join('\n'));
