// A drawing of jobs that follow each other: each job is to the right of all jobs that it follows.
import type { JobGraph } from './types';

export const BOX = { width: 168, height: 34, right: 64, below: 14 };

export interface Box {
  job: string;
  x: number;
  y: number;
}

export interface Line {
  upstream: string;
  job: string;
  label: string;
  path: string;
  x: number;
  y: number;
}

export interface Drawing {
  width: number;
  height: number;
  boxes: Box[];
  lines: Line[];
}

/** The layer of each job: one more than the last layer of the jobs that it follows. A link that closes a cycle, which two
 * changes at the same time can make, does not count. */
export function layersOf(graph: JobGraph): Map<string, number> {
  const followers = new Map<string, string[]>();
  const open = new Map(graph.jobs.map((job) => [job, 0]));
  for (const { upstream, job } of graph.edges) {
    followers.set(upstream, [...(followers.get(upstream) ?? []), job]);
    open.set(job, (open.get(job) ?? 0) + 1);
  }
  const layers = new Map<string, number>();
  const waiting = new Map<string, number>();
  let ready = graph.jobs.filter((job) => open.get(job) === 0);
  while (layers.size < graph.jobs.length) {
    // In a cycle, the first job is placed as if nothing were missing.
    if (ready.length === 0) ready = graph.jobs.filter((job) => !layers.has(job)).slice(0, 1);
    for (let job = ready.pop(); job !== undefined; job = ready.pop()) {
      if (layers.has(job)) continue;
      const layer = waiting.get(job) ?? 0;
      layers.set(job, layer);
      for (const next of followers.get(job) ?? []) {
        waiting.set(next, Math.max(waiting.get(next) ?? 0, layer + 1));
        const left = (open.get(next) ?? 0) - 1;
        open.set(next, left);
        if (left === 0) ready.push(next);
      }
    }
  }
  return layers;
}

/** A job, everything that leads to it and everything that follows it. */
export function relatedTo(graph: JobGraph, job: string): ReadonlySet<string> {
  const found = new Set([job]);
  for (const [from, to] of [['upstream', 'job'], ['job', 'upstream']] as const) {
    const next = new Map<string, string[]>();
    for (const edge of graph.edges) next.set(edge[from], [...(next.get(edge[from]) ?? []), edge[to]]);
    const seen = new Set([job]);
    for (const one of seen) for (const other of next.get(one) ?? []) seen.add(other);
    for (const one of seen) found.add(one);
  }
  return found;
}

export function draw(graph: JobGraph): Drawing {
  const layers = layersOf(graph);
  const columns: string[][] = [];
  for (const job of graph.jobs) (columns[layers.get(job) ?? 0] ??= []).push(job);
  const upstream = new Map<string, string[]>();
  for (const edge of graph.edges) upstream.set(edge.job, [...(upstream.get(edge.job) ?? []), edge.upstream]);
  const rows = new Map<string, number>();
  // Each column in the order of the middle of what its jobs follow, so that few lines cross.
  for (const column of columns) {
    const middle = new Map(column.map((job) => [job, mean((upstream.get(job) ?? []).map((one) => rows.get(one) ?? 0))]));
    column.sort((a, b) => (middle.get(a) ?? 0) - (middle.get(b) ?? 0) || (a < b ? -1 : 1));
    column.forEach((job, row) => rows.set(job, row));
  }
  const highest = Math.max(0, ...columns.map((column) => column.length));
  const place = (job: string): Box => {
    const layer = layers.get(job) ?? 0;
    const free = ((highest - (columns[layer]?.length ?? 0)) * (BOX.height + BOX.below)) / 2;
    return { job, x: layer * (BOX.width + BOX.right), y: free + (rows.get(job) ?? 0) * (BOX.height + BOX.below) };
  };
  const boxes = graph.jobs.map(place);
  const at = new Map(boxes.map((box) => [box.job, box]));
  const lines = graph.edges.flatMap((edge) => {
    const [from, to] = [at.get(edge.upstream), at.get(edge.job)];
    if (from === undefined || to === undefined) return [];
    const [x1, y1, x2, y2] = [from.x + BOX.width, from.y + BOX.height / 2, to.x - 6, to.y + BOX.height / 2];
    const bend = Math.max(24, (x2 - x1) / 2);
    const parts = [edge.on === 'succeeded' ? '' : edge.on, edge.join === 'any' && (upstream.get(edge.job)?.length ?? 0) > 1 ? 'any' : ''];
    return [{ upstream: edge.upstream, job: edge.job, label: parts.filter(Boolean).join(', '), path: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, x: x2 - 4, y: y2 - 7 }];
  });
  const width = Math.max(0, columns.length * (BOX.width + BOX.right) - BOX.right);
  return { width, height: Math.max(0, highest * (BOX.height + BOX.below) - BOX.below), boxes, lines };
}

function mean(numbers: number[]): number {
  return numbers.length === 0 ? 0 : numbers.reduce((a, b) => a + b, 0) / numbers.length;
}
