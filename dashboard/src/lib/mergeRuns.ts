// Merges a freshly loaded first page into a list of runs: changed rows are replaced, new ones are inserted. Pure.
import type { RunSummary } from './types';

/** The merged rows, or null if nothing changed. */
export function mergeFirstPage(rows: readonly RunSummary[], page: readonly RunSummary[]): RunSummary[] | null {
  const newest = new Map(page.map((run) => [run.id, run]));
  let touched = false;
  const kept: RunSummary[] = [];
  for (const row of rows) {
    const now = newest.get(row.id);
    newest.delete(row.id);
    touched ||= now !== undefined && differs(row, now);
    kept.push(now !== undefined && differs(row, now) ? now : row);
  }
  // Runs below the last row are loaded by scrolling.
  const bottom = rows.at(-1);
  const fresh = [...newest.values()].filter((run) => bottom === undefined || later(run, bottom));
  if (fresh.length === 0) return touched ? kept : null;
  const next: RunSummary[] = [];
  let i = 0;
  for (const run of fresh.sort((a, b) => (later(a, b) ? -1 : 1))) {
    for (let row = kept[i]; row !== undefined && later(row, run); row = kept[++i]) next.push(row);
    next.push(run);
  }
  return next.concat(kept.slice(i));
}

/** Whether so many runs are new that some are missing between the page and the rows. */
export function hasGap(rows: readonly RunSummary[], page: readonly RunSummary[]): boolean {
  if (rows.length === 0 || page.length === 0) return false;
  const known = new Set(rows.map((run) => run.id));
  return !page.some((run) => known.has(run.id));
}

function differs(a: RunSummary, b: RunSummary): boolean {
  return a.state !== b.state || a.attempt !== b.attempt || a.fence !== b.fence || a.attempts.length !== b.attempts.length || a.dead !== b.dead;
}

/** The order of the list: newest due time first. */
function later(a: RunSummary, b: RunSummary): boolean {
  return a.fire_at === b.fire_at ? a.id > b.id : a.fire_at > b.fire_at;
}
