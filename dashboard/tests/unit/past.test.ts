import { describe, expect, it } from 'vitest';
import { answeredAt, askedAt, clusterAt, runAt } from '../../src/lib/past';
import { diffLines, facts } from '../../src/lib/runDiff';
import type { ClusterEvent, RunDetail, RunSummary } from '../../src/lib/types';

const T0 = Date.UTC(2026, 10, 21, 12);
const at = (seconds: number) => new Date(T0 + seconds * 1000).toISOString();

const RUN: RunSummary = {
  id: 'etl@1', job: 'etl', fire_at: at(0), kind: 'cron', state: 'succeeded', attempt: 2, max_attempts: 4, fence: 9, node: 'b#1', started_at: at(30), ended_at: at(40),
  lateness_ms: 1000, duration_ms: 10_000, outcome: 'ok', reason: null, error: null, dead: false,
  attempts: [
    { n: 1, node: 'a#1', started_at: at(1), ended_at: at(11), outcome: 'error' },
    { n: 2, node: 'b#1', started_at: at(30), ended_at: at(40), outcome: 'ok' },
  ],
};

describe('a run in the past', () => {
  it.each([
    [-1, null],
    [0.5, ['dispatched', 0, null, 0]],
    [5, ['running', 1, at(1), 0]],
    [20, ['retrying', 1, at(1), 1]],
    [35, ['running', 2, at(30), 1]],
    [40, ['succeeded', 2, at(30), 2]],
  ])('at %s s', (seconds, wanted) => {
    const found = runAt(RUN, T0 + seconds * 1000);
    expect(found && [found.state, found.attempt, found.started_at, found.attempts.length]).toEqual(wanted);
  });

  it('of a backfill is left out before it started, because it may have been requested later', () => {
    const backfilled = { ...RUN, kind: 'backfill' as const };
    expect(runAt(backfilled, T0 + 500)).toBeNull();
    expect(runAt(backfilled, T0 + 5_000)?.state).toBe('running');
    expect(runAt(backfilled, T0 + 20_000)?.state).toBe('retrying');
  });

  it('has no outcome, error or duration before its end', () => {
    const failed = { ...RUN, state: 'failed' as const, outcome: 'error' as const, error: 'no', dead: true };
    expect(runAt(failed, T0 + 20_000)).toMatchObject({ outcome: null, error: null, duration_ms: null, ended_at: null, dead: false });
    expect(runAt(failed, T0 + 500)?.lateness_ms).toBeNull();
    expect(runAt(failed, T0 + 20_000)?.lateness_ms).toBe(1000);
  });

  it('of which the attempt has not ended yet is running from its start', () => {
    const open = { ...RUN, state: 'running' as const, ended_at: null, attempts: RUN.attempts.slice(0, 1) };
    expect(runAt(open, T0 + 35_000)).toMatchObject({ state: 'running', attempt: 2, node: 'b#1' });
    expect(runAt(open, T0 + 15_000)).toMatchObject({ state: 'retrying', attempt: 1, node: 'a#1' });
  });
});

describe('requests at an instant', () => {
  it('end there, and states are matched in the answer', () => {
    const options = { params: { query: { state: ['running'], until: at(100), limit: 5 } } };
    expect(askedAt('/runs', options, T0)?.params?.query).toEqual({ state: null, dead: null, until: at(0), limit: 5 });
    const page = { items: [RUN, { ...RUN, id: 'later', fire_at: at(60) }], next_cursor: 'x' };
    const found = answeredAt('/runs', page, options, T0 + 5000) as { items: RunSummary[]; next_cursor: string };
    expect([found.items.map((run) => run.state), found.next_cursor]).toEqual([['running'], 'x']);
    expect((answeredAt('/runs', page, { params: { query: { state: ['failed'] } } }, T0 + 5000) as typeof found).items).toEqual([]);
  });

  it('keep an earlier end, and leave other requests alone', () => {
    expect(askedAt('/events', { params: { query: { until: at(-9) } } }, T0)?.params?.query?.until).toBe(at(-9));
    expect(askedAt('/timeline', { params: { query: { fires_until: at(9), until: at(5) } } }, T0)?.params?.query).toEqual({ until: at(0), fires_until: null });
    const options = { params: { query: { q: 'x' } } };
    expect(askedAt('/limits', options, T0)).toBe(options);
    const logs = answeredAt('/runs/{id}/logs', { items: [{ at: at(1) }, { at: at(9) }] }, undefined, T0 + 5000) as { items: unknown[] };
    expect(logs.items).toHaveLength(1);
  });
});

describe('the cluster after events', () => {
  const event = (id: number, kind: string, fields: Record<string, unknown>) => ({ id: String(id).padStart(4, '0'), at: at(id), kind, fields, severity: 'info', source: 'a', text: '' }) as unknown as ClusterEvent;

  it('has the leader of the last term and the state of every node', () => {
    const events = [
      event(1, 'node_joined', { node: 'a', version: '1.0', slots: 4 }), event(2, 'node_joined', { node: 'b', version: '1.0', slots: 4 }),
      event(3, 'leader_elected', { node: 'a', term: 7 }), event(4, 'maintenance_started', { by: 'ann' }), event(5, 'node_lost', { node: 'a', in_flight: 1 }),
      event(7, 'leader_elected', { node: 'b', term: 8 }), event(8, 'leader_stepped_down', { node: 'a', term: 7, reason: 'late' }), event(9, 'node_draining', { node: 'b' }),
    ];
    expect(clusterAt(events.slice(0, 5).reverse())).toMatchObject({ leader: null, term: 7, since: at(5), maintenance: true });
    const found = clusterAt([...events].reverse());
    expect(found).toMatchObject({ leader: 'b', term: 8, since: at(7) });
    expect(found.nodes.map((node) => [node.name, node.state, node.version, node.since])).toEqual([['a', 'lost', '1.0', at(5)], ['b', 'draining', '1.0', at(9)]]);
    expect(clusterAt([])).toEqual({ leader: null, term: null, since: null, maintenance: false, nodes: [] });
  });
});

describe('the difference of two runs', () => {
  const detail = (changes: Partial<RunDetail>) =>
    ({ ...RUN, kind: 'cron', term: 7, ver: 1, args: null, result: { rows: 4 }, result_size: null, attempts: RUN.attempts.map((one) => ({ ...one, fence: 1, duration_ms: 1000, error: null, cpu_s: 0.5, memory: null })), ...changes }) as unknown as RunDetail;

  it('has every fact, and times never count', () => {
    const found = facts(detail({}), detail({ id: 'etl@2', fire_at: at(60), ver: 2, node: 'c#1', args: { region: 'eu' } }));
    expect(found.filter((fact) => fact.differs).map((fact) => fact.name)).toEqual(['Version', 'Arguments', 'Node']);
    expect(found.find((fact) => fact.name === 'CPU of the last attempt')?.a).toBe('500 ms');
    expect(found.find((fact) => fact.name === 'Memory of the last attempt')?.a).toBe('not recorded');
  });

  it('keeps the lines that both logs have, in their order', () => {
    expect(diffLines(['start', 'read 4', 'done'], ['start', 'read 5', 'warn', 'done']).map((line) => `${line.in} ${line.text}`)).toEqual(['both start', 'a read 4', 'b read 5', 'b warn', 'both done']);
    expect(diffLines([], ['x'])).toEqual([{ text: 'x', in: 'b' }]);
    expect(diffLines([], [])).toEqual([]);
  });
});
