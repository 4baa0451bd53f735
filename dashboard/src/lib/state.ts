// The page's only state, and the only function that changes it: `apply(state, message)`. It is pure: no clock, no socket,
// no DOM. Unchanged parts keep their identity, so views redraw only what changed.
import type { ClusterEvent, Message, SentSeries, TickMessage, Values } from './stream';
import type { LogLine } from './types';

export const SERIES_ROWS = 600;
export const NODE_ROWS = 120;
export const NODE_EVERY_S = 5;
export const EVENTS_KEPT = 300;
export const LINES_KEPT = 5000;
/** Run counts that arrive within this time after a failover are attributed to it. */
const AFTERMATH_MS = 60_000;

/** A log line, or a marker for missing lines; null means an unknown number of them. */
export type TailEntry = LogLine | { gap: number | null; at: string };

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
  /** The reassigned runs; fewer than `reassigned` if an event does not name them all. */
  moves: readonly Move[];
}

/** A run that a new leader gave to another node. */
export interface Move {
  run: string;
  from: string;
  to: string;
}

type Column = readonly (number | null)[];

/** Columns of equal length, oldest first; `at` in seconds since 1970. */
export interface Series {
  at: readonly number[];
  ended: Column;
  failed: Column;
  queued: Column;
  in_flight: Column;
  late_p50: Column;
  late_p95: Column;
  late_p99: Column;
  run_p50: Column;
  run_p95: Column;
  run_p99: Column;
  node_at: readonly number[];
  nodes: Readonly<Record<string, { cpu: Column; memory: Column; lag_s: Column; in_flight: Column }>>;
}

export interface State {
  ready: boolean;
  /** The stream position from which the next connection resumes. */
  seq: string | null;
  ts: string | null;
  values: Values | null;
  series: Series;
  events: readonly ClusterEvent[];
  tails: Readonly<Record<string, readonly TailEntry[]>>;
  failovers: readonly Failover[];
  /** How many events a resumed connection replayed; null if it began with a snapshot. */
  caughtUp: number | null;
  /** How many snapshots there were. What happened before the newest one may not be in any tick. */
  snapshots: number;
  /** Ticks that the server dropped because this page was slow. */
  missed: number;
}

export const EMPTY_SERIES: Series = {
  at: [], ended: [], failed: [], queued: [], in_flight: [], late_p50: [], late_p95: [], late_p99: [], run_p50: [],
  run_p95: [], run_p99: [], node_at: [], nodes: {},
};

export function initialState(): State {
  return {
    ready: false, seq: null, ts: null, values: null, series: EMPTY_SERIES, events: [], tails: {}, failovers: [],
    caughtUp: null, snapshots: 0, missed: 0,
  };
}

export function apply(state: State, message: Message): State {
  if (message.t === 'snap') {
    const { series, ...values } = message.doc;
    return applySnapshot(state, message.seq, values, series);
  }
  if (state.values === null) return state;
  if (state.seq !== null && !isAfter(message.seq, state.seq)) return state; // replayed twice after a resume
  return applyTick(state, state.values, message);
}

/** Whether a stream position comes after another. */
export function isAfter(seq: string, before: string): boolean {
  const [ms = 0, n = 0] = seq.split('-').map(Number);
  const [ms0 = 0, n0 = 0] = before.split('-').map(Number);
  return ms > ms0 || (ms === ms0 && n > n0);
}

/** A snapshot replaces the values. Events and failovers are kept; log tails continue after a gap marker. */
function applySnapshot(state: State, seq: string, values: Values, sent: SentSeries): State {
  const tails: Record<string, readonly TailEntry[]> = {};
  for (const [topic, lines] of Object.entries(state.tails)) {
    // Lines from before the first snapshot came from REST, so there is no gap after them.
    tails[topic] = lines.length > 0 && state.ready ? [...lines, { gap: null, at: values.at }] : lines;
  }
  const failovers = state.values === null ? state.failovers : withLeader(state.failovers, state.values, values, values.at);
  return { ...state, ready: true, seq, ts: values.at, values, series: seriesOf(sent), tails, failovers, caughtUp: null, snapshots: state.snapshots + 1 };
}

