import { describe, expect, it } from 'vitest';
import { abilities, appsBeside, eventsOf, markOf } from '../../src/lib/nodes';
import type { ClusterEvent } from '../../src/lib/types';

const event = (id: string, node: string, kind = 'node_joined', severity: ClusterEvent['severity'] = 'info'): ClusterEvent => ({ id, at: '2026-11-21T12:00:00Z', kind, severity, source: 'api', text: '', fields: { node } });

describe('the history of a node', () => {
  it('has newer events of the stream first, each once, and none of other nodes', () => {
    const loaded = [event('2', 'n1'), event('1', 'n1')];
    const live = [event('5', 'n1'), event('4', 'n2'), event('2', 'n1')];
    expect(eventsOf('n1', live, loaded).map((one) => one.id)).toEqual(['5', '2', '1']);
  });

  it('marks an unknown kind by its severity', () => {
    expect([markOf(event('1', 'n1', 'node_lost')).tone, markOf(event('1', 'n1', 'other', 'error'))]).toEqual(['bad', { icon: 'warn', tone: 'bad' }]);
  });
});

it('the Apps of a node are compared with those of the nodes that have them', () => {
  const nodes = [{ name: 'a', apps: { billing: '1', shop: '7' } }, { name: 'b', apps: { billing: '1' } }, { name: 'c', apps: { billing: '2' } }, { name: 'd', apps: {} }];
  expect(appsBeside(nodes[0]!, nodes)).toEqual([
    { name: 'billing', fingerprint: '1', same: ['b'], other: ['c'] },
    { name: 'shop', fingerprint: '7', same: [], other: [] },
  ]);
});

it('a node that announces nothing has no list of abilities', () => {
  expect(abilities(null)).toEqual([]);
  expect(abilities({ shell: true, modules: [], hosts: null, secrets: false, amqp: true }).map((one) => one.able)).toEqual([true, false, true]);
});
