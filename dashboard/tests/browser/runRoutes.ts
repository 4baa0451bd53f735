// The simulation of lists of runs, their search, and actions on all runs that match.
import type { Run, RunSummary } from '../../src/lib/types';
import type { World } from './world';

/** How many runs one request of a search looks at. */
const MOST_LOOKED_AT = 2000;
const SEARCHED = ['q', 'label', 'kind'];

interface Filter {
  job: string | null;
  q: string | null;
  label: string[];
  kind: string[];
  state: string[];
  node: string | null;
  since: string | null;
  until: string | null;
}

/** The answer, or null if the path is another one. */
export function runRoutes(world: World, path: string, query: URLSearchParams, body: Record<string, unknown>): unknown {
  if (path === '/job-names') {
    const [q, limit] = [query.get('q') ?? '', Number(query.get('limit'))];
    const names = world.jobs().map((job) => job.name).filter((name) => name.includes(q));
    names.sort((a, b) => Number(b.startsWith(q)) - Number(a.startsWith(q)) || (a < b ? -1 : 1));
    return { names: names.slice(0, limit), more: names.length > limit };
  }
  if (path === '/runs' && ['chain', 'parent', 'id'].every((name) => !query.has(name)) && query.get('dead') !== 'true') return list(world, query);
  const action = /^\/runs\/(retry|ack|cancel)$/.exec(path)?.[1];
  return action === undefined ? null : bulk(world, action, body);
}

function list(world: World, query: URLSearchParams): unknown {
  const filter: Filter = {
    job: query.get('job'), q: query.get('q'), label: query.getAll('label'), kind: query.getAll('kind'), state: query.getAll('state'), node: query.get('node'),
    since: query.get('since'), until: query.get('until'),
  };
  const limit = Number(query.get('limit') ?? 50);
  const search = SEARCHED.some((name) => query.has(name));
  // Keyset pagination like the real API: the cursor is the number of the next run.
  const newest = Number(world.run(0).id.split('~')[1]);
  const step = query.get('order') === 'oldest' ? 1 : -1;
  const first = step === 1 ? newest - world.total + 1 : newest;
  const start = query.get('cursor') === null ? first : Number(query.get('cursor'));
  const items: Run[] = [];
  let at = start;
  let ended = world.empty;
  for (; !ended && items.length < limit && (!search || Math.abs(at - start) < MOST_LOOKED_AT); at += step) {
    const run = world.slot(at);
    ended = at > newest || at <= newest - world.total || (step === -1 && filter.since !== null && run.fire_at < filter.since) || Math.abs(at - start) > 20_000;
    if (!ended && matches(world, run, filter)) items.push(run);
  }
  return { items: items.map(runSummary), next_cursor: ended ? null : String(at), searched_to: !ended && items.length < limit ? world.slot(at).fire_at : null };
}

function matches(world: World, run: Run, { job, q, label, kind, state, node, since, until }: Filter): boolean {
  const labels = label.length === 0 ? {} : (world.named(run.job)?.labels ?? {});
  return (
    (job === null || run.job === job) && (q === null || new RegExp(q.includes('*') ? `^${q.replaceAll('*', '.*')}$` : q).test(run.job)) &&
    label.every((one) => labels[one.split('=')[0] ?? ''] === one.split('=')[1]) && (kind.length === 0 || kind.includes(run.kind)) &&
    (state.length === 0 || state.includes(run.state)) && (node === null || run.node?.startsWith(`${node}#`) === true) &&
    (since === null || run.fire_at >= since) && (until === null || run.fire_at < until)
  );
}

function bulk(world: World, action: string, body: Record<string, unknown>): unknown {
  const filter = { job: null, q: null, label: [], kind: [], state: [], node: null, since: null, until: null, ...(body.filter as Partial<Filter>) };
  const among = action === 'cancel' ? world.recent(400).filter((run) => ['dispatched', 'running', 'retrying'].includes(run.state)) : world.dead();
  const limit = Math.min(Number(body.limit), world.bulkLimit);
  const from = among.findIndex((run) => run.id === body.cursor) + 1;
  const found = among.slice(from).filter((run) => matches(world, run, filter));
  const chosen = found.slice(0, limit);
  const next_cursor = found.length > limit ? chosen.at(-1)!.id : null;
  if (body.dry_run === true) return { items: [], skipped: [], count: chosen.length, next_cursor };
  world.bulkCalls.push({ action, ...body });
  for (const run of chosen) world.resolve(run.id);
  const items = chosen.map(({ id, state }) => ({ id, state, replay_of: id }));
  return { items, skipped: [], count: chosen.length, next_cursor };
}

/** The page lists runs only in brief. */
export function runSummary({ id, job, fire_at, kind, state, attempt, max_attempts, fence, node, started_at, ended_at, lateness_ms, duration_ms, outcome, reason, error, attempts, dead }: Run): RunSummary {
  return {
    id, job, fire_at, kind, state, attempt, max_attempts, fence, node, started_at, ended_at, lateness_ms, duration_ms, outcome, reason, error, dead,
    attempts: attempts.map((one) => ({ n: one.n, node: one.node, started_at: one.started_at, ended_at: one.ended_at, outcome: one.outcome })),
  };
}