function applyTick(state: State, before: Values, tick: TickMessage): State {
  const values = { ...before, ...tick.patch };
  const seen = new Set(state.events.map((event) => event.id));
  const added = tick.events.filter((event) => !seen.has(event.id)).sort(byId);
  return {
    ...state,
    seq: tick.seq,
    ts: tick.ts,
    values,
    series: appendRow(state.series, tick.ts, values),
    events: added.length > 0 ? [...state.events, ...added].sort(byId).reverse().slice(0, EVENTS_KEPT) : state.events,
    tails: tick.logs.length > 0 ? appendLogs(state.tails, tick) : state.tails,
    failovers: withRunCounts(withLeader(state.failovers, before, values, tick.ts), added),
    missed: state.missed + tick.dropped,
  };
}

/** Records how many events a resumed connection replayed. */
export function withReplayCount(state: State, events: number): State {
  return { ...state, caughtUp: events };
}

/** Adds events that happened before the page was opened. */
export function withPastEvents(state: State, events: readonly ClusterEvent[]): State {
  const all = [...new Map([...state.events, ...events].map((event) => [event.id, event])).values()].sort(byId);
  return { ...state, events: [...all].reverse().slice(0, EVENTS_KEPT), failovers: withPastFailovers(state.failovers, all) };
}

/** Adds stored lines to a tail: those from before it in front of it, and newer ones, which the stream has not sent yet, in their place. */
export function withHistory(state: State, topic: string, lines: readonly LogLine[]): State {
  const has = state.tails[topic] ?? [];
  const known = keysOf(has);
  const first = new Map<string, LogLine>();
  for (const entry of has) if (!isGap(entry) && !first.has(entry.run)) first.set(entry.run, entry);
  const end = has.at(-1)?.at;
  const [older, newer]: [TailEntry[], LogLine[]] = [[], []];
  for (const line of lines) {
    if (known.has(lineKey(line))) continue;
    const begins = first.get(line.run);
    const later = begins === undefined ? end !== undefined && Date.parse(line.at) > Date.parse(end) : isEarlier(begins, line);
    if (later) newer.push(line);
    else older.push(line);
  }
  const tail = [...older, ...has];
  for (const line of newer) insert(tail, line);
  return { ...state, tails: { ...state.tails, [topic]: tail.slice(-LINES_KEPT) } };
}

/** Puts search results that are older than the tail in front of it. */
export function withSearchResults(entries: readonly TailEntry[], found: readonly LogLine[]): readonly TailEntry[] {
  if (found.length === 0) return entries;
  const first = entries.find((entry) => !isGap(entry));
  const begins = first === undefined ? Infinity : Date.parse(first.at);
  const known = keysOf(entries);
  const older = found.filter((line) => Date.parse(line.at) <= begins && !known.has(lineKey(line)));
  return older.length === 0 ? entries : [...older, ...entries];
}

export function withoutTail(state: State, topic: string): State {
  const { [topic]: _, ...tails } = state.tails;
  return { ...state, tails };
}

export function isGap(entry: TailEntry): entry is { gap: number | null; at: string } {
  return 'gap' in entry;
}

export function lineKey(line: LogLine): string {
  return `${line.run} ${line.fence} ${line.n}`;
}

function keysOf(entries: readonly TailEntry[]): Set<string> {
  return new Set(entries.flatMap((entry) => (isGap(entry) ? [] : [lineKey(entry)])));
}

function byId(a: ClusterEvent, b: ClusterEvent): number {
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
}

const seconds = (at: string): number => Math.floor(Date.parse(at) / 1000);

/** With more seconds than this between two rows, there were no ticks: the rows in between are blank, so that charts leave a
 *  gap. Shorter distances are ticks that came late.
 */
const OUTAGE_S = 5;

/** The instants of rows in which nothing was measured, after `last` and before `now`. */
function outage(last: number | undefined, now: number, every: number, rows: number): number[] {
  if (last === undefined || now - last <= OUTAGE_S + every) return [];
  const first = Math.max(last + every, now - every * rows);
  return Array.from({ length: Math.ceil((now - first) / every) }, (_, i) => first + i * every);
}

/** Columns with blank rows where their instants leave out more than a late tick. */
function spaced(at: readonly number[], columns: readonly Column[], every: number, rows: number): { at: readonly number[]; columns: readonly Column[] } {
  const missing = at.map((now, i) => outage(at[i - 1], now, every, rows));
  if (missing.every((one) => one.length === 0)) return { at, columns };
  const spread = <T>(column: readonly T[], blank: (instant: number) => T): T[] => column.flatMap((value, i) => [...(missing[i] ?? []).map(blank), value]).slice(-rows);
  return { at: spread(at, (instant) => instant), columns: columns.map((column) => spread<number | null>(column, () => null)) };
}

