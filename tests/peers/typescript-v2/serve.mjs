// Serves a server on the official TypeScript SDK 2.x as the command line says: stdio or Streamable HTTP, both eras.

import { randomUUID } from 'node:crypto';
import { toNodeHandler } from '@modelcontextprotocol/node';
import {
    WebStandardStreamableHTTPServerTransport,
    createMcpHandler,
    isLegacyRequest,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { serveHttp, transportArgument } from '../flooding.mjs';

/** Serves what `createServer` makes, anew for each session, and in 2026-07-28 over HTTP for each request. */
export function serve(createServer) {
    if (transportArgument() === 'stdio') {
        serveStdio(createServer);
    } else {
        serveHttp(toNodeHandler({ fetch: bothEras(createServer) }));
    }
}

// The SDK's handler serves 2025-era requests without sessions, where a server cannot ask: those get sessions of ours.
function bothEras(createServer) {
    const modern = createMcpHandler(createServer, { legacy: 'reject' });
    const sessions = new Map();

    return async (request, options) => {
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
            await createServer().connect(transport);
        }
        return transport.handleRequest(request, options);
    };
}
