// A simulated cluster for the tests: twelve nodes, forty jobs, any number of runs. It is deterministic: the same second
// always has the same state.
import type { ClusterEvent, Node, SentSeries, SnapMessage, TickMessage, Values } from '../../src/lib/stream';
import type { Attempt, AuditEntry, Backfill, Days, Limit, Maintenance, NodeDetail, Pause, Job, JobCondition, JobGraph, Json, LogLine, LoginOptions, Run, RunState, Schedule, ScheduleLoad, Session, Series as SeriesOf, Span, Spread } from '../../src/lib/types';
import { healthCounts } from './troubles';

const NODES = [
  'eu-west-1', 'eu-west-2', 'eu-west-3', 'eu-central-1', 'eu-central-2', 'us-east-1', 'us-east-2', 'us-east-3',
  'us-west-1', 'ap-south-1', 'ap-south-2', 'batch-gpu-large-memory-frankfurt-07',
];

const NAMES: [string, Schedule | null, string][] = [
  ['nightly-report', { cron: '0 2 * * *', tz: 'Europe/Berlin' }, 'Builds the daily finance report'],
  ['sync-tokens', { every: '30s', tz: 'UTC' }, 'Refreshes tokens before they expire'],
  ['invoice-reminders', { cron: '0 9 * * MON-FRI', tz: 'Europe/Berlin' }, 'Reminds customers of open invoices'],
  ['rebuild-search-index', { cron: '*/15 * * * *', tz: 'UTC' }, 'Rebuilds the search index from the catalogue'],
  ['import-exchange-rates', { cron: '5 * * * *', tz: 'UTC' }, 'European Central Bank, hourly'],
  ['warehouse.customer-360.materialize-daily-aggregates-for-all-regions', { cron: '30 3 * * *', tz: 'America/New_York' }, 'A job with a long name'],
  ['backup-postgres', { cron: '15 1 * * *', tz: 'UTC' }, 'Dumps and uploads the main database'],
  ['expire-sessions', { every: '1m', tz: 'UTC' }, 'Deletes expired sessions'],
  ['thumbnail-sweeper', { cron: '*/10 * * * * *', tz: 'UTC' }, 'Renders missing thumbnails'],
  ['usage-rollup', { cron: '* * * * *', tz: 'UTC' }, 'Aggregates usage per minute'],
  ['certificate-watch', { cron: '0 */6 * * *', tz: 'UTC' }, 'Warns before certificates expire'],
  ['close-month', { cron: '30 23 L * *', tz: 'Europe/London' }, 'Closes the books at the end of the month'],
  ['migrate-legacy-accounts', null, 'Run manually'],
  ['launch-campaign', { at: '2026-12-24T18:00:00Z' }, 'Once, on Christmas Eve'],
  ['poll-carrier-status', { every: '5s', tz: 'UTC' }, 'Polls parcel carriers'],
  ['recompute-prices', { cron: '*/5 * * * *', tz: 'UTC' }, 'Recomputes catalogue prices'],
  ['webhook-redelivery', { every: '10s', tz: 'UTC' }, 'Redelivers failed webhooks'],
  ['fraud-scores', { cron: '*/2 * * * *', tz: 'UTC' }, 'Scores recent orders'],
  ['mail-digest', { cron: '0 7 * * *', tz: 'Asia/Tokyo' }, 'Sends the morning digest'],
  ['cache-warmup', { every: '45s', tz: 'UTC' }, 'Warms the front-page cache'],
];
for (let i = 0; i < 20; i++) {
  const team = ['billing', 'search', 'growth', 'data', 'platform'][i % 5] as string;
  NAMES.push([`${team}-task-${String(i + 1).padStart(2, '0')}`, { cron: `${(i * 7) % 60} * * * *`, tz: 'UTC' }, `A task of team ${team}`]);
}

/** The job that takes no arguments. */
export const SHELL = 'backup-postgres';

const ERRORS = [
  'ConnectionError: POST https://api.partner.example:443/v2/orders: connection refused after 3 attempts',
  'Timed out after 10 m',
  "KeyError: 'customer_id'",
  'psycopg.errors.DeadlockDetected: deadlock detected\nDETAIL:  Process 4711 waits for ShareLock on transaction 88123',
  'exit code 1: HTTP 503 from orders.example.com:8443 for order {slot}',
  'HTTPStatusError: 503 Service Unavailable',
];

/** The size and load of the cluster. */
export interface Scale {
  nodes: readonly string[];
  /** Time between two runs. */
  gap_ms: number;
  /** Log lines per topic and tick. */
  lines: number;
}

export const SMALL: Scale = { nodes: NODES, gap_ms: 350, lines: 3 };

/** 100 nodes and 1,000 runs per second. */
export const LARGE: Scale = { nodes: [...NODES, ...Array.from({ length: 100 - NODES.length }, (_, i) => `worker-${String(i + 1).padStart(3, '0')}`)], gap_ms: 1, lines: 200 };

export function noise(n: number): number {
  const x = Math.sin(n * 12.9898 + 78.233) * 43758.5453;
  return x - Math.floor(x);
}

const iso = (ms: number): string => new Date(ms).toISOString().replace('.000Z', 'Z');

