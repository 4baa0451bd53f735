// A list of runs, and what its first page says by now: rows that changed are replaced, new ones go on top. Pure, and
// the rows below the first page are not looked at twice.
import type { Run } from './types';

/** The rows with the newer facts; null when nothing changed. `news` is the first page of the same list, asked again. */
export function patched(rows: readonly Run[], news: readonly Run[]): Run[] | null {
  const newest = new Map(news.map((run) => [run.id, run]));
  let touched = false;
  const kept: Run[] = [];
  for (const row of rows) {
    const now = newest.get(row.id);
    newest.delete(row.id);
    touched ||= now !== undefined && differs(row, now);
    kept.push(now !== undefined && differs(row, now) ? now : row);
  }
  // What lies below the last row comes when it is scrolled to.
  const bottom = rows.at(-1);
  const fresh = [...newest.values()].filter((run) => bottom === undefined || later(run, bottom));
  if (fresh.length === 0) return touched ? kept : null;
  const next: Run[] = [];
  let i = 0;
  for (const run of fresh.sort((a, b) => (later(a, b) ? -1 : 1))) {
    for (let row = kept[i]; row !== undefined && later(row, run); row = kept[++i]) next.push(row);
    next.push(run);
  }
  return next.concat(kept.slice(i));
}

/** Whether so much is new that rows are missing between the two. */
export function apart(rows: readonly Run[], news: readonly Run[]): boolean {
  if (rows.length === 0 || news.length === 0) return false;
  const known = new Set(rows.map((run) => run.id));
  return !news.some((run) => known.has(run.id));
}

function differs(a: Run, b: Run): boolean {
  return a.state !== b.state || a.attempt !== b.attempt || a.fence !== b.fence || a.attempts.length !== b.attempts.length || a.dead !== b.dead;
}

/** The order of the list: those that fell due last first. */
function later(a: Run, b: Run): boolean {
  return a.fire_at === b.fire_at ? a.id > b.id : a.fire_at > b.fire_at;
}
