import { describe, expect, it } from 'vitest';
import { apply, initialState, isAfter, isGap, LINES_KEPT, lineKey, NODE_ROWS, SERIES_ROWS, withHistory, withPastEvents, withReplayCount, withSearchResults, type State } from '../../src/lib/state';
import type { ClusterEvent, SnapMessage, TickMessage, Values } from '../../src/lib/stream';
import type { LogLine } from '../../src/lib/types';

const T0 = Date.parse('2026-11-21T12:00:00Z');
const at = (second: number) => new Date(T0 + second * 1000).toISOString();

function node(name: string, changes: Partial<Values['nodes'][number]> = {}): Values['nodes'][number] {
  return { name, id: `${name}#1`, leads: false, state: 'up', cpu: 0, memory: 0, lag_s: 0, slots: 16, in_flight: 0, queued: 0, rate: 0, age_s: 1, ...changes };
}

function values(changes: Partial<Values> = {}): Values {
  return {
    at: at(0), namespace: 'default', leader: 'a', lease_left_s: 30, lease_s: 30, term: 7, elected_at: at(-60), nodes: [], nodes_more: 0,
    queue: { queued: 0, in_flight: 0, slots: 16, capacity: 16, open: 0 }, rates: { ended: 1, failed: 0 }, latency: {}, jobs: null,
    dead_letters: 0, next: [], breakers: [], servers: { redis: { ms: 1 }, mongodb: { ms: 2 } }, ...changes,
  };
}

function snap(changes: Partial<Values> = {}, seq = '1000-0'): SnapMessage {
  const series = { cluster: { at: [at(-1)], ended: [3], failed: [1], queued: [0], in_flight: [2], lateness_p50_ms: [8], lateness_p95_ms: [40], lateness_p99_ms: [80], duration_p50_ms: [90], duration_p95_ms: [500], duration_p99_ms: [900] }, nodes: { at: [], by_name: {} } };
  return { t: 'snap', seq, doc: { ...values(changes), series } };
}

function tick(second: number, patch: Partial<Values> = {}, rest: Partial<TickMessage> = {}): TickMessage {
  return { t: 'tick', seq: `${1000 + second}-0`, ts: at(second), patch: { at: at(second), ...patch }, events: [], logs: [], dropped: 0, ...rest };
}

function event(id: string, kind: string, second: number, fields: Record<string, unknown> = {}): ClusterEvent {
  return { id, at: at(second), kind, severity: 'info', source: 'n', text: kind, fields };
}

function line(n: number, fence = 1): LogLine {
  return { run: 'r', job: 'j', attempt: 1, fence, n, at: at(n), level: 'info', text: `line ${n}`, node: 'a' };
}

const play = (...messages: (SnapMessage | TickMessage)[]): State => messages.reduce(apply, initialState());
const numbers = (state: State, topic: string) => (state.tails[topic] ?? []).map((entry) => (isGap(entry) ? `gap ${entry.gap}` : entry.n));

describe('the stream', () => {
  it('ignores ticks before the first snapshot', () => {
    expect(apply(initialState(), tick(1)).ready).toBe(false);
  });

  it('has absolute values, so a missing tick does no harm', () => {
    const every = play(snap(), tick(1, { dead_letters: 1 }), tick(2, { dead_letters: 2 }), tick(3, { term: 8 }));
    const some = play(snap(), tick(2, { dead_letters: 2 }), tick(3, { term: 8 }));
    expect(some.values).toEqual(every.values);
  });

  it('is applied without changing the previous state', () => {
    const before = play(snap());
    const kept = structuredClone(before);
    apply(before, tick(1, { dead_letters: 5 }, { events: [event('1', 'job_paused', 1)], logs: [{ topic: 'run:r', lines: [line(1)] }] }));
    expect(before).toEqual(kept);
  });

  it('ignores repeated ticks, comparing stream ids as numbers', () => {
    const state = play(snap({}, '999-0'), tick(1, { dead_letters: 4 }));
    expect(apply(state, { ...tick(1), patch: { dead_letters: 9 } })).toBe(state);
    expect(isAfter('1000-0', '999-9')).toBe(true);
    expect(isAfter('1000-10', '1000-9')).toBe(true);
    expect(isAfter('1000-9', '1000-9')).toBe(false);
  });

  it('counts the ticks that the server dropped', () => {
    expect(play(snap(), tick(20, {}, { dropped: 18 })).missed).toBe(18);
  });

  it('resets the replay count with a new snapshot', () => {
    const state = withReplayCount(play(snap()), 41);
    expect(state.caughtUp).toBe(41);
    expect(apply(state, snap({}, '5000-0')).caughtUp).toBeNull();
  });
});