function seriesOf(sent: SentSeries): Series {
  const { at: times, ...measured } = sent.cluster;
  const keys = Object.keys(measured) as (keyof typeof measured)[];
  const all = spaced(times.map(seconds), keys.map((key) => measured[key]), 1, SERIES_ROWS);
  const cluster = { at: all.at, ...(Object.fromEntries(keys.map((key, i) => [key, all.columns[i]!])) as Record<keyof typeof measured, Column>) };
  const names = Object.keys(sent.nodes.by_name);
  const at = sent.nodes.at.map(seconds);
  const of = names.map((name) => sent.nodes.by_name[name]!);
  const FIELDS = ['cpu', 'memory', 'lag_s', 'in_flight'] as const;
  const found = spaced(at, of.flatMap((one) => FIELDS.map((field) => one[field])), NODE_EVERY_S, NODE_ROWS);
  const nodes = Object.fromEntries(names.map((name, i) => [name, { cpu: found.columns[4 * i]!, memory: found.columns[4 * i + 1]!, lag_s: found.columns[4 * i + 2]!, in_flight: found.columns[4 * i + 3]! }]));
  return {
    at: cluster.at, ended: cluster.ended, failed: cluster.failed, queued: cluster.queued,
    in_flight: cluster.in_flight, late_p50: cluster.lateness_p50_ms, late_p95: cluster.lateness_p95_ms,
    late_p99: cluster.lateness_p99_ms, run_p50: cluster.duration_p50_ms, run_p95: cluster.duration_p95_ms,
    run_p99: cluster.duration_p99_ms, node_at: found.at, nodes,
  };
}

function appended<T>(column: readonly T[], value: T, rows: number): T[] {
  const next = column.slice(Math.max(0, column.length + 1 - rows));
  next.push(value);
  return next;
}

/** The series with a blank row at each of these instants. Node rows follow when the next one is due. */
function withBlanks(series: Series, missing: readonly number[]): Series {
  const blanks = missing.map(() => null);
  const extend = (column: Column): Column => [...column, ...blanks].slice(-SERIES_ROWS);
  const gone = outage(series.node_at.at(-1), (missing.at(-1) ?? 0) + 1, NODE_EVERY_S, NODE_ROWS);
  const extendNode = (column: Column): Column => [...column, ...gone.map(() => null)].slice(-NODE_ROWS);
  return {
    at: [...series.at, ...missing].slice(-SERIES_ROWS), ended: extend(series.ended), failed: extend(series.failed), queued: extend(series.queued), in_flight: extend(series.in_flight),
    late_p50: extend(series.late_p50), late_p95: extend(series.late_p95), late_p99: extend(series.late_p99),
    run_p50: extend(series.run_p50), run_p95: extend(series.run_p95), run_p99: extend(series.run_p99),
    node_at: [...series.node_at, ...gone].slice(-NODE_ROWS),
    nodes: Object.fromEntries(Object.entries(series.nodes).map(([name, one]) => [name, { cpu: extendNode(one.cpu), memory: extendNode(one.memory), lag_s: extendNode(one.lag_s), in_flight: extendNode(one.in_flight) }])),
  };
}

