// Requests for the past, and what their responses become: every list ends at an instant, and every run is shown in the
// state that it had then, as far as its attempts record it. Pure.
import type { Attempt, ClusterEvent, RunState } from './types';

type Query = Record<string, unknown>;
type Options = { params?: { query?: Query } } | undefined;
/** What a run in a list and a run on its page have in common. */
interface AnyRun {
  kind: string;
  fire_at: string;
  state: RunState;
  attempt: number;
  node: string | null;
  started_at: string | null;
  ended_at: string | null;
  lateness_ms: number | null;
  duration_ms: number | null;
  outcome: string | null;
  reason: string | null;
  error: string | null;
  dead: boolean;
  attempts: readonly Pick<Attempt, 'n' | 'node' | 'started_at' | 'ended_at' | 'outcome'>[];
}

const RUNS = new Set(['/runs', '/jobs/{name}/runs']);

/** The earlier one of an instant that was asked for and the frozen one. */
function earlier(until: unknown, at: number): string {
  const asked = typeof until === 'string' ? Date.parse(until) : Infinity;
  return new Date(Math.min(asked, at)).toISOString();
}

/** The options of a request, so that its answer ends at the instant. The state of a run then may be another one than now, so
 *  states are matched in the answer.
 */
export function askedAt(path: string, options: Options, at: number): Options {
  const query: Query = { ...options?.params?.query };
  if (RUNS.has(path)) Object.assign(query, { until: earlier(query.until, at), state: null, dead: null });
  else if (path === '/events' || path === '/series') query.until = earlier(query.until, at);
  else if (path === '/timeline') Object.assign(query, { until: earlier(query.until, at), fires_until: null });
  else return options;
  return { ...options, params: { ...options?.params, query } };
}

/** The answer as it would have been at the instant. `options` are those before `askedAt`. */
export function answeredAt(path: string, answer: unknown, options: Options, at: number): unknown {
  if (RUNS.has(path)) {
    const page = answer as { items: AnyRun[] };
    const asked = options?.params?.query ?? {};
    const states = ([] as unknown[]).concat(asked.state ?? []);
    const items = page.items.flatMap((run) => runAt(run, at) ?? []).filter((run) => (states.length === 0 || states.includes(run.state)) && (asked.dead !== true || run.dead));
    return { ...page, items };
  }
  if (path === '/runs/{id}') return runAt(answer as AnyRun, at) ?? answer;
  if (path === '/runs/{id}/logs' || path === '/logs') {
    const page = answer as { items: { at: string }[] };
    return { ...page, items: page.items.filter((line) => Date.parse(line.at) <= at) };
  }
  return answer;
}

/** The run in the state that it had at the instant; null if it was not due yet. The due time of a backfill's run lies before its
 *  request, so such a run is left out until it started.
 */
export function runAt<R extends AnyRun>(run: R, at: number): R | null {
  if (Date.parse(run.fire_at) > at) return null;
  if (run.ended_at !== null && Date.parse(run.ended_at) <= at) return run;
  const past = run.attempts.filter((one) => Date.parse(one.ended_at) <= at);
  const now = run.attempts.find((one) => one.started_at !== null && Date.parse(one.started_at) <= at && Date.parse(one.ended_at) > at);
  const latest = now ?? (run.started_at !== null && Date.parse(run.started_at) <= at && !run.attempts.some((one) => one.started_at === run.started_at) ? { n: run.attempt, node: run.node, started_at: run.started_at } : undefined);
  if (run.kind === 'backfill' && latest === undefined && past.length === 0) return null;
  const started = [...past, ...(latest === undefined ? [] : [latest])].some((one) => one.started_at !== null);
  return {
    ...run,
    state: latest !== undefined ? 'running' : past.length > 0 ? 'retrying' : 'dispatched',
    attempt: latest?.n ?? past.at(-1)?.n ?? 0,
    node: latest?.node ?? past.at(-1)?.node ?? run.node,
    started_at: latest?.started_at ?? past.at(-1)?.started_at ?? null,
    ended_at: null, duration_ms: null, outcome: null, reason: null, error: null, dead: false,
    lateness_ms: started ? run.lateness_ms : null,
    attempts: past,
  };
}

export interface PastNode {
  name: string;
  state: 'up' | 'draining' | 'left' | 'lost';
  since: string;
  version: string;
}

export interface PastCluster {
  leader: string | null;
  /** Null: no election is recorded. */
  term: number | null;
  since: string | null;
  maintenance: boolean;
  nodes: PastNode[];
}

/** The events from which `clusterAt` reads the cluster. */
export const CLUSTER_EVENTS = [
  'leader_elected', 'leader_stepped_down', 'node_joined', 'node_left', 'node_lost', 'node_draining', 'node_drained', 'node_undrained', 'maintenance_started', 'maintenance_ended',
];

/** The leader and the nodes after these events. */
export function clusterAt(events: readonly ClusterEvent[]): PastCluster {
  const found: PastCluster = { leader: null, term: null, since: null, maintenance: false, nodes: [] };
  const nodes = new Map<string, PastNode>();
  for (const { kind, at, fields } of [...events].sort((a, b) => (a.id < b.id ? -1 : 1))) {
    const node = String(fields.node ?? '');
    const known = nodes.get(node);
    const becomes = (state: PastNode['state']) => nodes.set(node, { name: node, version: known?.version ?? '', since: at, state });
    if (kind === 'leader_elected') Object.assign(found, { leader: node, term: Number(fields.term), since: at });
    else if (kind === 'leader_stepped_down' && Number(fields.term) === found.term) Object.assign(found, { leader: null, since: at });
    else if (kind === 'maintenance_started' || kind === 'maintenance_ended') found.maintenance = kind === 'maintenance_started';
    else if (kind === 'node_joined') nodes.set(node, { name: node, version: String(fields.version ?? ''), since: at, state: 'up' });
    else if (kind === 'node_left') becomes('left');
    else if (kind === 'node_lost') {
      becomes('lost');
      // Nobody led from then on until the next election.
      if (found.leader === node) Object.assign(found, { leader: null, since: at });
    } else if (kind === 'node_draining' || kind === 'node_drained') becomes('draining');
    else if (kind === 'node_undrained') becomes('up');
  }
  found.nodes = [...nodes.values()].sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
  return found;
}
