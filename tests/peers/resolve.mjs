// Lets a program that lies elsewhere import the packages of the peer in PEER_FOLDER: Node looks for `node_modules` only
// beside and above the importing file. Loaded with `node --import`; registers itself as the resolver on Node's loader
// thread, where `initialize` is called.
import { register } from 'node:module';
import { isMainThread } from 'node:worker_threads';
import { pathToFileURL } from 'node:url';

let importer;

export function initialize(data) {
    importer = data;
}

export function resolve(specifier, context, next) {
    const isPackage = !/^(\.{0,2}\/|[a-z]+:|#)/.test(specifier);
    const isProgram = context.parentURL !== undefined && !context.parentURL.includes('/node_modules/');
    return next(specifier, isPackage && isProgram ? { ...context, parentURL: importer } : context);
}

if (isMainThread) {
    register(import.meta.url, { data: pathToFileURL(`${process.env.PEER_FOLDER}/importer.mjs`).href });
}
