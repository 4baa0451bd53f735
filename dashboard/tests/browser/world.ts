// A cluster that is made up, for the tests of the page: twelve nodes, forty jobs, any number of runs. Everything follows
// from numbers, so the same second shows the same cluster; time is what the server says it is.
import type { ClusterEvent, Node, RunBrief, Series, Snapshot, TickMessage, Values } from '../../src/lib/stream';
import type { Attempt, Job, LogLine, Run, RunState, Schedule } from '../../src/lib/types';

const NODES = [
  'eu-west-1', 'eu-west-2', 'eu-west-3', 'eu-central-1', 'eu-central-2', 'us-east-1', 'us-east-2', 'us-east-3',
  'us-west-1', 'ap-south-1', 'ap-south-2', 'batch-gpu-large-memory-frankfurt-07',
];

const NAMES: [string, Schedule | null, string][] = [
  ['nightly-report', { cron: '0 2 * * *', tz: 'Europe/Berlin' }, 'Builds the report that finance reads at breakfast'],
  ['sync-tokens', { every: '30s', tz: 'UTC' }, 'Refreshes tokens before they expire'],
  ['invoice-reminders', { cron: '0 9 * * MON-FRI', tz: 'Europe/Berlin' }, 'Reminds customers of open invoices'],
  ['rebuild-search-index', { cron: '*/15 * * * *', tz: 'UTC' }, 'Rebuilds the search index from the catalogue'],
  ['import-exchange-rates', { cron: '5 * * * *', tz: 'UTC' }, 'European Central Bank, hourly'],
  ['warehouse.customer-360.materialize-daily-aggregates-for-all-regions', { cron: '30 3 * * *', tz: 'America/New_York' }, 'A long name, because somebody will have one'],
  ['backup-postgres', { cron: '15 1 * * *', tz: 'UTC' }, 'Dumps and ships the main database'],
  ['expire-sessions', { every: '1m', tz: 'UTC' }, 'Deletes what nobody uses any more'],
  ['thumbnail-sweeper', { cron: '*/10 * * * * *', tz: 'UTC' }, 'Renders what has no thumbnail yet'],
  ['usage-rollup', { cron: '* * * * *', tz: 'UTC' }, 'Adds up usage by the minute'],
  ['certificate-watch', { cron: '0 */6 * * *', tz: 'UTC' }, 'Warns before certificates run out'],
  ['close-month', { cron: '30 23 L * *', tz: 'Europe/London' }, 'Closes the books on the last evening'],
  ['migrate-legacy-accounts', null, 'Run by hand'],
  ['launch-campaign', { at: '2026-12-24T18:00:00Z' }, 'Once, on Christmas Eve'],
  ['poll-carrier-status', { every: '5s', tz: 'UTC' }, 'Where is my parcel'],
  ['recompute-prices', { cron: '*/5 * * * *', tz: 'UTC' }, 'Prices of the whole catalogue'],
  ['webhook-redelivery', { every: '10s', tz: 'UTC' }, 'Delivers again what was refused'],
  ['fraud-scores', { cron: '*/2 * * * *', tz: 'UTC' }, 'Scores the orders of the last minutes'],
  ['mail-digest', { cron: '0 7 * * *', tz: 'Asia/Tokyo' }, 'The morning digest'],
  ['cache-warmup', { every: '45s', tz: 'UTC' }, 'Keeps the front page warm'],
];
for (let i = 0; i < 20; i++) {
  const team = ['billing', 'search', 'growth', 'data', 'platform'][i % 5] as string;
  NAMES.push([`${team}-task-${String(i + 1).padStart(2, '0')}`, { cron: `${(i * 7) % 60} * * * *`, tz: 'UTC' }, `Something of the team ${team}`]);
}

const ERRORS = [
  'ConnectionError: POST https://api.partner.example:443/v2/orders: connection refused after 3 attempts',
  'TimeoutError: no answer within 10 m',
  "KeyError: 'customer_id'",
  'psycopg.errors.DeadlockDetected: deadlock detected\nDETAIL:  Process 4711 waits for ShareLock on transaction 88123',
  'exit status 137: killed, out of memory',
  'HTTPStatusError: 503 Service Unavailable',
];