describe('events', () => {
  it('are kept once, newest first, including those from before the page was opened', () => {
    const state = play(snap(), tick(1, {}, { events: [event('b', 'x', 1), event('c', 'y', 1)] }), tick(2, {}, { events: [event('c', 'y', 1), event('d', 'z', 2)] }));
    expect(withPastEvents(state, [event('a', 'w', 0), event('b', 'x', 1)]).events.map((one) => one.id)).toEqual(['d', 'c', 'b', 'a']);
  });
});

describe('series', () => {
  it('begin with the ten minutes of the snapshot and grow by one row per tick', () => {
    const { series } = play(snap(), tick(1, { rates: { ended: 5, failed: 2 }, latency: { lateness_ms: { p50: 1, p95: 2, p99: 3 } } }));
    expect(series.ended).toEqual([3, 5]);
    expect(series.late_p99).toEqual([80, 3]);
    expect(series.late_p50).toEqual([8, 1]);
  });

  it('are limited, and all columns have the same length', () => {
    let state = play(snap());
    for (let second = 1; second <= SERIES_ROWS + 50; second++) state = apply(state, tick(second));
    const { nodes, node_at, ...columns } = state.series;
    expect(new Set(Object.values(columns).map((column) => column.length))).toEqual(new Set([SERIES_ROWS]));
    expect(node_at.length).toBe(NODE_ROWS);
    expect(nodes).toEqual({});
  });

  it('of a node that joins late begin with nulls', () => {
    const node = { name: 'n', id: 'n#1', leads: false, state: 'up' as const, cpu: 0.5, memory: 0.1, lag_s: 0, slots: 1, in_flight: 1, queued: 0, rate: 0, age_s: 0 };
    const { series } = play(snap(), tick(5), tick(10, { nodes: [node] }));
    expect(series.nodes.n?.cpu).toEqual([null, 0.5]);
  });
});

describe('an outage', () => {
  const shape = (state: State) => state.series.at.map((second, i) => [second - T0 / 1000, state.series.ended[i]]);
  it('leaves a gap in the series, as long as it was', () => {
    const state = play(snap({ nodes: [node('a')] }), tick(0), tick(1), tick(9));
    expect(shape(state)).toEqual([[-1, 3], [1, 1], [2, null], [3, null], [4, null], [5, null], [6, null], [7, null], [8, null], [9, 1]]);
    expect([...new Set(Object.values(state.series.nodes['a']!).map((column) => column.length))]).toEqual([state.series.node_at.length]);
  });
  it('is not a tick that comes a little late', () => {
    expect(shape(play(snap(), tick(1), tick(4)))).toEqual([[-1, 3], [1, 1], [4, 1]]);
  });
  it('is as visible to a page that was opened after it', () => {
    const message = snap();
    const { cluster } = message.doc.series;
    for (const [key, column] of Object.entries(cluster) as [keyof typeof cluster, unknown[]][]) column.unshift(key === 'at' ? at(-20) : 5);
    message.doc.series.nodes = { at: [at(-60), at(-5)], by_name: { a: { cpu: [0.1, 0.2], memory: [0, 0], lag_s: [0, 0], in_flight: [1, 2] } } };
    const { series } = play(message);
    expect(series.at.length).toBe(20);
    expect([series.ended[0], series.ended[10], series.ended[19]]).toEqual([5, null, 3]);
    expect(series.nodes['a']!.cpu).toEqual([0.1, ...new Array(10).fill(null), 0.2]);
    expect(series.node_at.length).toBe(12);
  });
  it('of any length keeps the number of rows', () => {
    const state = play(snap({ nodes: [node('a')] }), tick(0), tick(100_000), tick(100_001));
    expect([state.series.at.length, state.series.ended.length, state.series.run_p99.length]).toEqual([SERIES_ROWS, SERIES_ROWS, SERIES_ROWS]);
    expect(state.series.node_at.length).toBeLessThanOrEqual(NODE_ROWS);
    expect(state.series.nodes['a']!.cpu.length).toBe(state.series.node_at.length);
    expect(state.series.at.slice(-2)).toEqual([T0 / 1000 + 100_000, T0 / 1000 + 100_001]);
  });
});