/** Appends a row and drops the oldest. Columns are new arrays, because charts compare them by identity. */
export function appendRow(series: Series, ts: string, values: Values): Series {
  const now = seconds(ts);
  const missing = outage(series.at.at(-1), now, 1, SERIES_ROWS);
  if (missing.length > 0) return appendRow(withBlanks(series, missing), ts, values);
  const { rates, latency, queue } = values;
  const push = (column: Column, value: number | null | undefined): Column => appended(column, value ?? null, SERIES_ROWS);
  const next: Series = {
    ...series,
    at: appended(series.at, now, SERIES_ROWS),
    ended: push(series.ended, rates.ended),
    failed: push(series.failed, rates.failed),
    queued: push(series.queued, queue.queued),
    in_flight: push(series.in_flight, queue.in_flight),
    late_p50: push(series.late_p50, latency.lateness_ms?.p50),
    late_p95: push(series.late_p95, latency.lateness_ms?.p95),
    late_p99: push(series.late_p99, latency.lateness_ms?.p99),
    run_p50: push(series.run_p50, latency.duration_ms?.p50),
    run_p95: push(series.run_p95, latency.duration_ms?.p95),
    run_p99: push(series.run_p99, latency.duration_ms?.p99),
  };
  if (now - (series.node_at.at(-1) ?? 0) < NODE_EVERY_S) return next;
  const nodes: Record<string, Series['nodes'][string]> = {};
  for (const node of values.nodes) {
    const had = series.nodes[node.name];
    const blank = had === undefined ? new Array<null>(series.node_at.length).fill(null) : [];
    nodes[node.name] = {
      cpu: appended(had?.cpu ?? blank, node.cpu, NODE_ROWS),
      memory: appended(had?.memory ?? blank, node.memory, NODE_ROWS),
      lag_s: appended(had?.lag_s ?? blank, node.lag_s, NODE_ROWS),
      in_flight: appended(had?.in_flight ?? blank, node.in_flight, NODE_ROWS),
    };
  }
  return { ...next, node_at: appended(series.node_at, now, NODE_ROWS), nodes };
}

function appendLogs(tails: State['tails'], tick: TickMessage): State['tails'] {
  const next = { ...tails };
  for (const { topic, lines, gap } of tick.logs) {
    const has = next[topic] ?? [];
    // Only runs with new lines can have repeated ones.
    const runs = new Set(lines.map((line) => line.run));
    const known = new Set<string>();
    for (let i = Math.max(0, has.length - 1500); i < has.length; i++) {
      const entry = has[i]!;
      if (!isGap(entry) && runs.has(entry.run)) known.add(lineKey(entry));
    }
    const added: TailEntry[] = known.size === 0 ? lines.slice() : lines.filter((line) => !known.has(lineKey(line)));
    if (gap !== undefined && gap !== 0) added.unshift({ gap, at: tick.ts });
    const tail = has.slice(Math.max(0, has.length + added.length - LINES_KEPT));
    const newest = new Map<string, LogLine>();
    if (known.size > 0) for (const entry of tail.slice(-1500)) if (!isGap(entry)) newest.set(entry.run, entry);
    for (const entry of added) {
      const before = isGap(entry) ? undefined : newest.get(entry.run);
      if (!isGap(entry) && before !== undefined && isEarlier(entry, before)) insert(tail, entry);
      else tail.push(entry);
      if (!isGap(entry) && (before === undefined || isEarlier(before, entry))) newest.set(entry.run, entry);
    }
    next[topic] = tail.slice(-LINES_KEPT);
  }
  return next;
}

/** Puts a line that arrived late, because its node began to publish after it, before the later lines of its run. */
function insert(tail: TailEntry[], line: LogLine): void {
  let place = tail.length;
  for (let i = tail.length - 1; i >= 0; i--) {
    const entry = tail[i]!;
    if (isGap(entry)) break;
    if (entry.run !== line.run) continue;
    if (isEarlier(entry, line)) break;
    place = i;
  }
  tail.splice(place, 0, line);
}

function isEarlier(line: LogLine, other: LogLine): boolean {
  return line.fence < other.fence || (line.fence === other.fence && line.n < other.n);
}

/** Whether the leader has stopped sending heartbeats while it still holds the lease. */
export function leaderIsUnresponsive(values: Values): boolean {
  if (values.leader === null) return false;
  const node = values.nodes.find((one) => one.name === values.leader);
  // A draining node is never reported as stale.
  return node === undefined || node.state === 'stale' || node.age_s > values.lease_s / 3;
}

/** When the old leader was lost. A live leader sends heartbeats and renews its lease well before half of it has passed, and
 *  leads until it gives the lease up. Otherwise the last renewal is the last sign of life, even if a restarted process gave
 *  the lease back, and also if ticks were so late that the lease may have expired in between.
 */
function lostAt(before: Values, ts: string): string {
  const left = before.lease_left_s;
  if (left === null) return ts;
  const mayHaveExpired = Date.parse(ts) - Date.parse(before.at) >= left * 1000;
  if (left > before.lease_s / 2 && !leaderIsUnresponsive(before) && !mayHaveExpired) return ts;
  return new Date(Date.parse(before.at) - (before.lease_s - left) * 1000).toISOString();
}

