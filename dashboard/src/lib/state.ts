// The page's one state, and the one function that changes it: `apply(state, message)`. Pure: no clock, no socket, no
// DOM; the same messages give the same state. What was not changed keeps its identity, so views redraw what moved.
import type { ClusterEvent, Message, RunBrief, Series, Snapshot, TickMessage, Values } from './stream';
import type { LogLine } from './types';

export const SERIES_ROWS = 600;
export const EVENTS_KEPT = 300;
export const RUNS_KEPT = 2000;
export const LINES_KEPT = 5000;

/** A line of a tail, or the place where lines are missing. */
export type TailEntry = LogLine | { gap: number; at: string };

export interface Failover {
  id: string;
  from: string | null;
  to: string | null;
  term: number;
  lost_at: string;
  elected_at: string | null;
  took_ms: number | null;
  runs_lost: number;
  reassigned: number;
}

export interface State {
  ready: boolean;
  seq: number;
  cursor: string | null;
  ts: string | null;
  values: Values | null;
  series: Series;
  events: readonly ClusterEvent[];
  runs: ReadonlyMap<string, RunBrief>;
  fresh: readonly RunBrief[];
  tails: Readonly<Record<string, readonly TailEntry[]>>;
  failovers: readonly Failover[];
  /** Events told since the last connection, when it resumed; null when it began with a snapshot. */
  caughtUp: number | null;
  /** Ticks that this page never saw. Their values are in later ones; their log lines are marked as gaps. */
  missed: number;
}

export const NO_SERIES: Series = {
  at: [], dispatched: [], succeeded: [], failed: [], retried: [], late_p50: [], late_p95: [], late_p99: [],
  run_p50: [], run_p95: [], run_p99: [], queued: [], in_flight: [], nodes: {},
};

export function empty(): State {
  return {
    ready: false, seq: -1, cursor: null, ts: null, values: null, series: NO_SERIES, events: [], runs: new Map(),
    fresh: [], tails: {}, failovers: [], caughtUp: null, missed: 0,
  };
}

export function apply(state: State, message: Message): State {
  if (message.op === 'snap') return begin(state, message.seq, message.cursor, message.ts, message.doc);
  if (!state.ready || state.values === null) return state;
  if (message.seq <= state.seq) return state; // told twice after a resume
  return advance(state, state.values, message);
}

/** A snapshot replaces everything but the tails, which go on with a marker, and the failovers that were seen. */
function begin(state: State, seq: number, cursor: string, ts: string, doc: Snapshot): State {
  const { series, events, runs, ...values } = doc;
  const tails: Record<string, readonly TailEntry[]> = {};
  for (const [topic, lines] of Object.entries(state.tails)) {
    tails[topic] = lines.length > 0 ? [...lines, { gap: -1, at: ts }] : lines;
  }
  return {
    ready: true, seq, cursor, ts, values, series,
    events: newestFirst(events).slice(0, EVENTS_KEPT),
    runs: new Map(runs.map((run) => [run.id, run])),
    fresh: [], tails,
    failovers: withEvents(state.failovers, oldestFirst(events)),
    caughtUp: null, missed: 0,
  };
}

function advance(state: State, before: Values, tick: TickMessage): State {
  const values = { ...before, ...tick.patch };
  const seen = new Set(state.events.slice(0, 60).map((event) => event.id));
  const news = oldestFirst(tick.events.filter((event) => !seen.has(event.id)));
  return {
    ...state,
    seq: tick.seq,
    cursor: tick.cursor,
    ts: tick.ts,
    values,
    series: grown(state.series, tick.ts, values),
    events: news.length > 0 ? [...newestFirst(news), ...state.events].slice(0, EVENTS_KEPT) : state.events,
    runs: tick.runs.length > 0 ? merged(state.runs, tick.runs) : state.runs,
    fresh: tick.runs,
    tails: tick.logs.length > 0 ? tailed(state.tails, tick) : state.tails,
    failovers: withEvents(withLeader(state.failovers, before, values, tick.ts), news),
    missed: state.missed + Math.max(0, tick.seq - state.seq - 1) + tick.dropped,
  };
}

/** What a resumed connection told before it was live again. */
export function resumed(state: State, events: number): State {
  return { ...state, caughtUp: events };
}

/** Lines that were written before the tail began: they go in front, without those that it already has. */
export function withHistory(state: State, topic: string, lines: readonly LogLine[]): State {
  const has = state.tails[topic] ?? [];
  const known = new Set(has.filter((one) => !isGap(one)).map((one) => lineKey(one as LogLine)));
  const older = lines.filter((line) => !known.has(lineKey(line)));
  return { ...state, tails: { ...state.tails, [topic]: [...older, ...has].slice(-LINES_KEPT) } };
}

export function withoutTail(state: State, topic: string): State {
  const { [topic]: _, ...tails } = state.tails;
  return { ...state, tails };
}

export function isGap(entry: TailEntry): entry is { gap: number; at: string } {
  return 'gap' in entry;
}

export function lineKey(line: LogLine): string {
  return `${line.run} ${line.fence} ${line.n}`;
}

