// A list of runs, and what its first page says by now: rows that changed are replaced, new ones go on top. Pure, and
// the rows below the first page are not looked at twice.
import type { Run } from './types';

/** The rows with the newer facts; null when nothing changed. `news` is the first page of the same list, asked again. */
export function patched(rows: readonly Run[], news: readonly Run[]): Run[] | null {
  const newest = new Map(news.map((run) => [run.id, run]));
  let touched = false;
  const next: Run[] = [];
  for (const row of rows) {
    const now = newest.get(row.id);
    newest.delete(row.id);
    if (now !== undefined && differs(row, now)) {
      touched = true;
      next.push(now);
    } else {
      next.push(row);
    }
  }
  const top = rows[0];
  const fresh = [...newest.values()].filter((run) => top === undefined || later(run, top));
  if (fresh.length === 0) return touched ? next : null;
  return [...fresh.sort((a, b) => (later(a, b) ? -1 : 1)), ...next];
}

function differs(a: Run, b: Run): boolean {
  return a.state !== b.state || a.attempt !== b.attempt || a.fence !== b.fence || a.attempts.length !== b.attempts.length || a.dead !== b.dead;
}

/** The order of the list: those that fell due last first. */
function later(a: Run, b: Run): boolean {
  return a.fire_at === b.fire_at ? a.id > b.id : a.fire_at > b.fire_at;
}