/** Detects a failover from the values: the leader disappears, or another node leads with a higher term. */
function withLeader(failovers: readonly Failover[], before: Values, now: Values, ts: string): readonly Failover[] {
  const open = failovers[0]?.to === null ? failovers[0] : undefined;
  if (now.leader === before.leader) return failovers;
  if (now.leader === null) {
    const lost: Failover = {
      id: `${before.term}-${ts}`, from: before.leader, to: null, term: now.term, lost_at: lostAt(before, ts), elected_at: null,
      took_ms: null, runs_lost: 0, reassigned: 0, moves: [],
    };
    return [lost, ...failovers].slice(0, 20);
  }
  const elected = now.elected_at ?? ts;
  if (open !== undefined) {
    const took = Math.max(0, Date.parse(elected) - Date.parse(open.lost_at));
    return [{ ...open, to: now.leader, term: now.term, elected_at: elected, took_ms: took }, ...failovers.slice(1)];
  }
  if (before.leader === null) return failovers; // the first leader since the page was opened
  // Leadership changed between two ticks, so the page knows the time only to the second.
  const lost = lostAt(before, ts);
  const lost_at = lost === ts ? before.at : lost;
  const took = Math.max(0, Date.parse(elected) - Date.parse(lost_at));
  const swap: Failover = {
    id: `${now.term}`, from: before.leader, to: now.leader, term: now.term, lost_at, elected_at: elected,
    took_ms: took, runs_lost: 0, reassigned: 0, moves: [],
  };
  return [swap, ...failovers].slice(0, 20);
}

/** Adds failovers that the page did not witness, from events in chronological order. A leader that stepped down was lost
 *  then; of a killed one, the event of its successor has the instant of its last renewal; events of earlier versions do not.
 */
function withPastFailovers(failovers: readonly Failover[], events: readonly ClusterEvent[]): readonly Failover[] {
  const seen = new Set(failovers.map((failover) => failover.term));
  const found: Failover[] = [];
  let before: { node: string; term: number } | null = null;
  let released: ClusterEvent | null = null;
  for (const event of events) {
    if (event.kind === 'leader_stepped_down') released = event;
    if (event.kind !== 'leader_elected') continue;
    const now = { node: String(event.fields.node), term: Number(event.fields.term) };
    if (before !== null && !seen.has(now.term)) {
      const silent = typeof event.fields.renewed === 'string' && event.fields.renewed !== '' ? event.fields.renewed : null;
      const left = released !== null && Number(released.fields.term) === before.term ? released.at : silent;
      const failover: Failover = {
        id: `${now.term}`, from: before.node, to: now.node, term: now.term, lost_at: left ?? event.at, elected_at: event.at,
        took_ms: left === null ? null : Math.max(0, Date.parse(event.at) - Date.parse(left)), runs_lost: 0, reassigned: 0, moves: [],
      };
      found.push(...withRunCounts([failover], events));
    }
    before = now;
  }
  return found.length === 0 ? failovers : [...failovers, ...found].sort((a, b) => b.term - a.term).slice(0, 20);
}

function withRunCounts(failovers: readonly Failover[], events: readonly ClusterEvent[]): readonly Failover[] {
  let next = failovers;
  for (const event of events) {
    const latest = next[0];
    if (latest === undefined) continue;
    const after = Date.parse(event.at) - Date.parse(latest.lost_at);
    if (after < 0 || after > AFTERMATH_MS) continue;
    const n = typeof event.fields.count === 'number' ? event.fields.count : 0;
    if (event.kind === 'runs_lost') next = [{ ...latest, runs_lost: latest.runs_lost + n }, ...next.slice(1)];
    if (event.kind === 'runs_reassigned') next = [{ ...latest, reassigned: latest.reassigned + n, moves: [...latest.moves, ...movesOf(event)] }, ...next.slice(1)];
  }
  return next;
}

/** Each line of the event is a run, the node that had it, and the node that has it now. */
function movesOf(event: ClusterEvent): Move[] {
  if (typeof event.fields.moves !== 'string') return [];
  return event.fields.moves.split('\n').flatMap((line) => {
    const [run, from, to] = line.split(' ');
    return run && from && to ? [{ run, from, to }] : [];
  });
}