export function noise(n: number): number {
  const x = Math.sin(n * 12.9898 + 78.233) * 43758.5453;
  return x - Math.floor(x);
}

const iso = (ms: number): string => new Date(ms).toISOString().replace('.000Z', 'Z');

export class World {
  term = 41;
  leader: string | null = 'eu-central-1';
  electedAt: number;
  redis: string | null = null;
  stale: string | null = null;
  seq = 1000;
  role = 'admin';
  total = 100_000;
  bare = false;
  private events: ClusterEvent[] = [];
  private readonly paused = new Set(['mail-digest', 'growth-task-08']);
  private readonly settled = new Set<string>();

  constructor(readonly now: () => number = Date.now) {
    this.electedAt = now() - 3 * 3600e3;
    this.event('node_joined', 'info', 'batch-gpu-large-memory-frankfurt-07 joined with 32 slots', 400e3);
    this.event('breaker_opened', 'error', 'the breaker of api.partner.example opened after 5 failures', 210e3);
    this.event('job_changed', 'info', 'recompute-prices was changed', 150e3, { job: 'recompute-prices' });
    this.event('runs_failed', 'error', '3 runs of invoice-reminders failed, as invoice-reminders@20261121T080000Z: ConnectionError: connection refused', 96e3, { count: 3 });
    this.event('node_draining', 'warn', 'us-west-1 drains', 61e3);
    this.event('fence_rejected', 'warn', 'a late ok of fraud-scores@20261121T145800Z was kept aside, fence 1795272000123456', 33e3);
  }

  event(kind: string, gravity: ClusterEvent['gravity'], text: string, before = 0, fields: Record<string, unknown> = {}): ClusterEvent {
    const at = this.now() - before;
    const event: ClusterEvent = { id: `${at.toString(16).padStart(14, '0')}-${this.events.length}`, at: iso(at), kind, gravity, source: 'api', text, ...fields };
    this.events.push(event);
    return event;
  }

  nodes(second: number): Node[] {
    if (this.bare) return [];
    return NODES.map((name, i) => {
      const slots = name.startsWith('batch') ? 32 : 16;
      const wave = 0.45 + 0.3 * Math.sin(second / 23 + i * 1.7) + 0.2 * noise(second * 13 + i);
      const draining = name === 'us-west-1';
      const stale = name === this.stale;
      const inFlight = draining ? 2 : stale ? 5 : Math.max(0, Math.min(slots, Math.round(wave * slots)));
      return {
        name, id: `${name}#${(0x9f31c2 + i * 7919).toString(16)}`, roles: name === this.leader ? ['leader', 'worker'] : ['worker'],
        state: stale ? 'stale' : draining ? 'draining' : 'up',
        cpu: Math.min(0.99, Math.max(0.03, wave * 0.9 + 0.05 * noise(second + i))), memory: 0.4 + 0.04 * i + 0.02 * Math.sin(second / 60),
        slots, in_flight: inFlight, queued: noise(second * 3 + i) > 0.8 ? 2 : 0, lag_ms: 1 + 9 * noise(second * 7 + i) + (i === 5 ? 240 * Math.max(0, Math.sin(second / 40)) : 0),
        heartbeat_age_s: stale ? 12.4 : 0.4 + 4 * noise(second + i * 3), labels: { region: name.split('-')[0] ?? '', zone: name.slice(0, 9) },
        version: '0.1.0', host: `${name}.cluster.internal`, pid: 2000 + i * 37, started_at: iso(this.now() - 3600e3 * (5 + i)),
      };
    });
  }

