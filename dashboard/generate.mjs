// Writes what the page takes from the API's OpenAPI document: the types, and the role that each operation requires.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import openapiTS, { astToString } from 'openapi-typescript';

const PREFIX = '/api/v1';
const HEAD = '// Generated from the OpenAPI document by `npm run types`.\n';
const ROOT = fileURLToPath(new URL('..', import.meta.url));

const venv = `${ROOT}.venv/bin/python`;
const python = process.env.PYTHON ?? (existsSync(venv) ? venv : 'python3');
const json = execFileSync(python, ['-m', 'tools.docs.api', 'json'], { cwd: ROOT, encoding: 'utf8', maxBuffer: 2 ** 26 });
const document = JSON.parse(json);

const roles = Object.entries(document.paths).flatMap(([path, operations]) =>
  Object.entries(operations)
    .filter(([, operation]) => operation['x-role'] !== undefined)
    .map(([method, operation]) => [`${method.toUpperCase()} ${path.replace(PREFIX, '')}`, operation['x-role']]),
);

write('openapi.d.ts', astToString(await openapiTS(document, { defaultNonNullable: false })));
write('openapi.roles.ts', `export const ROLES = ${JSON.stringify(Object.fromEntries(roles), null, 2)} as const;\n`);

/** A file that did not change keeps its modification time, so nothing is rebuilt because of it. */
function write(name, text) {
  const file = new URL(`src/lib/${name}`, import.meta.url);
  const wanted = HEAD + text;
  if (!existsSync(file) || readFileSync(file, 'utf8') !== wanted) writeFileSync(file, wanted);
}