/** One more row; the oldest falls off. Columns are new arrays, since charts compare by identity. */
export function grown(series: Series, ts: string, values: Values): Series {
  const second = Math.floor(Date.parse(ts) / 1000);
  const drop = Math.max(0, series.at.length + 1 - SERIES_ROWS);
  const push = (column: readonly (number | null)[], value: number | null): (number | null)[] => {
    const next = column.slice(drop);
    next.push(value);
    return next;
  };
  const { rates, latency, queue } = values;
  const nodes: Series['nodes'] = {};
  for (const node of values.nodes) {
    const had = series.nodes[node.name];
    const blank = had === undefined ? new Array<null>(series.at.length).fill(null) : [];
    nodes[node.name] = {
      cpu: push(had?.cpu ?? blank, node.cpu),
      memory: push(had?.memory ?? blank, node.memory),
      lag_ms: push(had?.lag_ms ?? blank, node.lag_ms),
      in_flight: push(had?.in_flight ?? blank, node.in_flight),
    };
  }
  return {
    at: push(series.at, second) as number[],
    dispatched: push(series.dispatched, rates.dispatched),
    succeeded: push(series.succeeded, rates.succeeded),
    failed: push(series.failed, rates.failed),
    retried: push(series.retried, rates.retried),
    late_p50: push(series.late_p50, latency.lateness_ms.p50),
    late_p95: push(series.late_p95, latency.lateness_ms.p95),
    late_p99: push(series.late_p99, latency.lateness_ms.p99),
    run_p50: push(series.run_p50, latency.duration_ms.p50),
    run_p95: push(series.run_p95, latency.duration_ms.p95),
    run_p99: push(series.run_p99, latency.duration_ms.p99),
    queued: push(series.queued, queue.queued),
    in_flight: push(series.in_flight, queue.in_flight),
    nodes,
  };
}

/** The newest facts win; the oldest runs are forgotten first. */
function merged(runs: ReadonlyMap<string, RunBrief>, news: readonly RunBrief[]): Map<string, RunBrief> {
  const next = new Map(runs);
  for (const run of news) {
    next.delete(run.id);
    next.set(run.id, run);
  }
  for (const id of next.keys()) {
    if (next.size <= RUNS_KEPT) break;
    next.delete(id);
  }
  return next;
}

function tailed(tails: State['tails'], tick: TickMessage): State['tails'] {
  const next = { ...tails };
  for (const { topic, lines, dropped } of tick.logs) {
    const gap: TailEntry[] = dropped > 0 ? [{ gap: dropped, at: tick.ts }] : [];
    next[topic] = [...(next[topic] ?? []), ...gap, ...lines].slice(-LINES_KEPT);
  }
  return next;
}

/** A failover is seen in the values: the leader's place falls empty or changes hands under a higher term. */
function withLeader(known: readonly Failover[], before: Values, now: Values, ts: string): readonly Failover[] {
  const open = known[0];
  if (before.leader !== null && now.leader === null) {
    const lost: Failover = {
      id: `term-${now.term}`, from: before.leader, to: null, term: now.term, lost_at: ts,
      elected_at: null, took_ms: null, runs_lost: 0, reassigned: 0,
    };
    return [lost, ...known].slice(0, 20);
  }
  if (now.leader === null || now.leader === before.leader) return known;
  const elected = now.elected_at ?? ts;
  if (before.leader === null && open !== undefined && open.to === null) {
    const took = Math.max(0, Date.parse(elected) - Date.parse(open.lost_at));
    return [{ ...open, to: now.leader, term: now.term, elected_at: elected, took_ms: took }, ...known.slice(1)];
  }
  if (before.leader === null) return known;
  const swap: Failover = {
    id: `term-${now.term}`, from: before.leader, to: now.leader, term: now.term, lost_at: ts,
    elected_at: elected, took_ms: Math.max(0, Date.parse(elected) - Date.parse(ts)), runs_lost: 0, reassigned: 0,
  };
  return [swap, ...known].slice(0, 20);
}

/** What became of the runs is told by events; it belongs to the failover of the minute before. */
function withEvents(known: readonly Failover[], events: readonly ClusterEvent[]): readonly Failover[] {
  let next = known;
  for (const event of events) {
    const latest = next[0];
    if (latest === undefined || Date.parse(event.at) - Date.parse(latest.lost_at) > 60_000) continue;
    if (Date.parse(event.at) < Date.parse(latest.lost_at)) continue;
    const count = typeof event.count === 'number' ? event.count : 0;
    if (event.kind === 'runs_lost') next = [{ ...latest, runs_lost: latest.runs_lost + count }, ...next.slice(1)];
    if (event.kind === 'runs_reassigned') next = [{ ...latest, reassigned: latest.reassigned + count }, ...next.slice(1)];
  }
  return next;
}

function newestFirst(events: readonly ClusterEvent[]): ClusterEvent[] {
  return [...events].sort((a, b) => (a.id < b.id ? 1 : a.id > b.id ? -1 : 0));
}

function oldestFirst(events: readonly ClusterEvent[]): ClusterEvent[] {
  return newestFirst(events).reverse();
}