/** The jobs that follow others. */
export const EDGES: JobGraph['edges'] = [
  { upstream: 'nightly-report', job: 'invoice-reminders', on: 'succeeded', join: 'all' },
  { upstream: 'nightly-report', job: 'rebuild-search-index', on: 'ended', join: 'all' },
  { upstream: 'nightly-report', job: 'webhook-redelivery', on: 'failed', join: 'all' },
  { upstream: 'invoice-reminders', job: 'warehouse.customer-360.materialize-daily-aggregates-for-all-regions', on: 'succeeded', join: 'all' },
  { upstream: 'rebuild-search-index', job: 'warehouse.customer-360.materialize-daily-aggregates-for-all-regions', on: 'succeeded', join: 'all' },
];

export const DESCRIPTIONS: Record<string, string> = {
  '0 2 * * *': 'at 02:00 every day', '0 9 * * MON-FRI': 'at 09:00, Monday to Friday', '*/15 * * * *': 'every 15 minutes', '5 * * * *': 'at minute 5 of every hour', '30 3 * * *': 'at 03:30 every day', '15 1 * * *': 'at 01:15 every day',
  '*/10 * * * * *': 'every 10 seconds', '* * * * *': 'every minute', '0 */6 * * *': 'every 6 hours', '30 23 L * *': 'at 23:30 on the last day of the month', '*/5 * * * *': 'every 5 minutes', '*/2 * * * *': 'every 2 minutes',
  '0 7 * * *': 'at 07:00 every day',
};

const OFF: Maintenance = { on: false, since: null, by: null, note: null, until: null };

export class World {
  term = 41;
  leader: string | null = 'eu-central-1';
  electedAt: number;
  mongo: string | null = null;
  stale: string | null = null;
  readonly draining = new Set(['us-west-1']);
  seq = 1000;
  role = 'admin';
  total = 100_000;
  empty = false;
  /** Dead letters that are counted and not listed. */
  moreDead = 0;
  /** How many runs a call changes at most, and the calls that changed some. */
  bulkLimit = 100;
  readonly bulkCalls: Record<string, unknown>[] = [];
  /** Whether jobs that start together were spread. */
  spread = false;
  /** Whether a job was changed after the plan was made. */
  changed = false;
  /** No run starts, waits or ends. */
  idle = false;
  /** The jobs that need attention. */
  troubles: JobCondition[] = [];
  /** Jobs whose next run is overdue, by how many seconds. */
  readonly behind = new Map<string, number>();
  private events: ClusterEvent[] = [];
  maintenance: Maintenance = OFF;
  private readonly paused = new Map<string, Pause>();
  private readonly closed = new Set<string>();
  private readonly requested: Backfill[] = [];
  private readonly moved = new Map<string, string>();
  private readonly resolved = new Set<string>();
  /** The slot of a run that does not end. */
  private endless: number | null = null;

  constructor(readonly scale: Scale = SMALL, readonly now: () => number = Date.now) {
    this.electedAt = now() - 3 * 3600e3;
    this.paused.set('growth-task-08', { at: iso(now() - 26 * 3600e3), by: 'ada', note: null, until: null });
    this.paused.set('mail-digest', { at: iso(now() - 5400e3), by: 'ada', note: 'the mail provider is down, see the incident channel', until: iso(now() + 4800e3) });
    this.requested.push(this.aBackfill('nightly-report~b2', 'done', 14), this.aBackfill('nightly-report~b1', 'cancelled', 30));
    this.requested.unshift(this.aBackfill('rebuild-search-index~b3', 'running', 288));
    this.event('node_joined', 'info', 'batch-gpu-large-memory-frankfurt-07 joined with 32 slots', 400e3);
    this.event('breaker_opened', 'error', 'the circuit breaker of api.partner.example opened after 5 failures', 210e3);
    this.event('job_changed', 'info', 'recompute-prices was changed', 150e3, { job: 'recompute-prices' });
    this.event('runs_failed', 'error', '3 runs of invoice-reminders failed (for example invoice-reminders@20261121T080000Z: ConnectionError: connection refused)', 96e3, { count: 3 });
    this.event('node_draining', 'warn', 'us-west-1 is draining', 61e3);
    this.event('fence_rejected', 'warn', 'a late result of fraud-scores@20261121T145800Z was rejected (ok, fence 1795272000123456)', 33e3);
  }

  event(kind: string, severity: ClusterEvent['severity'], text: string, before = 0, fields: Record<string, unknown> = {}): ClusterEvent {
    const at = this.now() - before;
    const event: ClusterEvent = { id: `${at.toString(16).padStart(14, '0')}-${this.events.length}`, at: iso(at), kind, severity, source: 'api', text, fields };
    this.events.push(event);
    return event;
  }

