// Serves the built page and simulates a cluster over real HTTP and a real websocket. Tests change the world and check the
// page.
import { createReadStream, existsSync, statSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { deflateSync } from 'node:zlib';
import { WebSocketServer, type WebSocket } from 'ws';
import type { Doc } from '../../src/lib/document';
import type { ClusterEvent } from '../../src/lib/stream';
import type { Job, JobSummary, Span } from '../../src/lib/types';
import { healthCounts } from './troubles';
import { JobEdits } from './jobEdits';
import { Administration } from './administration';
import { lateStart, past, withUsual } from './past';
import { runRoutes, runSummary } from './runRoutes';
import { DESCRIPTIONS, EDGES, SMALL, World, type Scale } from './world';

const ROOT = fileURLToPath(new URL('../../../cronflow/_ui', import.meta.url));
const TYPES: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.woff2': 'font/woff2', '.json': 'application/json' };
const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

export class Stage {
  readonly world: World;
  readonly edits: JobEdits;
  readonly administration: Administration;
  readonly requests: string[] = [];
  /** The bytes of all REST responses. */
  sent = 0;
  /** If set, every REST request fails with this status. */
  failWith: number | null = null;
  /** Redis is unavailable: no ticks, and the readiness probe reports it. */
  redisDown = false;
  /** MongoDB hangs: requests wait, and the readiness probe and ticks report it. */
  private held: (() => void)[] | null = null;
  private readonly server: Server;
  private readonly sockets = new WebSocketServer({ noServer: true });
  private readonly tails = new Map<WebSocket, Set<string>>();
  /** The sockets that accept compressed messages. */
  private readonly packed = new WeakSet<WebSocket>();
  private readonly timer: NodeJS.Timeout;
  private readonly history: { seq: string; text: string }[] = [];
  private readonly pending: ClusterEvent[] = [];
  private written = 0;

  private constructor(scale: Scale) {
    this.world = new World(scale);
    this.edits = new JobEdits(this.world);
    this.world.edited = this.edits.jobs;
    this.administration = new Administration(this.world);
    this.server = createServer((request, response) => void this.answer(request, response));
    this.server.on('upgrade', (request, socket, head) => {
      this.sockets.handleUpgrade(request, socket, head, (one) => this.connect(one));
    });
    this.timer = setInterval(() => this.tick(), 1000);
  }

  static async open(scale: Scale = SMALL): Promise<Stage> {
    const stage = new Stage(scale);
    await new Promise<void>((resolve) => stage.server.listen(0, '127.0.0.1', resolve));
    return stage;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  emit(event: ClusterEvent): void {
    this.pending.push(event);
  }

  /** The leader dies; there is no leader until `elect`. */
  loseLeader(): void {
    this.world.stale = this.world.leader;
    this.world.leader = null;
  }

  /** The leader dies but keeps its lease until `elect`. */
  silenceLeader(): void {
    this.world.stale = this.world.leader;
  }

  elect(name: string): void {
    this.world.term += 1;
    this.world.leader = name;
    this.world.electedAt = Date.now();
    this.emit(this.world.event('leader_elected', 'info', `${name} is the leader, term ${this.world.term}`, 0, { node: name, term: this.world.term }));
  }

  /** MongoDB hangs until `resumeMongo`. */
  hangMongo(): void {
    this.held = [];
    this.world.mongo = 'no answer within 2 s';
  }

  resumeMongo(): void {
    const held = this.held ?? [];
    this.held = null;
    this.world.mongo = null;
    for (const go of held) go();
  }

  /** Forget the stream, as if Redis was wiped: every page gets a snapshot. */
  forget(): void {
    this.history.length = 0;
    for (const socket of this.sockets.clients) this.send(socket, JSON.stringify(this.world.snapshot()));
  }

  async close(): Promise<void> {
    clearInterval(this.timer);
    for (const socket of this.sockets.clients) socket.terminate();
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  // -------------------------------------------------------------------------------------------------------- stream

  tick(): void {
    const message = this.world.tick(this.pending.splice(0));
    const text = JSON.stringify(message);
    this.history.push({ seq: message.seq, text });
    if (this.history.length > 900) this.history.shift();
    if (this.redisDown) return;
    const { lines } = this.world.scale;
    this.written += lines;
    for (const socket of this.sockets.clients) {
      const topics = [...(this.tails.get(socket) ?? [])];
      const logs = topics.map((topic) => ({ topic, lines: this.linesOf(topic, this.written % 2 === 0 ? lines : lines - 1, this.written) }));
      this.send(socket, logs.length === 0 ? text : JSON.stringify({ ...message, logs }), logs.length === 0);
    }
  }

  /** As the API does: messages with log lines are not compressed. */
  private send(socket: WebSocket, text: string, shared = true): void {
    socket.send(shared && this.packed.has(socket) ? deflateSync(text) : text);
  }

  private linesOf(topic: string, n: number, from: number) {
    if (topic.startsWith('run:')) {
      const run = this.world.find(topic.slice(4));
      return run === null ? [] : this.world.lines(run, n, from);
    }
    return this.world.recent(n).map((run, i) => ({ ...this.world.lines(run, 1, from + i)[0]!, n: from + i }));
  }

  private connect(socket: WebSocket): void {
    socket.on('message', (data) => {
      const message = JSON.parse(String(data)) as { op: string; since?: string | null; topic?: string; encoding?: string };
      if (message.op === 'hello') {
        if (message.encoding === 'deflate') this.packed.add(socket);
        const place = this.history.findIndex((one) => one.seq === message.since);
        if (place >= 0) for (const one of this.history.slice(place + 1)) this.send(socket, one.text);
        else this.send(socket, JSON.stringify(this.world.snapshot()));
      } else if (message.op === 'sub' && message.topic !== undefined) {
        this.tails.set(socket, (this.tails.get(socket) ?? new Set()).add(message.topic));
        const lines = message.topic.startsWith('run:') ? this.linesOf(message.topic, 300, 0) : this.world.recent(160).flatMap((run) => this.world.lines(run, 2)).reverse();
        socket.send(JSON.stringify({ ...this.world.tick(), logs: [{ topic: message.topic, lines }] }));
      } else if (message.op === 'unsub' && message.topic !== undefined) {
        this.tails.get(socket)?.delete(message.topic);
      }
    });
    socket.on('close', () => this.tails.delete(socket));
  }

  // ---------------------------------------------------------------------------------------------------------- REST

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://here');
    if (url.pathname === '/readyz') {
      const ready = !this.redisDown && this.held === null;
      response.writeHead(ready ? 200 : 503, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify({ status: ready ? 'ok' : 'unavailable', redis: this.redisDown ? { error: 'connection refused' } : { ms: 0.6 }, mongodb: this.held === null ? { ms: 2.1 } : { error: 'no answer within 2 s' } }));
      return;
    }
    if (!url.pathname.startsWith('/api/')) {
      this.file(url.pathname, response);
      return;
    }
    this.requests.push(`${request.method} ${url.pathname}${url.search}`);
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = chunks.length === 0 ? {} : (JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>);
    if (this.held !== null) await new Promise<void>((resolve) => this.held?.push(resolve));
    const [status, found] = this.route(request.method ?? 'GET', decodeURI(url.pathname.slice('/api/v1'.length)), url.searchParams, body, request.headers['if-match']);
    response.writeHead(status, { 'Content-Type': status < 400 ? 'application/json' : 'application/problem+json', ...(status === 503 ? { 'Retry-After': '5' } : {}) });
    const text = status === 204 ? '' : JSON.stringify(found);
    this.sent += Buffer.byteLength(text);
    response.end(text);
  }

  private route(method: string, path: string, query: URLSearchParams, body: Record<string, unknown>, ifMatch: string | undefined): [number, unknown] {
    const { world } = this;
    const tokens = { access_token: 'a.b.c', expires_in: 900 };
    if (path === '/auth/session') return body.password === 'right' ? [200, tokens] : [401, { title: 'Unauthorized', status: 401, detail: 'wrong username or password' }];
    if (path === '/auth/session/refresh') return [200, tokens];
    if (path === '/auth/session/logout') return [204, null];
    if (path === '/auth/ws-ticket') return this.redisDown ? [503, { title: 'Service Unavailable', status: 503, detail: 'Redis is unavailable' }] : [200, { ticket: 't', expires_in: 30 }];
    if (path === '/auth/me') return [200, { name: 'ada', role: world.role, jobs: [] }];
    if (path === '/auth/options') return [200, world.loginOptions];
    if (this.failWith !== null) return [this.failWith, { title: 'Service Unavailable', status: this.failWith, detail: 'Redis is unavailable' }];
    const limit = Number(query.get('limit') ?? 50);
    const page = <T>(all: T[]): [number, unknown] => {
      const from = Number(query.get('cursor') ?? 0);
      return [200, { items: all.slice(from, from + limit), next_cursor: from + limit < all.length ? String(from + limit) : null }];
    };
    const administered = this.administration.route(method, path, query, body);
    if (administered !== null) return administered;
    const notFound: [number, unknown] = [404, { title: 'Not Found', status: 404, detail: `there is no ${path}` }];
    const edited = this.edits.answer(method, path, body as Doc, ifMatch === undefined ? null : Number(ifMatch.replaceAll('"', '')));
    if (edited !== null) return edited;
    const found = runRoutes(world, path, query, body);
    if (found !== null) return [200, found];
    if (path === '/jobs') return page(world.jobs().map(jobSummary));
    if (path === '/schedules/preview') return preview(body as { schedule: { cron?: string; every?: string; at?: string; tz?: string }; count?: number; job?: string }, world);
    if (path === '/schedules/load') return [200, world.scheduleLoad(query)];
    if (path === '/jobs/spread') return [200, world.spreadPlan(body)];
    if (path === '/jobs/spread/apply') {
      const moves = body.moves as { job: string; version: number; cron: string }[];
      if (world.changed) return [409, { title: 'Conflict', status: 409, detail: 'nightly-report changed since the plan was made; nothing was moved (plan again and apply the new plan)' }];
      world.spread = !world.spread;
      return [200, { moves: moves.map((move) => ({ ...move, version: move.version + 1, before: '', after: move.cron })) }];
    }
    const ofThePast = past(world, path, query);
    if (ofThePast !== null) return [200, ofThePast];
    let match = /^\/jobs\/([^/]+)(?:\/([\w-]+))?$/.exec(path);
    if (match !== null) {
      const job = world.named(match[1] ?? '');
      if (job === null) return notFound;
      switch (match[2]) {
        case undefined:
          return [200, method === 'PATCH' ? world.move(job.name, (body.schedule as { cron: string }).cron) : job];
        case 'days':
          return [200, world.days(job.name)];
        case 'run':
          return [202, { id: world.run(0).id }];
        case 'pause':
        case 'resume':
          return [200, world.setPaused(job.name, match[2] === 'pause' ? (body as { note?: string; until?: string }) : null)];
        case 'close-breaker':
          return [200, world.closeBreaker(job.name)];
        case 'backfill':
          return [body.dry_run === true ? 200 : 202, world.backfill(job.name, body as { rate: string | null; dry_run: boolean })];
        case 'next':
          return [200, { job: job.name, state: job.state, fires: job.next_fire === null ? [] : Array.from({ length: 10 }, (_, i) => new Date(Date.parse(job.next_fire ?? '') + i * 900e3).toISOString()) }];
        case 'history':
          return [200, { items: this.edits.history(job.name), next_cursor: null }];
        case 'runs':
          return page(Array.from({ length: 120 }, (_, i) => runSummary({ ...world.run(i * 3 + 2), job: job.name, ...(i === 0 && job.name === 'invoice-reminders' ? { state: 'failed', dead: true } : {}) })));
        case 'why':
          return [200, why(world, job.name)];
      }
    }
    if (path === '/runs/dead-letters') return [200, { ids: world.dead().map((run) => run.id).slice(0, limit), more: world.dead().length > limit }];
    if (path === '/job-health') return [200, { counts: healthCounts(world.troubles), items: world.troubles }];
    if (path === '/job-graph') {
      const job = query.get('job');
      const edges = EDGES.filter((edge) => !job || edge.upstream === job || edge.job === job);
      return [200, { jobs: [...new Set(edges.flatMap((edge) => [edge.upstream, edge.job]))].sort(), edges }];
    }
    const chain = query.get('chain');
    if (path === '/runs' && chain !== null) {
      const first = world.find(chain);
      return [200, { items: first === null ? [] : world.chain(first), next_cursor: null }];
    }
    if (path === '/runs') {
      const ids = query.getAll('id');
      if (query.get('dead') === 'true') return page(world.dead().filter((run) => ids.length === 0 || ids.includes(run.id)).map(runSummary));
    }
    if (path === '/runs/recent') {
      const names = query.getAll('job');
      const items = world.jobs().filter((job) => names.includes(job.name)).map((job) => ({ job: job.name, state: job.state, next_fire: job.next_fire, runs: Array.from({ length: limit }, (_, i) => world.run(i * 3 + 2)).map(({ id, fire_at, state, duration_ms }) => ({ id, fire_at, state, duration_ms })) }));
      return [200, { items, next_cursor: null }];
    }
    if (path === '/series') return [200, world.history(query.get('span') as Span)];
    if (path === '/runs/report') return [200, { since: '2026-11-14T00:00:00Z', job: null, dead: world.dead().length, failures: [{ reason: 'x', message: 'x', count: 212, open: 64, first: '', last: '', jobs: {}, example: '' }], more: false }];
    match = /^\/runs\/([^/]+)(?:\/(\w+))?$/.exec(path);
    if (match !== null) {
      const run = world.find(decodeURIComponent(match[1] ?? ''));
      if (run === null) return notFound;
      switch (match[2]) {
        case undefined:
          return [200, { ...run, ...(run.result_size !== null && query.get('whole') === 'true' ? { result: { rows: 'all of them' } } : {}), late: run.state === 'lost' ? [{ at: run.ended_at, node: run.node, fence: run.fence - 1, outcome: 'ok', result: null, error: null }] : [] }];
        case 'why':
          return [200, withUsual(run, { ...why(world, run.job, run.waiting), late: lateStart(run) })];
        case 'logs':
          return [200, { items: world.lines(run, 320), next_cursor: null }];
        case 'retry':
          world.resolve(run.id);
          return [202, { id: world.run(0).id, replay_of: run.id }];
        case 'ack':
          world.resolve(run.id);
          return [200, run];
        case 'cancel':
          return [200, { ...run, cancel_requested: true }];
      }
    }
    if (path === '/events') {
      const kinds = query.getAll('kind');
      const until = query.get('until') ?? '9';
      return [200, { items: world.pastEvents().filter((event) => event.at < until && (kinds.length === 0 || kinds.includes(event.kind))), next_cursor: null }];
    }
    if (path === '/limits') return page(world.limits());
    if (path === '/audit') return page(world.audit(query));
    if (path === '/sessions') return page(world.sessions);
    match = /^\/sessions\/([^/]+)$/.exec(path);
    if (match !== null) return [204, (world.sessions = world.sessions.filter((one) => one.id !== match![1]))];
    if (path === '/backfills') return page(world.backfills(query.get('job') ?? ''));
    match = /^\/backfills\/([^/]+)\/cancel$/.exec(path);
    if (match !== null) return [200, world.cancelBackfill(match[1] ?? '', String(body.reason))];
    if (path === '/nodes') return [200, { items: world.nodeDetails(), next_cursor: null }];
    if (path === '/cluster/maintenance') return [200, (world.maintenance = world.held(body as { on: boolean; note?: string; until?: string }))];
    if (path === '/cluster/settings') return [200, { chaos: true }];
    if (path === '/chaos/nodes') return [200, { items: world.nodes(0).map(({ name }, i) => ({ name, paused: i === 2 })), next_cursor: null }];
    if (method === 'POST' && path.startsWith('/cluster/')) return [200, {}];
    return notFound;
  }

  private file(path: string, response: ServerResponse): void {
    const wanted = normalize(join(ROOT, path));
    const found = wanted.startsWith(ROOT) && existsSync(wanted) && statSync(wanted).isFile() ? wanted : join(ROOT, 'index.html');
    response.writeHead(200, { 'Content-Type': TYPES[extname(found)] ?? 'application/octet-stream', 'Content-Security-Policy': CSP });
    createReadStream(found).pipe(response);
  }
}

/** The page lists jobs only in brief. */
function jobSummary({ name, description, schedule, labels, state, words, next_fire, pause, open_breaker, takes_args }: Job): JobSummary {
  return { name, description, schedule, labels, state, words, next_fire, pause, open_breaker, takes_args };
}

function preview(body: { schedule: { cron?: string; every?: string; at?: string; tz?: string }; count?: number; job?: string }, world: World): [number, unknown] {
  const { cron, every, at, tz } = body.schedule;
  if (cron !== undefined && !/^(@\w+|(\S+\s+){4,5}\S+)$/.test(cron)) return [422, { title: 'Unprocessable Content', status: 422, detail: `schedule.cron: ${cron} has ${cron.split(/\s+/).length} fields; write five or six` }];
  const words = cron !== undefined ? (DESCRIPTIONS[cron] ?? `at minute ${cron.split(' ')[0]} of every hour`) : every !== undefined ? `every ${every}` : `once at ${at}`;
  const start = Math.ceil(Date.now() / 60_000) * 60_000;
  const notes = tz === 'Europe/Berlin' && cron === '0 2 * * *' ? ['On 2027-03-28 clocks in Europe/Berlin skip from 02:00 to 03:00, so 02:00 does not exist; the job fires at 03:00 instead (2027-03-28 01:00:00Z).'] : [];
  const fires = Array.from({ length: body.count ?? 10 }, (_, i) => new Date(start + i * 86_400e3).toISOString());
  const answer = { expression: cron ?? null, tz: tz ?? 'UTC', words, fires, notes };
  if (body.job === undefined) return [200, answer];
  const job = world.named(body.job);
  if (job === null) return [404, { title: 'Not Found', status: 404, detail: `there is no job '${body.job}'` }];
  const changes = job.schedule?.cron === cron ? null : { before: 7, after: 7, compared: true, added: 7, removed: 6, first_added: fires.slice(0, 1), first_removed: ['2031-01-01T02:00:00Z'] };
  return [200, { ...answer, changes }];
}

function why(world: World, job: string, waiting: string | null = null) {
  const run = world.run(900);
  return {
    job, at: run.fire_at, run: run.id,
    chain: [
      { step: 'due', instant: run.fire_at, ver: 3, since: '2026-11-01T08:00:00Z', by: 'ada', schedule: 'every 5 minutes (UTC)' },
      { step: 'lateness', late_ms: 84, late_after_ms: 60000, missed: false, policy: 'fire_once', covers: null, skipped: false },
      { step: 'overlapping', policy: 'forbid', blocked_by: null, skipped: false },
      { step: 'placed', node: run.node, placement: run.placement },
      { step: 'dispatched', at: run.dispatched_at, term: 41, fence: run.fence, node: run.node, again: 0, taken: true, check_at: null },
      { step: 'started', at: run.fire_at, lateness_ms: 104 },
      { step: 'tried', attempt: { n: 1, node: run.node, fence: run.fence, started_at: run.fire_at, ended_at: run.fire_at, duration_ms: 2210, outcome: 'error', error: "KeyError: 'customer_id'" } },
      ...(waiting === null ? [{ step: 'tries_again', at: run.fire_at, attempt: 2, waiting: null }] : [
        { step: 'no_retries', since: run.fire_at, failed: 12, attempts: 20, probe_at: run.fire_at },
        { step: 'tries_again', at: run.fire_at, attempt: 2, waiting: { fire: run.fire_at, since: run.fire_at, reason: waiting, blocked_by: world.run(3).id, nodes: [{ node: 'eu-west-1#9f31c2', reason: 'no free slot' }], more: 0 } },
      ]),
      ...(waiting === null ? [{ step: 'ended', state: 'failed', at: run.ended_at, outcome: 'error', reason: null, error: "KeyError: 'customer_id'", dead: true, resolution: null }] : []),
    ],
  };
}