  values(at = this.now()): Values {
    const second = Math.floor(at / 1000);
    const nodes = this.nodes(second);
    const inFlight = nodes.reduce((sum, node) => sum + node.in_flight, 0);
    const slots = nodes.reduce((sum, node) => sum + node.slots, 0);
    const wave = 38 + 14 * Math.sin(second / 31) + 6 * noise(second);
    const p99 = 190 + 120 * noise(second * 5) + (second % 300 < 20 ? 2400 : 0);
    return {
      namespace: 'production', term: this.term, leader: this.leader, fence: this.leader === null ? null : at * 1000,
      lease_left_s: this.leader === null ? null : 30 - ((second % 15) + 0.2), lease_ttl_s: 30, elected_at: this.leader === null ? null : iso(this.electedAt),
      maintenance: false, nodes,
      queue: { queued: nodes.reduce((sum, node) => sum + node.queued, 0), in_flight: inFlight, slots, room: Math.max(0, slots - inFlight) },
      rates: { dispatched: wave + 1, succeeded: wave, failed: noise(second * 11) > 0.7 ? 1 + noise(second) : 0.2, retried: 1.4 * noise(second * 17), skipped: 0.1 },
      latency: { lateness_ms: { p50: 14 + 6 * noise(second), p95: 60 + 40 * noise(second * 3), p99 }, duration_ms: { p50: 420 + 60 * noise(second), p95: 2900 + 500 * noise(second * 2), p99: 8200 + 1500 * noise(second * 4) } },
      services: { redis: { ms: this.redis === null ? 0.6 + 0.3 * noise(second) : null, error: this.redis }, mongo: { ms: 2.1 + noise(second * 9), error: null } },
      jobs: { total: this.bare ? 0 : NAMES.length, active: this.bare ? 0 : 35, paused: this.bare ? 0 : 2, disabled: this.bare ? 0 : 1 }, dead: this.dead().length, success_15m: 0.9962,
      breakers: this.bare ? [] : [{ target: 'api.partner.example', node: 'us-east-1', state: 'open', until: null }],
      upcoming: this.bare ? [] : NAMES.slice(0, 12).filter(([, schedule]) => schedule !== null).map(([job], i) => ({ job, at: iso((second + [2, 3, 9, 14, 31, 44, 59, 140, 610, 2400, 7300, 36_000][i % 12]!) * 1000) })),
      failures: this.bare ? [] : this.dead().slice(0, 8).map(brief),
    };
  }

  series(): Series {
    const columns: Series = { at: [], dispatched: [], succeeded: [], failed: [], retried: [], late_p50: [], late_p95: [], late_p99: [], run_p50: [], run_p95: [], run_p99: [], queued: [], in_flight: [], nodes: {} };
    const now = Math.floor(this.now() / 1000);
    for (let second = now - 600; second < now; second++) {
      const { rates, latency, queue, nodes } = this.values(second * 1000);
      columns.at.push(second);
      columns.dispatched.push(rates.dispatched);
      columns.succeeded.push(rates.succeeded);
      columns.failed.push(rates.failed);
      columns.retried.push(rates.retried);
      columns.late_p50.push(latency.lateness_ms.p50);
      columns.late_p95.push(latency.lateness_ms.p95);
      columns.late_p99.push(latency.lateness_ms.p99);
      columns.run_p50.push(latency.duration_ms.p50);
      columns.run_p95.push(latency.duration_ms.p95);
      columns.run_p99.push(latency.duration_ms.p99);
      columns.queued.push(queue.queued);
      columns.in_flight.push(queue.in_flight);
      for (const node of nodes) {
        const past = (columns.nodes[node.name] ??= { cpu: [], memory: [], lag_ms: [], in_flight: [] });
        past.cpu.push(node.cpu);
        past.memory.push(node.memory);
        past.lag_ms.push(node.lag_ms);
        past.in_flight.push(node.in_flight);
      }
    }
    return columns;
  }

  snapshot(): Snapshot {
    return { ...this.values(), series: this.series(), events: this.bare ? [] : [...this.events], runs: this.bare ? [] : this.recent(400).map(brief) };
  }

  tick(events: ClusterEvent[] = [], logs: TickMessage['logs'] = []): TickMessage {
    this.seq += 1;
    return { op: 'tick', seq: this.seq, cursor: `${this.seq}-0`, ts: iso(this.now()), patch: this.values(), runs: this.bare ? [] : this.fresh(), events, logs, dropped: 0 };
  }

  // ---------------------------------------------------------------------------------------------------------- runs