describe('tails', () => {
  const logs = (lines: LogLine[], gap?: number | null) => ({ logs: [gap === undefined ? { topic: 'run:r', lines } : { topic: 'run:r', lines, gap }] });

  it('mark missing lines, with their number if it is known', () => {
    const state = play(snap(), tick(1, {}, logs([line(1)])), tick(2, {}, logs([line(9)], 7)), tick(3, {}, logs([], null)));
    expect(numbers(state, 'run:r')).toEqual([1, 'gap 7', 9, 'gap null']);
  });

  it('have a gap marker after a new snapshot and no repeated lines', () => {
    const state = play(snap(), tick(1, {}, logs([line(1), line(2)])), snap({}, '2000-0'), { ...tick(3, {}, logs([line(2), line(3)])), seq: '2001-0' });
    expect(numbers(state, 'run:r')).toEqual([1, 2, 'gap null', 3]);
  });

  it('have older lines in front, each line once', () => {
    const state = withHistory(play(snap(), tick(1, {}, logs([line(3), line(4)]))), 'run:r', [line(1), line(2), line(3)]);
    expect(numbers(state, 'run:r')).toEqual([1, 2, 3, 4]);
  });

  it('stay in order when stored lines arrive before the stream has sent them', () => {
    const state = withHistory(play(snap(), tick(1, {}, logs([line(2), line(5)]))), 'run:r', [line(1), line(2), line(3), line(6)]);
    expect(numbers(state, 'run:r')).toEqual([1, 2, 3, 5, 6]);
    expect(numbers(apply(state, tick(2, {}, logs([line(6), line(7)]))), 'run:r')).toEqual([1, 2, 3, 5, 6, 7]);
    const other = (n: number) => ({ ...line(n), run: 's' });
    expect(numbers(withHistory(state, 'run:r', [other(4), other(9)]), 'run:r')).toEqual([4, 1, 2, 3, 5, 6, 9]);
  });

  it('have lines that arrive late before the later ones of their run', () => {
    const late = play(snap(), tick(1, {}, logs([line(5), line(7)])), tick(2, {}, logs([line(6), line(8)])), tick(3, {}, logs([line(4)])));
    expect(numbers(late, 'run:r')).toEqual([4, 5, 6, 7, 8]);
    const begun = play(snap(), tick(1, {}, logs([line(7), line(6)])));
    expect(numbers(begun, 'run:r')).toEqual([6, 7]);
    const afterGap = play(snap(), tick(1, {}, logs([line(9)])), tick(2, {}, logs([line(12)], 2)), tick(3, {}, logs([line(8)])));
    expect(numbers(afterGap, 'run:r')).toEqual([9, 'gap 2', 8, 12]);
  });

  it('distinguish lines of two attempts', () => {
    expect(lineKey(line(1, 1))).not.toBe(lineKey(line(1, 2)));
  });

  it('are preceded by older search results, each line once', () => {
    const tail = play(snap(), tick(1, {}, logs([line(5), line(6)]))).tails['run:r']!;
    expect(withSearchResults(tail, [line(1), line(3), line(5), line(6)])).toEqual([line(1), line(3), line(5), line(6)]);
    expect(withSearchResults(tail, [line(6)])).toBe(tail);
    expect(withSearchResults([], [line(1)])).toEqual([line(1)]);
  });

  it('have no gap if history arrived before the first snapshot, and one after each later snapshot', () => {
    const early = apply(withHistory(initialState(), 'run:r', [line(1)]), snap());
    expect(early.tails['run:r']).toEqual([line(1)]);
    expect(apply(early, snap({}, '9000-0')).tails['run:r']?.map(isGap)).toEqual([false, true]);
  });

  it('are limited', () => {
    const many = Array.from({ length: LINES_KEPT + 10 }, (_, n) => line(n));
    expect(play(snap(), tick(1, {}, logs(many))).tails['run:r']?.length).toBe(LINES_KEPT);
  });
});

