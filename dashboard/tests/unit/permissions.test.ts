import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { ROLES } from '../../src/lib/openapi.roles';
import { ACTIONS, covers, roleFor, type Action } from '../../src/lib/permissions';

const SRC = fileURLToPath(new URL('../../src/', import.meta.url));
const sources = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((file) => /\.(ts|svelte)$/.test(file) && !file.includes('openapi'))
  .map((file) => readFileSync(SRC + file, 'utf8'));
const actions = Object.keys(ACTIONS) as Action[];

describe('the actions of the page', () => {
  it.each(actions)('%s has a role in the OpenAPI document', (action) => {
    expect(ACTIONS[action].filter((operation) => ROLES[operation] === undefined)).toEqual([]);
    expect(['viewer', 'operator', 'editor', 'admin']).toContain(roleFor(action));
  });

  it('include every call that needs more than a viewer', () => {
    const calls = sources.flatMap((text) => [...text.matchAll(/\bapi\.(get|post|put|patch|delete)\('([^']+)'/g)].map(([, method, path]) => `${method!.toUpperCase()} ${path}`));
    const restricted = [...new Set(calls)].filter((call) => call in ROLES && ROLES[call as keyof typeof ROLES] !== 'viewer');
    expect(restricted.length).toBeGreaterThan(10);
    expect(Object.values(ACTIONS).flat().toSorted()).toEqual(restricted.toSorted());
  });

  it('are the only ones that buttons are marked with', () => {
    const marked = new Set(sources.flatMap((text) => [...text.matchAll(/data-act="(\w+)"/g)].map(([, action]) => action)));
    expect([...marked].toSorted()).toEqual(actions.toSorted());
  });
});

it('a role covers itself and the lower ones', () => {
  expect([covers('operator', 'viewer'), covers('operator', 'operator'), covers('operator', 'admin')]).toEqual([true, true, false]);
  expect([covers('editor', 'operator'), covers('admin', 'editor'), covers('operator', 'editor')]).toEqual([true, true, false]);
});