  nodes(second: number): Node[] {
    if (this.empty) return [];
    return this.scale.nodes.map((name, i) => {
      const slots = name.startsWith('batch') ? 32 : 16;
      const wave = 0.45 + 0.3 * Math.sin(second / 23 + i * 1.7) + 0.2 * noise(second * 13 + i);
      const draining = this.draining.has(name);
      const stale = name === this.stale;
      const inFlight = this.idle ? 0 : draining ? 2 : stale ? 5 : Math.max(0, Math.min(slots, Math.round(wave * slots)));
      return {
        name, id: `${name}#${(0x9f31c2 + i * 7919).toString(16)}`, leads: name === this.leader,
        state: stale ? 'stale' : draining ? 'draining' : 'up',
        cpu: Math.min(0.99, Math.max(0.03, wave * 0.9 + 0.05 * noise(second + i))), memory: 0.4 + 0.04 * i + 0.02 * Math.sin(second / 60),
        slots, in_flight: inFlight, queued: !this.idle && noise(second * 3 + i) > 0.8 ? 2 : 0, lag_s: (1 + 9 * noise(second * 7 + i) + (i === 5 ? 240 * Math.max(0, Math.sin(second / 40)) : 0)) / 1000,
        rate: draining || stale ? 0 : wave * 6, age_s: stale ? 12.4 : 0.4 + 4 * noise(second + i * 3),
      };
    });
  }

  values(at = this.now()): Values {
    const second = Math.floor(at / 1000);
    const nodes = this.nodes(second);
    const inFlight = nodes.reduce((sum, node) => sum + node.in_flight, 0);
    const slots = nodes.reduce((sum, node) => sum + node.slots, 0);
    const wave = (38 + 14 * Math.sin(second / 31) + 6 * noise(second)) * (this.scale === SMALL ? 1 : 1000 / this.scale.gap_ms / 40);
    const p99 = 190 + 120 * noise(second * 5) + (second % 300 < 20 ? 2400 : 0);
    return {
      at: iso(at), namespace: 'default', lease_s: 30, term: this.term, leader: this.leader, lease_left_s: this.leader === null ? null : 30 - ((second % 15) + 0.2),
      elected_at: this.leader === null ? null : iso(this.electedAt), nodes, nodes_more: 0,
      queue: { queued: nodes.reduce((sum, node) => sum + node.queued, 0), in_flight: inFlight, slots, capacity: Math.max(0, slots - inFlight), open: inFlight + 7 },
      rates: this.idle ? { ended: 0, succeeded: 0, failed: 0 } : { ended: wave, succeeded: wave - 0.4, failed: noise(second * 11) > 0.7 ? 1 + noise(second) : 0.2 },
      latency: { lateness_ms: { p50: 14 + 6 * noise(second), p95: 60 + 40 * noise(second * 3), p99 }, duration_ms: { p50: 420 + 60 * noise(second), p95: 2900 + 500 * noise(second * 2), p99: 8200 + 1500 * noise(second * 4) } },
      servers: { redis: { ms: 0.6 + 0.3 * noise(second) }, mongodb: this.mongo === null ? { ms: 2.1 + noise(second * 9) } : { error: this.mongo } },
      jobs: this.empty ? { total: 0, active: 0, paused: 0, idle: 0 } : { total: NAMES.length, active: 36, paused: 2, idle: 2 }, dead_letters: this.dead().length + this.moreDead, health: healthCounts(this.troubles),
      maintenance: this.maintenance,
      breakers: this.empty ? [] : [{ service: 'api.partner.example', nodes: ['us-east-1'] }],
      next: this.empty ? [] : NAMES.slice(0, 10).filter(([, schedule]) => schedule !== null).map(([job], i) => ({ job, at: iso((second + ([2, 3, 9, 14, 31, 44, 59, 140, 610, 2400][i % 10] as number)) * 1000) })),
    };
  }

  series(): SentSeries {
    const columns: SentSeries = { cluster: { at: [], ended: [], failed: [], queued: [], in_flight: [], lateness_p50_ms: [], lateness_p95_ms: [], lateness_p99_ms: [], duration_p50_ms: [], duration_p95_ms: [], duration_p99_ms: [] }, nodes: { at: [], by_name: {} } };
    const now = Math.floor(this.now() / 1000);
    for (let second = now - 600; second < now; second++) {
      const { at, rates, latency, queue, nodes } = this.values(second * 1000);
      const { cluster } = columns;
      cluster.at.push(at);
      cluster.ended.push(rates.ended ?? null);
      cluster.failed.push(rates.failed ?? null);
      for (const word of ['p50', 'p95', 'p99'] as const) {
        cluster[`lateness_${word}_ms`].push(latency.lateness_ms?.[word] ?? null);
        cluster[`duration_${word}_ms`].push(latency.duration_ms?.[word] ?? null);
      }
      cluster.queued.push(queue.queued);
      cluster.in_flight.push(queue.in_flight);
      if (second % 5 !== 0) continue;
      columns.nodes.at.push(at);
      for (const node of nodes) {
        const past = (columns.nodes.by_name[node.name] ??= { cpu: [], memory: [], lag_s: [], in_flight: [] });
        past.cpu.push(node.cpu);
        past.memory.push(node.memory);
        past.lag_s.push(node.lag_s);
        past.in_flight.push(node.in_flight);
      }
    }
    return columns;
  }