describe('failovers', () => {
  it('are detected when the leader is lost and replaced, including run counts', () => {
    const state = play(
      snap({ nodes: [node('a')] }), tick(1, { leader: null }), tick(3, { leader: 'b', term: 8, elected_at: at(2.8) }),
      tick(4, {}, { events: [event('1', 'runs_reassigned', 4, { count: 3 }), event('2', 'runs_lost', 4, { count: 1 })] }),
    );
    expect(state.failovers).toMatchObject([{ from: 'a', to: 'b', term: 8, took_ms: 1800, reassigned: 3, runs_lost: 1 }]);
  });

  it('start at the last renewal if the lease expired, and at its release otherwise', () => {
    const killed = play(snap({ nodes: [node('a')] }), tick(1, { lease_s: 3, lease_left_s: 0.5 }), tick(2, { leader: null }), tick(3, { leader: 'b', term: 8, elected_at: at(2.8) }));
    expect(killed.failovers).toMatchObject([{ lost_at: at(-1.5), took_ms: 4300 }]);
    const released = play(snap({ nodes: [node('a')] }), tick(1, { lease_s: 3, lease_left_s: 2.5 }), tick(2, { leader: null }), tick(3, { leader: 'b', term: 8, elected_at: at(2.8) }));
    expect(released.failovers).toMatchObject([{ lost_at: at(2), took_ms: 800 }]);
    // Renewed at 0.5, and the next tick came so late that the lease may have expired.
    const late = play(snap({ nodes: [node('a')] }), tick(1, { lease_s: 3, lease_left_s: 2.5 }), tick(4, { leader: null }), tick(5, { leader: 'b', term: 8, elected_at: at(3.9) }));
    expect(late.failovers[0]).toMatchObject({ lost_at: at(0.5), took_ms: 3400 });
    // Killed and restarted: the new process released the lease before it expired.
    for (const nodes of [[node('a', { state: 'stale', age_s: 14 })], [node('a', { state: 'draining', age_s: 14 })], [node('b')]]) {
      const again = play(snap({ nodes: [node('a')] }), tick(1, { lease_s: 30, lease_left_s: 16, nodes }), tick(2, { leader: null }), tick(3, { leader: 'b', term: 8, elected_at: at(2.8) }));
      expect(again.failovers).toMatchObject([{ lost_at: at(-13), took_ms: 15_800 }]);
    }
  });

  it('are detected between two ticks and while the page was disconnected', () => {
    expect(play(snap({ nodes: [node('a')] }), tick(1, { leader: 'b', term: 8, elected_at: at(0.4) })).failovers).toMatchObject([{ from: 'a', to: 'b', took_ms: 400 }]);
    expect(play(snap({ nodes: [node('a')] }), snap({ at: at(90), leader: 'c', term: 9, elected_at: at(40) }, '9000-0')).failovers).toMatchObject([{ from: 'a', to: 'c' }]);
  });

  it('from before the page was opened come from events, each one once', () => {
    const elected = (id: string, node: string, term: number, second: number) => event(id, 'leader_elected', second, { node, term });
    const events = [
      elected('1', 'a', 6, -900), event('2', 'leader_stepped_down', -62, { node: 'a', term: 6 }), elected('3', 'b', 7, -60),
      event('4', 'runs_lost', -59, { count: 2 }), elected('5', 'c', 8, -20), elected('6', 'd', 9, 5),
    ];
    const state = withPastEvents(play(snap({ leader: 'c', term: 8 }), tick(5, { leader: 'd', term: 9, elected_at: at(5) })), events);
    expect(state.failovers.map((one) => [one.from, one.to, one.term, one.took_ms, one.runs_lost])).toEqual([
      ['c', 'd', 9, 5000, 0], ['b', 'c', 8, null, 0], ['a', 'b', 7, 2000, 2],
    ]);
    expect(withPastEvents(state, events).failovers).toBe(state.failovers);
  });

  it('from before the page was opened have their duration from the event, and count the runs lost since', () => {
    const elected = (id: string, node: string, term: number, second: number, renewed: number | null) => event(id, 'leader_elected', second, { node, term, renewed: renewed === null ? '' : at(renewed) });
    const killed = [elected('1', 'a', 6, -900, null), event('2', 'runs_lost', -25, { count: 3 }), elected('3', 'b', 7, -20, -50.4)];
    expect(withPastEvents(play(snap({ leader: 'b', term: 7 })), killed).failovers).toMatchObject([{ from: 'a', to: 'b', took_ms: 30_400, lost_at: at(-50.4), elected_at: at(-20), runs_lost: 3 }]);
    // A leader that stepped down was lost then, although it had renewed its lease earlier.
    const released = [elected('1', 'a', 6, -900, null), event('2', 'leader_stepped_down', -22, { node: 'a', term: 6 }), elected('3', 'b', 7, -20, -34)];
    expect(withPastEvents(play(snap({ leader: 'b', term: 7 })), released).failovers).toMatchObject([{ took_ms: 2000 }]);
  });

  it('do not include runs that are lost much later', () => {
    const state = play(snap({ nodes: [node('a')] }), tick(1, { leader: 'b', term: 8 }), tick(120, {}, { events: [event('1', 'runs_lost', 120, { count: 4 })] }));
    expect(state.failovers[0]?.runs_lost).toBe(0);
  });
});
