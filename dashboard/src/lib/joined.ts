// A list from REST and what the stream told since: rows that changed are replaced, new ones that the filter wants go
// on top. Pure, and cheap for a long list: only what changed is looked at.
import type { RunBrief } from './stream';
import type { Run, RunState } from './types';

export interface RunFilter {
  job: string;
  states: readonly RunState[];
  node: string;
}

export function wanted(filter: RunFilter, run: RunBrief): boolean {
  if (filter.job !== '' && run.job !== filter.job) return false;
  if (filter.states.length > 0 && !filter.states.includes(run.state)) return false;
  return filter.node === '' || run.node === filter.node || (run.node ?? '').startsWith(`${filter.node}#`);
}

/** A full run with the newer facts of a brief one. */
export function joined(run: Run, brief: RunBrief): Run {
  return { ...run, ...brief };
}

export function patched<T extends Run | RunBrief>(rows: readonly T[], news: readonly RunBrief[], filter: RunFilter): (T | RunBrief)[] | null {
  if (news.length === 0) return null;
  const changed = new Map(news.map((run) => [run.id, run]));
  let touched = false;
  const next: (T | RunBrief)[] = [];
  for (const row of rows) {
    const brief = changed.get(row.id);
    if (brief === undefined) {
      next.push(row);
      continue;
    }
    changed.delete(row.id);
    touched = true;
    next.push({ ...row, ...brief });
  }
  const top = rows[0];
  const fresh = [...changed.values()]
    .filter((run) => wanted(filter, run) && (top === undefined || later(run, top)))
    .sort((a, b) => (later(a, b) ? -1 : 1));
  if (fresh.length === 0) return touched ? next : null;
  return [...fresh, ...next];
}

/** The order of the list: those that fell due last first. */
function later(a: { fire_at: string; id: string }, b: { fire_at: string; id: string }): boolean {
  return a.fire_at === b.fire_at ? a.id > b.id : a.fire_at > b.fire_at;
}