  history(span: Span): SeriesOf {
    const [count, step_s] = span === '15m' ? [15, 60] : span === '1h' ? [60, 60] : span === '24h' ? [144, 600] : [168, 3600];
    const last = Math.floor(this.now() / 1000 / step_s);
    const ended = Array.from({ length: count }, (_, i) => Math.round(step_s * (24 + 14 * Math.sin(i / 9) + 6 * noise(i))));
    const column = (ms: number) => ended.map((_, i) => ms * (1 + 0.4 * noise(i * ms)));
    const quantiles = (ms: number) => ({ p50: column(ms), p95: column(ms * 4), p99: column(ms * 9) });
    const failed = ended.map((n, i) => Math.round(n * 0.03 * noise(i * 3)));
    const lost = ended.map((_, i) => (i % 37 === 0 ? 2 : 0));
    return {
      span, step_s, at: ended.map((_, i) => iso((last - count + 1 + i) * step_s * 1000)), ended, failed, lost,
      succeeded: ended.map((n, i) => n - (failed[i] ?? 0) - (lost[i] ?? 0)), lateness_ms: quantiles(14), duration_ms: quantiles(420),
    };
  }

  pastEvents(): ClusterEvent[] {
    return this.empty ? [] : [...this.events].reverse();
  }

  get place(): string {
    return `${this.seq}-0`;
  }

  snapshot(): SnapMessage {
    return { t: 'snap', seq: this.place, doc: { ...this.values(), series: this.series() } };
  }

  tick(events: ClusterEvent[] = [], logs: TickMessage['logs'] = []): TickMessage {
    this.seq += 1;
    return { t: 'tick', seq: this.place, ts: iso(this.now()), patch: this.values(), events, logs, dropped: 0 };
  }

  // ---------------------------------------------------------------------------------------------------------- runs

  /** The i-th newest run; the newest is due now. About three per second. */
  run(i: number): Run {
    return this.slot(Math.floor(this.now() / this.scale.gap_ms) - i);
  }

  /** The newest run from `i` on that has ended after it started. */
  ended(i: number): Run {
    for (let n = i; ; n++) {
      const run = this.run(n);
      if (run.ended_at !== null && run.started_at !== null) return run;
    }
  }

  /** A run that is running, and will be as long as the test. */
  lasting(): Run {
    const newest = Math.floor(this.now() / this.scale.gap_ms);
    for (let slot = newest; slot > newest - 1000; slot--) {
      this.endless = slot;
      const run = this.slot(slot);
      if (run.state === 'running' && run.attempts.length === 0) return run;
    }
    throw new Error('nothing runs');
  }

  slot(slot: number): Run {
    const due = Math.floor((slot * this.scale.gap_ms) / 1000) * 1000;
    const [job] = NAMES[Math.floor(noise(slot) * NAMES.length)] as (typeof NAMES)[number];
    const { nodes } = this.scale;
    const node = nodes[Math.floor(noise(slot * 3) * nodes.length)] as string;
    const late = Math.round(20 + 300 * noise(slot * 5) ** 4);
    const took = slot === this.endless ? 3600e3 : Math.round(300 + 9000 * noise(slot * 7) ** 5 * (1 + 20 * noise(slot * 19) ** 8));
    const start = due + late;
    const luck = noise(slot * 11);
    let state: RunState = luck < 0.035 ? 'failed' : luck < 0.04 ? 'lost' : luck < 0.055 ? 'skipped' : luck < 0.06 ? 'cancelled' : 'succeeded';
    const attempts: Attempt[] = [];
    let at = start;
    const tries = state === 'failed' ? 4 : luck > 0.93 ? 2 : 1;
    const error = (ERRORS[Math.floor(noise(slot * 13) * ERRORS.length)] as string).replace('{slot}', String(slot));
    const fence = due * 1000 + (slot % 1000);
    if (state !== 'skipped') {
      for (let n = 1; n <= tries; n++) {
        const end = at + (slot !== this.endless && (state === 'failed' || n < tries) ? Math.min(took, 4000) : took);
        const good = state === 'succeeded' && n === tries;
        if (end > this.now()) break;
        attempts.push({ n, fence: fence + n, node: `${nodes[(nodes.indexOf(node) + n - 1) % nodes.length]}#9f31c2`, started_at: iso(at), ended_at: iso(end), duration_ms: end - at, outcome: good ? 'ok' : state === 'lost' ? 'lost' : state === 'cancelled' ? 'cancelled' : 'error', error: good ? null : error, cpu_s: (end - at) / 4000, memory: n === 1 ? 61_865_984 : null });
        at = end + 4000 * 2 ** (n - 1);
      }
    }
    const done = state === 'skipped' || attempts.length === tries;
    const last = attempts.at(-1);
    if (!done) state = attempts.length > 0 && at > this.now() ? 'retrying' : this.now() < start ? 'dispatched' : 'running';
    const attempt = Math.min(tries, attempts.length + (done ? 0 : 1));
    const id = `${job}@${iso(due).replaceAll(/[-:]/g, '')}~${slot}`;
    const resolved = this.resolved.has(id);
    return {
      id, job, fire_at: iso(due), kind: slot % 40 === 7 ? 'manual' : 'cron', state, attempt: Math.max(1, attempt), max_attempts: 4, fence: fence + attempt, term: this.term, ver: 3,
      node: state === 'skipped' ? null : `${node}#9f31c2`, created_at: iso(due + 5), dispatched_at: state === 'skipped' ? null : iso(due + 9),
      started_at: state === 'skipped' || state === 'dispatched' ? null : iso(attempts.length > 0 && !done && state === 'running' ? at : start),
      ended_at: done ? (last?.ended_at ?? iso(due + 6)) : null, check_at: state === 'retrying' ? iso(at) : null, lateness_ms: state === 'skipped' ? null : late,
      duration_ms: done && last ? (last.duration_ms ?? null) : null, outcome: done ? (last?.outcome ?? 'skipped') : null, reason: state === 'skipped' ? 'overlap' : null,
      cancel_requested: state === 'cancelled', cancel_reason: state === 'cancelled' ? 'wrong data' : null, cancel_by: state === 'cancelled' ? 'ada' : null,
      result_size: state === 'succeeded' && slot % 3 === 1 ? 48_210 : null, result: state === 'succeeded' && slot % 3 === 0 ? { rows: slot % 4096, region: 'eu', files: ['report.pdf', 'report.csv'] } : null,
      error: state === 'failed' || state === 'lost' ? error : null, args: { region: 'eu' }, attempts, covers: null,
      placement: { node: `${node}#9f31c2`, rank: 0.412, others: NODES.filter((one) => one !== node).slice(0, 6).map((one, n) => (n === 4 ? { node: one, reason: 'node is draining' } : { node: one, rank: 0.5 + n * 0.07 })), more: 5 },
      waiting: state === 'retrying' ? 'limit warehouse is full (8 of 8), held by recompute-prices' : null, blocked_by: null, replay_of: null, backfill: null, chain: id, depth: 0, follows: [], parent: null, shard: null, parts: null, dead: (state === 'failed' || state === 'lost') && !resolved,
      resolution: resolved ? { how: 'acknowledged', at: iso(this.now()), by: 'ada', note: 'known', run: null } : null,
    };
  }

