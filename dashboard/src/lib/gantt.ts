// Where the bars of the timeline stand. Pure: runs in, rectangles out; the canvas only paints them.
import type { Run, RunState } from './types';

export interface Bar {
  run: string;
  job: string;
  lane: number;
  row: number;
  from: number;
  to: number;
  /** `wait`: from when it was due until it started; `gap`: between two attempts. */
  kind: 'attempt' | 'wait' | 'gap';
  state: RunState;
  attempt: number;
}

export interface Lane {
  node: string;
  rows: number;
  top: number;
}

export interface Layout {
  bars: Bar[];
  lanes: Lane[];
  rows: number;
}

const name = (id: string | null): string => (id === null ? '' : (id.split('#')[0] ?? id));

/** Bars of one lane are put in the first row where they overlap nothing. */
export function layout(runs: Iterable<Run>, nodes: readonly string[], now: number, least: number): Layout {
  const found: Omit<Bar, 'lane' | 'row'>[] = [];
  const place: string[] = [];
  const add = (node: string, bar: Omit<Bar, 'lane' | 'row'>) => {
    found.push(bar);
    place.push(node);
  };
  for (const run of runs) {
    const due = Date.parse(run.fire_at);
    let last = due;
    for (const attempt of run.attempts) {
      if (attempt.started_at === null) continue;
      const from = Date.parse(attempt.started_at);
      const to = Date.parse(attempt.ended_at);
      const node = name(attempt.node);
      const kind = attempt.n === 1 ? 'wait' : 'gap';
      if (from - last > least) add(node, { run: run.id, job: run.job, from: last, to: from, kind, state: run.state, attempt: attempt.n });
      add(node, { run: run.id, job: run.job, from, to, kind: 'attempt', state: attempt.outcome === 'ok' ? 'succeeded' : attempt.outcome === 'lost' ? 'lost' : attempt.outcome === 'cancelled' ? 'cancelled' : attempt.outcome === 'skipped' ? 'skipped' : 'failed', attempt: attempt.n });
      last = to;
    }
    const known = run.attempts;
    const present = known.length === 0 || known.every((attempt) => attempt.n < run.attempt);
    if (present && run.started_at !== null && run.node !== null) {
      const from = Date.parse(run.started_at);
      const to = run.ended_at === null ? now : Date.parse(run.ended_at);
      if (from - last > least) add(name(run.node), { run: run.id, job: run.job, from: last, to: from, kind: known.length === 0 ? 'wait' : 'gap', state: run.state, attempt: run.attempt });
      add(name(run.node), { run: run.id, job: run.job, from, to, kind: 'attempt', state: run.state, attempt: run.attempt });
    }
  }

  const all = [...new Set([...nodes, ...place.filter((one) => one !== '')])].sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  const ends = new Map<string, number[]>(all.map((node) => [node, []]));
  const order = found.map((_, i) => i).sort((a, b) => (found[a]?.from ?? 0) - (found[b]?.from ?? 0));
  const rows = new Array<number>(found.length).fill(0);
  for (const i of order) {
    const bar = found[i];
    const busy = ends.get(place[i] ?? '');
    if (bar === undefined || busy === undefined) continue;
    let row = busy.findIndex((end) => end <= bar.from);
    if (row < 0) row = busy.push(0) - 1;
    busy[row] = Math.max(bar.to, bar.from + least);
    rows[i] = row;
  }
  let top = 0;
  const lanes = all.map((node) => {
    const lane = { node, rows: Math.max(1, ends.get(node)?.length ?? 1), top };
    top += lane.rows;
    return lane;
  });
  const index = new Map(all.map((node, i) => [node, i]));
  const bars = found.flatMap((bar, i) => {
    const lane = index.get(place[i] ?? '');
    return lane === undefined ? [] : [{ ...bar, lane, row: rows[i] ?? 0 }];
  });
  return { bars, lanes, rows: top };
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400].map((s) => s * 1000);

/** Round instants for the axis, at least so many pixels apart. */
export function ticks(from: number, to: number, width: number, apart = 90): number[] {
  const step = STEPS.find((one) => (one / (to - from)) * width >= apart) ?? 86_400_000;
  const found: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}
