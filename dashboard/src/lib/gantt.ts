// The layout of the timeline. Pure: runs in, rectangles out; the canvas only paints them.
import type { RunSummary, RunState } from './types';
import { offsetOf } from './zone.svelte';

interface Piece {
  run: string;
  job: string;
  node: string;
  from: number;
  /** Infinity for a run that has not ended. */
  to: number;
  /** `wait` is the time between due and started, `gap` the time between two attempts. */
  kind: 'attempt' | 'wait' | 'gap';
  state: RunState;
  attempt: number;
}

export interface Bar extends Piece {
  lane: number;
  row: number;
}

/** Each lane has its own bars, so that painting skips lanes out of view. */
export interface Lane {
  node: string;
  rows: number;
  /** How many more rows the lane would need; their bars are left out. */
  folded: number;
  /** The number of rows in the lanes above. */
  top: number;
  bars: Bar[];
}

export interface Layout {
  lanes: Lane[];
  rows: number;
  /** The number of runs within the span. */
  runs: number;
}

const name = (id: string | null): string => (id === null ? '' : (id.split('#')[0] ?? id));
const order = new Intl.Collator('en', { numeric: true });

interface Parsed {
  due: number;
  ended: number;
  pieces: Piece[];
}

/** Unchanged runs keep their identity, so their times are parsed once. */
const cache = new WeakMap<RunSummary, Parsed>();

function parsed(run: RunSummary): Parsed {
  let found = cache.get(run);
  if (found === undefined) {
    found = { due: Date.parse(run.fire_at), ended: run.ended_at === null ? Infinity : Date.parse(run.ended_at), pieces: piecesOf(run) };
    cache.set(run, found);
  }
  return found;
}

function piecesOf(run: RunSummary): Piece[] {
  const found: Piece[] = [];
  let last = Date.parse(run.fire_at);
  const add = (id: string | null, from: number, to: number, state: RunState, attempt: number) => {
    const node = name(id);
    if (node === '') return;
    const one = { run: run.id, job: run.job, node, attempt };
    if (from > last) found.push({ ...one, from: last, to: from, kind: attempt === 1 ? 'wait' : 'gap', state: run.state });
    found.push({ ...one, from, to, kind: 'attempt', state });
    last = to;
  };
  for (const attempt of run.attempts) {
    if (attempt.started_at === null) continue;
    const { outcome } = attempt;
    const state = outcome === 'ok' ? 'succeeded' : outcome === 'lost' || outcome === 'cancelled' || outcome === 'skipped' ? outcome : 'failed';
    add(attempt.node, Date.parse(attempt.started_at), Date.parse(attempt.ended_at), state, attempt.n);
  }
  if (run.started_at !== null && run.attempts.every((attempt) => attempt.n < run.attempt)) {
    add(run.node, Date.parse(run.started_at), run.ended_at === null ? Infinity : Date.parse(run.ended_at), run.state, run.attempt);
  }
  return found;
}

/** Lays out the runs of a span with a lane for each node. A bar goes into the first row in which it overlaps nothing.
 *  Waits shorter than `least` are left out, and every bar takes up at least that much time. A lane has at most `most` rows.
 */
export function layout(runs: readonly RunSummary[], nodes: readonly string[], span: { from: number; to: number }, least: number, most = Infinity): Layout {
  const found: Piece[] = [];
  let count = 0;
  for (const run of runs) {
    const { due, ended, pieces } = parsed(run);
    if (due >= span.to || ended <= span.from) continue;
    count += 1;
    for (const piece of pieces) if (piece.kind === 'attempt' || piece.to - piece.from > least) found.push(piece);
  }
  found.sort((a, b) => a.from - b.from);
  const all = [...new Set([...nodes, ...found.map((piece) => piece.node)])].sort(order.compare);
  const lanes = all.map<Lane>((node) => ({ node, rows: 1, folded: 0, top: 0, bars: [] }));
  const place = new Map(all.map((node, i) => [node, i]));
  const ends = all.map<number[]>(() => []);
  for (const piece of found) {
    const lane = place.get(piece.node) ?? 0;
    const busy = ends[lane]!;
    let row = busy.findIndex((end) => end <= piece.from);
    if (row < 0) row = busy.length;
    busy[row] = Math.max(piece.to, piece.from + least);
    if (row < most) lanes[lane]!.bars.push({ ...piece, lane, row });
  }
  let rows = 0;
  lanes.forEach((lane, i) => {
    lane.rows = Math.max(1, Math.min(most, ends[i]!.length));
    lane.folded = Math.max(0, ends[i]!.length - most);
    lane.top = rows;
    rows += lane.rows;
  });
  return { lanes, rows, runs: count };
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400].map((s) => s * 1000);

/** Round times for the axis, at least `apart` pixels apart; round on clocks that are `offset` ms ahead of UTC. */
export function ticks(from: number, to: number, width: number, apart = 90, offset = offsetOf(from)): number[] {
  const step = STEPS.find((one) => (one / (to - from)) * width >= apart) ?? 86_400_000;
  const found: number[] = [];
  for (let at = Math.ceil((from + offset) / step) * step - offset; at <= to; at += step) found.push(at);
  return found;
}

/** The row of each of these times, which are sorted: the first one in which the last time is far enough away. The last row
 *  takes what finds no room.
 */
export function stacked(times: readonly number[], apart: number, rows: number): number[] {
  const last = new Array<number>(rows).fill(-Infinity);
  return times.map((at) => {
    const free = last.findIndex((before) => at - before >= apart);
    const row = free < 0 ? rows - 1 : free;
    last[row] = at;
    return row;
  });
}