  /** The chain of a run: runs of the jobs that follow its job. */
  chain(first: Run): Run[] {
    const found = [first];
    for (let n = 0; n < found.length && found.length < 20; n++) {
      const upstream = found[n]!;
      for (const edge of EDGES) {
        if (edge.upstream !== upstream.job || found.some((run) => run.job === edge.job)) continue;
        const held = edge.on === 'failed' || upstream.state !== 'succeeded';
        const follows = [{ job: upstream.job, run: upstream.id, state: upstream.state }];
        found.push({ ...first, id: `${edge.job}@after-${n}`, job: edge.job, kind: 'after', chain: first.id, depth: upstream.depth + 1, follows, state: held ? 'skipped' : 'succeeded', reason: held ? `${upstream.id} ${upstream.state}` : null, error: null, duration_ms: held ? null : 1200 });
      }
    }
    return found;
  }

  recent(n: number): Run[] {
    const newest = Math.floor(this.now() / this.scale.gap_ms); // once, because time passes meanwhile
    return Array.from({ length: n }, (_, i) => this.slot(newest - i));
  }

  private kept: Run[] | null = null;
  dead(): Run[] {
    if (this.empty) return [];
    this.kept ??= this.recent(2600).filter((run) => run.dead).slice(0, 64);
    return this.kept.filter((run) => !this.resolved.has(run.id));
  }

  /** Adds dead letters with later fires than the others. */
  addDead(n: number): Run[] {
    const [newest] = this.dead();
    const added = Array.from({ length: n }, (_, i) => ({ ...newest!, id: `late-failure@${i}`, job: 'late-failure', fire_at: iso(this.now() - i), error: 'OSError: disk full' }));
    this.kept = [...added, ...this.kept!];
    return added;
  }

  resolve(id: string): void {
    this.resolved.add(id);
  }

  find(id: string): Run | null {
    const slot = Number(id.split('~')[1]);
    if (!Number.isFinite(slot)) return null;
    const run = this.slot(slot);
    return run.id === id ? run : null;
  }

  // ---------------------------------------------------------------------------------------------------------- jobs

  /** Jobs that were created, changed or, if null, deleted. */
  edited: ReadonlyMap<string, Job | null> = new Map();