  /** The i-th run from the newest; the newest is due now. About three a second. */
  run(i: number): Run {
    const gap = 350;
    const slot = Math.floor(this.now() / gap) - i;
    const due = Math.floor((slot * gap) / 1000) * 1000;
    const [job] = NAMES[Math.floor(noise(slot) * NAMES.length)] as (typeof NAMES)[number];
    const node = NODES[Math.floor(noise(slot * 3) * NODES.length)] as string;
    const late = Math.round(20 + 300 * noise(slot * 5) ** 4);
    const took = Math.round(300 + 9000 * noise(slot * 7) ** 5 * (1 + 20 * noise(slot * 19) ** 8));
    const start = due + late;
    const luck = noise(slot * 11);
    let state: RunState = luck < 0.035 ? 'failed' : luck < 0.04 ? 'lost' : luck < 0.055 ? 'skipped' : luck < 0.06 ? 'cancelled' : 'succeeded';
    const attempts: Attempt[] = [];
    let at = start;
    const tries = state === 'failed' ? 4 : luck > 0.93 ? 2 : 1;
    const error = ERRORS[Math.floor(noise(slot * 13) * ERRORS.length)] as string;
    const fence = due * 1000 + (slot % 1000);
    if (state !== 'skipped') {
      for (let n = 1; n <= tries; n++) {
        const end = at + (state === 'failed' || n < tries ? Math.min(took, 4000) : took);
        const good = state === 'succeeded' && n === tries;
        if (end > this.now()) break;
        attempts.push({ n, fence: fence + n, node: `${NODES[(NODES.indexOf(node) + n - 1) % NODES.length]}#9f31c2`, started_at: iso(at), ended_at: iso(end), duration_ms: end - at, outcome: good ? 'ok' : state === 'lost' ? 'lost' : state === 'cancelled' ? 'cancelled' : 'error', error: good ? null : error });
        at = end + 4000 * 2 ** (n - 1);
      }
    }
    const done = state === 'skipped' || attempts.length === tries;
    const last = attempts.at(-1);
    if (!done) state = attempts.length > 0 && at > this.now() ? 'retrying' : this.now() < start ? 'dispatched' : 'running';
    const attempt = Math.min(tries, attempts.length + (done ? 0 : 1));
    const id = `${job}@${iso(due).replaceAll(/[-:]/g, '')}~${slot}`;
    const settled = this.settled.has(id);
    return {
      id, job, fire_at: iso(due), kind: 'cron', state, attempt: Math.max(1, attempt), max_attempts: 4, fence: fence + attempt, term: this.term,
      node: state === 'skipped' ? null : `${node}#9f31c2`, created_at: iso(due + 5), dispatched_at: state === 'skipped' ? null : iso(due + 9),
      started_at: state === 'skipped' || state === 'dispatched' ? null : iso(attempts.length > 0 && !done && state === 'running' ? at : start),
      ended_at: done ? (last?.ended_at ?? iso(due + 6)) : null, check_at: state === 'retrying' ? iso(at) : null, lateness_ms: state === 'skipped' ? null : late,
      duration_ms: done && last ? (last.duration_ms ?? null) : null, outcome: done ? (last?.outcome ?? 'skipped') : null, reason: state === 'skipped' ? 'overlap' : null,
      cancel_requested: state === 'cancelled', cancel_reason: state === 'cancelled' ? 'wrong data' : null, cancel_by: state === 'cancelled' ? 'ada' : null,
      result: state === 'succeeded' && slot % 3 === 0 ? { rows: slot % 4096, region: 'eu', files: ['report.pdf', 'report.csv'] } : null,
      error: state === 'failed' || state === 'lost' ? error : null, args: { region: 'eu' }, attempts, covers: null,
      placement: { node: `${node}#9f31c2`, rank: 0.412, others: NODES.filter((one) => one !== node).slice(0, 6).map((one, n) => (n === 4 ? { node: one, reason: 'it drains' } : { node: one, rank: 0.5 + n * 0.07 })), more: 5 },
      blocked_by: null, replay_of: null, dead: (state === 'failed' || state === 'lost') && !settled,
      resolution: settled ? { how: 'acknowledged', at: iso(this.now()), by: 'ada', note: 'known', run: null } : null,
    };
  }

  recent(n: number): Run[] {
    return Array.from({ length: n }, (_, i) => this.run(i));
  }

  fresh(): RunBrief[] {
    return this.recent(40).filter((run) => this.now() - Date.parse(run.started_at ?? run.fire_at) < 1100 || (run.ended_at !== null && this.now() - Date.parse(run.ended_at) < 1100)).map(brief);
  }