  jobs(): Job[] {
    const added = [...this.edited.keys()].filter((name) => !NAMES.some(([known]) => known === name));
    return this.empty ? [] : [...NAMES.map(([name]) => name), ...added].flatMap((name) => this.named(name) ?? []).sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  job(i: number): Job {
    const [name, defined, description] = NAMES[i] as (typeof NAMES)[number];
    const moved = this.moved.get(name);
    const schedule = moved === undefined ? defined : { ...defined, cron: moved };
    const pause = this.paused.get(name) ?? null;
    const paused = pause !== null;
    const disabled = name === 'data-task-14';
    return {
      name, description, schedule: schedule === null ? null : { start: null, end: null, ...schedule }, run: name === SHELL ? { shell: 'pg_dump main | ship', cwd: null, env: {}, run_as: null, when_present: null, limits: { cpu: null, memory: null, file_size: null, files: null, processes: null } } : { python: `${name.split(/[-.]/)[0]}.jobs:${name.replaceAll(/[-.]/g, '_')}`, args: { region: 'eu' }, process: false },
      retry: { max: 3, initial: '30s', multiplier: 2, cap: '15m', jitter: false, rules: [], deadline: null }, timeout: '10m', overlap: 'forbid',
      misfire: { policy: 'fire_once', late_after: '1m', grace: '1h', max_catch_up: 100 }, delivery: 'at_least_once', start_guard: 'redis', priority: 5, require: {}, concurrency: [], rate: null, breaker: null, pause_after: null, success_exit_codes: [0],
      prefer: {}, spread: false, apart_from: [], resources: { cpu: 0, memory: null }, shards: null, run_on: 'one_node', mode: 'active', replaces: null,
      labels: { team: ['billing', 'search', 'growth', 'data', 'platform'][i % 5] as string, tier: i % 3 === 0 ? 'gold' : 'silver' }, enabled: !disabled,
      words: schedule === null ? null : (DESCRIPTIONS[schedule.cron ?? ''] ?? `every ${schedule.every ?? 'hour'}`), pending_run: null, pause, open_breaker: name === 'fraud-scores' && !this.closed.has(name) ? { opened_at: iso(this.now() - 240e3), probe_at: iso(this.now() + 360e3), failed: 12, attempts: 20 } : null, state: disabled ? 'disabled' : paused ? 'paused' : schedule === null ? 'by_hand' : 'active', paused,
      next_fire: this.behind.has(name) ? iso(Math.floor(this.now() / 1000) * 1000 - this.behind.get(name)! * 1000) : schedule === null || disabled ? null : iso(Math.ceil(this.now() / 1000) * 1000 + [4, 11, 29, 58, 240, 900, 3400, 17_000, 60_000, 190_000][i % 10]! * 1000),
      after: EDGES.filter((edge) => edge.job === name).map((edge) => ({ job: edge.upstream, on: edge.on, within: null })), join: 'all', fired: 0, followers: EDGES.filter((edge) => edge.upstream === name).map((edge) => edge.job), takes_args: name !== SHELL, due_at: null, version: 1 + (i % 4), revision: 900 + i, term: this.term, created_at: '2026-09-01T08:00:00Z', updated_at: '2026-11-20T16:20:00Z', deleted_at: null,
    };
  }

  /** Changes the cron expression of a job. */
  move(name: string, cron: string): Job | null {
    this.moved.set(name, cron);
    return this.named(name);
  }

  /** The hours of a week: nights are busy, and so is the full hour. */
  scheduleLoad(query: URLSearchParams): ScheduleLoad {
    const first = Math.floor(this.now() / 3600e3) * 3600e3;
    const cron = query.get('cron') ?? this.named(query.get('job') ?? '')?.schedule?.cron ?? null;
    const fields = cron?.split(' ') ?? [];
    const minute = Number(fields.at(-5));
    const slot = fields.length === 0 || Number.isNaN(minute) ? null : minute !== 0 ? { minute, beside: 0, quieter: null, there: 0, cron: cron ?? '' } : { minute, beside: 84, quieter: 37, there: 0, cron: [...fields.slice(0, -5), '37', ...fields.slice(-4)].join(' ') };
    const frequent = query.get('frequent') === 'true';
    const hours = Array.from({ length: 168 }, (_, i) => {
      const night = new Date(first + i * 3600e3).getUTCHours() === 2;
      const peak = this.empty ? 0 : (night ? (this.spread ? 3 : 46) : Math.round(noise(i) * (i % 4 === 0 ? 14 : 5))) + (frequent ? 4 : 0);
      return { starts: peak * 2, peak, minute: peak === 0 ? null : 0, jobs: peak, names: this.named5(peak, 5) };
    });
    const ordered = hours.map((hour) => hour.peak).filter((peak) => peak > 0).sort((a, b) => a - b);
    const minuteOf = (i: number, minute: number, starts: number) => ({ at: iso(first + i * 3600e3 + minute * 60e3), starts, jobs: starts, names: this.named5(starts, 10) });
    const asked = query.get('hour');
    const shown = asked === null ? -1 : Math.floor((Date.parse(asked) - first) / 3600e3);
    const peak = hours[shown]?.peak ?? 0;
    return {
      first: iso(first), jobs: this.empty ? 0 : frequent ? 36 : 33, more: false, slot, left_out: this.empty || frequent ? 0 : 3, uncounted: 0, hours,
      starts: hours.reduce((sum, hour) => sum + hour.starts, 0),
      levels: ordered.length === 0 ? [] : [25, 50, 75, 95].map((share) => ordered[Math.floor(((ordered.length - 1) * share) / 100)]!),
      busiest: hours.map((hour, i) => [i, hour.peak] as const).filter(([, one]) => one > 0).sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, 10).map(([i, one]) => minuteOf(i, 0, one)),
      hour: shown < 0 ? null : peak === 0 ? [] : [0, 5, 12, 15, 30, 37, 45, 50].map((minute, i) => minuteOf(shown, minute, Math.max(1, Math.round(peak / (1 + 3 * i))))),
    };
  }

  /** The first jobs that start in a minute. */
  private named5(jobs: number, most: number): string[] {
    return NAMES.slice(0, Math.min(jobs, most, NAMES.length)).map(([name]) => name);
  }

  /** A plan to spread jobs; afterwards nothing is left to move. */
  spreadPlan({ by, label }: { by?: 'shift' | 'hash'; label?: string[] }): Spread {
    const first = Math.floor(this.now() / 3600e3) * 3600e3;
    const night = [...Array(24).keys()].map((i) => first + i * 3600e3).find((at) => new Date(at).getUTCHours() === 2) ?? first;
    const moves = this.spread || this.empty ? [] : NAMES.slice(0, 12).map(([job], i) => ({ job, version: 1 + (i % 4), before: '0 2 * * *', after: by === 'hash' ? 'H 2 * * *' : `${(7 + i * 11) % 60} 2 * * *` }));
    const peaks = (peak: number) => Array.from({ length: 168 }, (_, i) => (new Date(first + i * 3600e3).getUTCHours() === 2 ? peak : Math.round(noise(i) * 5)));
    const minutes = (peak: number) => Array.from({ length: 60 }, (_, i) => (i === 0 ? peak : peak < 46 && i % 11 === 7 ? 3 : i % 15 === 0 ? 2 : 0));
    const picture = (peak: number) => ({ at: iso(night), peak, peaks: peaks(peak), hour: iso(night), minutes: minutes(peak) });
    return {
      applied: false, by: by ?? 'shift', first: iso(first), selected: label === undefined ? 36 : 14, more: false, moves,
      left_out: [{ why: 'runs start in several minutes of an hour', jobs: 2, names: ['sync-tokens', 'fraud-scores'] }, { why: 'no other job starts in the same minute', jobs: 9, names: this.named5(9, 5) }],
      before: picture(this.spread ? 3 : 46), after: picture(3),
    };
  }

  /** Thirty days: the retention period. */
  days(job: string): Days {
    const today = Math.floor(this.now() / 86_400e3);
    return {
      job, more: false,
      items: Array.from({ length: 30 }, (_, i) => ({ day: iso((today - i) * 86_400e3).slice(0, 10), states: { succeeded: 80 + Math.round(16 * noise(i)), ...(noise(i * 7) > 0.8 ? { failed: 2 } : {}) } })),
    };
  }

  /** Null resumes it. */
  setPaused(name: string, asked: { note?: string; until?: string } | null): Job | null {
    if (asked === null) this.paused.delete(name);
    else this.paused.set(name, { at: iso(this.now()), by: 'ada', note: asked.note || null, until: asked.until ?? null });
    return this.named(name);
  }

  closeBreaker(name: string): Job | null {
    this.closed.add(name);
    return this.named(name);
  }

  held({ on, note, until }: { on: boolean; note?: string; until?: string }): Maintenance {
    return on ? { on, since: iso(this.now()), by: 'ada', note: note || null, until: until ?? null } : OFF;
  }

  // ------------------------------------------------------------------------------------------ backfills, limits, nodes

  private aBackfill(id: string, state: Backfill['state'], total: number): Backfill {
    const started = state === 'running' ? Math.round(total * 0.4) : state === 'done' ? total : 11;
    const open = state === 'running' ? 3 : 0;
    const [failed, at] = [state === 'done' ? 0 : 4, this.now() - (state === 'running' ? 0.5 : 50) * 3600e3];
    return {
      id, job: id.split('~')[0]!, state, only: 'missing', first: iso(at - 72 * 3600e3), last: iso(at), rate: state === 'running' ? '4/m' : null, total,
      first_instant: iso(at - 71 * 3600e3), last_instant: iso(at - 900e3), least_ms: state === 'running' ? (total - 1) * 15e3 : null, started, open,
      runs: { succeeded: started - open - failed, failed, ...(open > 0 ? { running: open } : {}) }, waiting: null, by: 'ada', created_at: iso(at),
      ended_at: state === 'running' ? null : iso(at + 3600e3), cancelled_by: state === 'cancelled' ? 'ada' : null, reason: state === 'cancelled' ? 'wrong range' : null,
    };
  }

  backfills(job: string): Backfill[] {
    return this.empty ? [] : this.requested.filter((one) => one.job === job);
  }

  backfill(job: string, { rate, dry_run }: { rate: string | null; dry_run: boolean }): Backfill {
    const planned = { ...this.aBackfill(`${job}~b9`, 'running', 144), rate, least_ms: rate === null ? null : 864e3, started: 0, open: 0, runs: {}, created_at: iso(this.now()) };
    if (dry_run) return { ...planned, id: null, state: 'planned' };
    this.requested.unshift(planned);
    return planned;
  }

  cancelBackfill(id: string, reason: string): Backfill {
    const i = this.requested.findIndex((one) => one.id === id);
    return (this.requested[i] = { ...this.requested[i]!, state: 'cancelled', ended_at: iso(this.now()), cancelled_by: 'ada', reason });
  }