  private kept: Run[] | null = null;
  dead(): Run[] {
    if (this.bare) return [];
    this.kept ??= this.recent(2600).filter((run) => run.dead).slice(0, 64);
    return this.kept.filter((run) => !this.settled.has(run.id));
  }

  settle(id: string): void {
    this.settled.add(id);
  }

  find(id: string): Run | null {
    const slot = Number(id.split('~')[1]);
    if (!Number.isFinite(slot)) return null;
    const run = this.run(Math.floor(this.now() / 350) - slot);
    return run.id === id ? run : null;
  }

  // ---------------------------------------------------------------------------------------------------------- jobs

  jobs(): Job[] {
    return this.bare ? [] : NAMES.map((_, i) => this.job(i)).sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  job(i: number): Job {
    const [name, schedule, description] = NAMES[i] as (typeof NAMES)[number];
    const paused = this.paused.has(name);
    const disabled = name === 'data-task-14';
    return {
      name, description, schedule: schedule === null ? null : { start: null, end: null, ...schedule }, run: { python: `${name.split(/[-.]/)[0]}.jobs:${name.replaceAll(/[-.]/g, '_')}`, args: { region: 'eu' } },
      retry: { max: 3, initial: '30s', multiplier: 2, cap: '15m', jitter: false }, timeout: '10m', overlap: 'forbid',
      misfire: { policy: 'fire_once', late_after: '1m', grace: '1h', max_catch_up: 100 }, delivery: 'at_least_once', start_guard: 'redis', priority: 5, require: {},
      labels: { team: ['billing', 'search', 'growth', 'data', 'platform'][i % 5] as string, tier: i % 3 === 0 ? 'gold' : 'silver' }, enabled: !disabled,
      state: disabled ? 'disabled' : paused ? 'paused' : schedule === null ? 'by_hand' : 'active', paused,
      next_fire: schedule === null || disabled ? null : iso(Math.ceil(this.now() / 1000) * 1000 + [4, 11, 29, 58, 240, 900, 3400, 17_000, 60_000, 190_000][i % 10]! * 1000),
      due_at: null, version: 1 + (i % 4), revision: 900 + i, term: this.term, created_at: '2026-09-01T08:00:00Z', updated_at: '2026-11-20T16:20:00Z',
    };
  }

  hold(name: string, paused: boolean): Job | null {
    const i = NAMES.findIndex(([known]) => known === name);
    if (i < 0) return null;
    if (paused) this.paused.add(name);
    else this.paused.delete(name);
    return this.job(i);
  }

  named(name: string): Job | null {
    const i = NAMES.findIndex(([known]) => known === name);
    return i < 0 ? null : this.job(i);
  }

  // ---------------------------------------------------------------------------------------------------------- lines

  lines(run: { id: string; job: string; fence: number }, n: number, from = 0): LogLine[] {
    const texts: [LogLine['level'], string][] = [
      ['info', 'building report region=eu'], ['debug', 'cache miss key=orders:2026-11-21 shard=4'], ['info', '\u001b[36mfetch\u001b[0m https://api.partner.example/v2/orders?page=3 \u001b[32m200\u001b[0m in 184 ms'],
      ['info', 'wrote 4,096 rows to warehouse.orders_daily'], ['warn', 'partner answered slowly: 1.9 s, limit 2 s'], ['success', 'part 7 of 12 done'],
      ['error', '\u001b[31mConnectionError\u001b[0m: POST https://api.partner.example:443/v2/orders: connection refused'], ['info', 'retrying in 4 s (attempt 2 of 4)'],
    ];
    return Array.from({ length: n }, (_, i) => {
      const [level, text] = texts[Math.floor(noise(from + i + run.fence) ** 1.3 * texts.length)] as [LogLine['level'], string];
      return { run: run.id, job: run.job, attempt: 1, fence: run.fence, n: from + i, at: new Date(this.now() - (n - i) * 230).toISOString(), level, text };
    });
  }
}

export function brief(run: Run): RunBrief {
  const { id, job, state, node, attempt, max_attempts, fire_at, dispatched_at, started_at, ended_at, lateness_ms, duration_ms, error } = run;
  return { id, job, state, node, attempt, max_attempts, fire_at, dispatched_at, started_at, ended_at, lateness_ms, duration_ms, error };
}