  loginOptions: LoginOptions = { password: true, single_sign_on: null };
  sessions: Session[] = [
    { id: '0a1b2c3d4e5f', user: 'ada', method: 'password', address: '192.0.2.7', agent: 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0', created_at: '2026-11-20T08:00:00Z', last_used_at: '2026-11-21T11:58:00Z', expires_at: '2026-11-27T08:00:00Z', current: true },
    { id: '1b2c3d4e5f60', user: 'oidc:grace.murray.hopper@compilers.example.com', method: 'oidc', address: '2001:db8:85a3::8a2e:370:7334', agent: 'Mozilla/5.0', created_at: '2026-11-21T06:00:00Z', last_used_at: '2026-11-21T11:00:00Z', expires_at: '2026-11-28T06:00:00Z', current: false },
    { id: '2c3d4e5f6071', user: 'oidc:linus', method: 'device', address: null, agent: '', created_at: null, last_used_at: null, expires_at: '2026-11-28T06:00:00Z', current: false },
  ];

  audit(query: URLSearchParams): AuditEntry[] {
    const made = (n: number, by: string | null, action: string, target: string, before: Json, after: Json): AuditEntry => ({ id: String(n), at: iso(this.now() - n * 61e3), by, action, target, before, after, address: n % 3 === 0 ? null : '192.0.2.7' });
    const entries = [
      made(1, 'oidc:grace.murray.hopper@compilers.example.com', 'session.create', 'user:oidc:grace.murray.hopper@compilers.example.com', null, { method: 'oidc', groups: ['payroll', 'everybody'], role: 'editor' }),
      made(2, null, 'login.refuse', 'user:ada', null, { method: 'password' }),
      made(3, 'key:ci', 'job.change', 'job:nightly-report', { schedule: { cron: '0 2 * * *' } }, { schedule: { cron: '0 3 * * *' } }),
      made(4, 'ada', 'session.revoke', 'user:bob', { session: '9f8e7d6c5b4a' }, null),
    ];
    const wanted = { by: query.get('by') ?? '', action: query.get('action') ?? '', job: query.get('job') ?? '' };
    return entries.filter((one) => [one.by ?? '', ''].includes(wanted.by) && [one.action, ''].includes(wanted.action) && [one.target.replace('job:', ''), ''].includes(wanted.job));
  }

  limits(): Limit[] {
    if (this.empty) return [];
    const kept = { updated_at: '2026-11-20T08:00:00Z', updated_by: 'ada' };
    const permits = (n: number, from: number) => this.recent(from + n).slice(from).map((run, i) => ({ run: run.id, fence: run.fence, node: run.node ?? 'eu-west-1#9f31c2', since: iso(this.now() - (n - i) * 9e3) }));
    const waiting = (n: number) => Array.from({ length: n }, (_, i) => ({ run: `recompute-prices@2026112${1 + (i % 8)}T0${i % 10}0500Z`, since: iso(this.now() - (n - i) * 31e3) }));
    return [
      { name: 'geocoder', limit: 2, rate: '10/s', burst: 5, description: 'The free plan', permits: permits(1, 4), waiting: [], ...kept },
      { name: 'mail-api', limit: null, rate: '100/m', burst: 1, description: '', permits: permits(3, 10), waiting: waiting(2), ...kept },
      { name: 'maintenance-window-of-the-legacy-warehouse-in-frankfurt', limit: 1, rate: null, burst: 1, description: 'One run at a time, because the old loader locks whole tables', permits: [], waiting: [], ...kept },
      { name: 'warehouse', limit: 8, rate: null, burst: 1, description: 'Connections of the warehouse', permits: permits(8, 20), waiting: waiting(23), ...kept },
    ];
  }

  nodeDetails(): NodeDetail[] {
    return this.nodes(Math.floor(this.now() / 1000)).map((node, i) => ({
      ...node, roles: ['worker'], held: node.in_flight, heartbeat_age_s: node.age_s, labels: {}, version: '0.10.0', host: node.name, pid: 40 + i, started_at: null,
      breakers: {}, spool: { outcomes: 0, bytes: 0, since: null }, zones: '2026b', drained: false, differing: {}, apps: i % 4 === 3 ? {} : { billing: i === 5 ? 'c0ffee123456' : '0a1b2c3d4e5f' },
      capacity: i === 3 ? null : { cpu: 8, memory: 32 * 2 ** 30 }, reserved: { cpu: i === 1 ? 9 : i * 0.75, memory: i * 2.5 * 2 ** 30 },
    }));
  }

  named(name: string): Job | null {
    const edited = this.edited.get(name);
    if (edited !== undefined) return edited;
    const i = NAMES.findIndex(([known]) => known === name);
    return i < 0 ? null : this.job(i);
  }

  // ---------------------------------------------------------------------------------------------------------- lines

  lines(run: { id: string; job: string; fence: number }, n: number, from = 0): LogLine[] {
    const texts: [LogLine['level'], string][] = [
      ['info', 'building report region=eu'], ['debug', 'cache miss key=orders:2026-11-21 shard=4'], ['info', '\u001b[36mfetch\u001b[0m https://api.partner.example/v2/orders?page=3 \u001b[32m200\u001b[0m in 184 ms'],
      ['info', 'wrote 4,096 rows to warehouse.orders_daily'], ['warn', 'slow response from partner: 1.9 s, limit 2 s'], ['success', 'part 7 of 12 done'],
      ['error', '\u001b[31mConnectionError\u001b[0m: POST https://api.partner.example:443/v2/orders: connection refused'], ['info', 'retrying in 4 s (attempt 2 of 4)'],
    ];
    return Array.from({ length: n }, (_, i) => {
      const [level, text] = texts[Math.floor(noise(from + i + run.fence) ** 1.3 * texts.length)] as [LogLine['level'], string];
      return { run: run.id, job: run.job, attempt: 1, fence: run.fence, n: from + i, at: new Date(this.now() - (n - i) * 230).toISOString(), level, text, node: 'eu-central-1' };
    });
  }
}
