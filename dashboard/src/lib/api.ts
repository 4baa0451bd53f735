// REST, typed. Holds the login, renews it before it ends, and turns every problem document into one kind of error.
import type {
  Asked, ClusterEvent, ClusterSettings, Days, Herd, Job, Json, LogLine, Me, Page, Preview, Problem, Process, Recent, Replay, Report, Run, RunDetail,
  Schedule, Series, Span, Tokens, Version, Why,
} from './types';

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly problem: Problem,
    readonly retryAfter: number | null = null,
  ) {
    super(problem.detail ?? problem.title);
    this.name = 'ApiError';
  }

  /** Nobody answered, or the cluster's stores are away: worth another try. */
  get passing(): boolean {
    return this.status === 0 || this.status === 429 || this.status === 502 || this.status === 503 || this.status === 504;
  }
}

export interface Readiness {
  status: 'ok' | 'unavailable';
  redis: { ms?: number; error?: string };
  mongodb: { ms?: number; error?: string };
}

export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

const BASE = '/api/v1';
const KEPT = 'cronflow.refresh';

export class Api {
  private access: string | null = null;
  private accessUntil = 0;
  private renewing: Promise<boolean> | null = null;
  onLogin: (me: Me | null) => void = () => {};

  constructor(
    private readonly fetch: typeof globalThis.fetch = globalThis.fetch.bind(globalThis),
    private readonly storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> = localStorage,
  ) {}

  // ---------------------------------------------------------------------------------------------------- the login

  async login(username: string, password: string): Promise<void> {
    this.accept(await this.send<Tokens>('POST', '/auth/token', { body: { username, password }, open: true }));
    this.onLogin(await this.get<Me>('/auth/me'));
  }

  /** True when the page was logged in before and still is. */
  async resume(): Promise<boolean> {
    if (this.storage.getItem(KEPT) === null || !(await this.renew())) return false;
    this.onLogin(await this.get<Me>('/auth/me'));
    return true;
  }

  async logout(): Promise<void> {
    const refresh_token = this.storage.getItem(KEPT);
    try {
      if (refresh_token !== null) await this.send('POST', '/auth/logout', { body: { refresh_token } });
    } catch (error) {
      // Whatever the server says, this browser forgets the login.
      if (!(error instanceof ApiError)) throw error;
    } finally {
      this.forget();
    }
  }

  async ticket(): Promise<string> {
    return (await this.send<{ ticket: string }>('POST', '/auth/ws-ticket')).ticket;
  }

  forget(): void {
    this.access = null;
    this.storage.removeItem(KEPT);
    this.onLogin(null);
  }

  private accept(tokens: Tokens): void {
    this.access = tokens.access_token;
    this.accessUntil = Date.now() + tokens.expires_in * 1000;
    this.storage.setItem(KEPT, tokens.refresh_token);
  }

  /** One renewal at a time, over all tabs: a refresh token is good for one use. */
  private renew(): Promise<boolean> {
    this.renewing ??= this.locked(async () => {
      const refresh_token = this.storage.getItem(KEPT);
      if (refresh_token === null) return false;
      try {
        this.accept(await this.send<Tokens>('POST', '/auth/refresh', { body: { refresh_token }, open: true }));
        return true;
      } catch (error) {
        if (error instanceof ApiError && !error.passing) {
          this.forget();
          return false;
        }
        throw error;
      }
    }).finally(() => {
      this.renewing = null;
    });
    return this.renewing;
  }

  private locked<T>(work: () => Promise<T>): Promise<T> {
    const locks = globalThis.navigator?.locks;
    return locks === undefined ? work() : (locks.request('cronflow.refresh', work) as Promise<T>);
  }

  // --------------------------------------------------------------------------------------------------------- jobs

  jobs(query: Query = {}): Promise<Page<Job>> {
    return this.get('/jobs', query);
  }

  job(name: string): Promise<Job> {
    return this.get(`/jobs/${enc(name)}`);
  }

  next(name: string, n: number): Promise<{ job: string; fires: string[] }> {
    return this.get(`/jobs/${enc(name)}/next`, { n });
  }

  history(name: string): Promise<Page<Version>> {
    return this.get(`/jobs/${enc(name)}/history`);
  }

  runsOf(name: string, query: Query = {}): Promise<Page<Run>> {
    return this.get(`/jobs/${enc(name)}/runs`, query);
  }

  recent(jobs: string[], limit: number): Promise<Page<Recent>> {
    return this.get('/runs/recent', { job: jobs, limit });
  }

  why(name: string, at: string | null): Promise<Why> {
    return this.get(`/jobs/${enc(name)}/why`, { at });
  }

  days(name: string): Promise<Days> {
    return this.get(`/jobs/${enc(name)}/days`);
  }

  /** If the job is still at that version. */
  patchJob(name: string, version: number, changes: { schedule: Schedule }): Promise<Job> {
    return this.send('PATCH', `/jobs/${enc(name)}`, { body: changes, headers: { 'If-Match': `"${version}"` } });
  }

  runJob(name: string, args: { [key: string]: Json } | null, key: string): Promise<Asked> {
    return this.send('POST', `/jobs/${enc(name)}/run`, {
      body: args === null ? {} : { args },
      headers: { 'Idempotency-Key': key },
    });
  }

  pause(name: string): Promise<Job> {
    return this.send('POST', `/jobs/${enc(name)}/pause`);
  }

  resumeJob(name: string): Promise<Job> {
    return this.send('POST', `/jobs/${enc(name)}/resume`);
  }

  preview(body: { schedule: Schedule; count: number; start?: string }): Promise<Preview> {
    return this.send('POST', '/schedules/preview', { body });
  }

  herd(query: { job?: string; cron?: string; tz?: string } = {}): Promise<Herd> {
    return this.get('/schedules/herd', query);
  }

  // --------------------------------------------------------------------------------------------------------- runs

  runs(query: Query = {}): Promise<Page<Run>> {
    return this.get('/runs', query);
  }

  /** `whole`: with its result also where that is large. */
  run(id: string, whole = false): Promise<RunDetail> {
    return this.get(`/runs/${enc(id)}`, whole ? { whole } : {});
  }

  runLogs(id: string, query: Query = {}): Promise<Page<LogLine>> {
    return this.get(`/runs/${enc(id)}/logs`, query);
  }

  cancel(id: string, reason: string): Promise<Run> {
    return this.send('POST', `/runs/${enc(id)}/cancel`, { body: { reason } });
  }

  retry(id: string, args: { [key: string]: Json } | null): Promise<Replay> {
    return this.send('POST', `/runs/${enc(id)}/retry`, { body: args === null ? {} : { args } });
  }

  ack(id: string, note: string): Promise<Run> {
    return this.send('POST', `/runs/${enc(id)}/ack`, { body: { note } });
  }

  report(query: Query = {}): Promise<Report> {
    return this.get('/runs/report', query);
  }

  // ------------------------------------------------------------------------------------------------ the cluster

  events(query: Query = {}): Promise<Page<ClusterEvent>> {
    return this.get('/events', query);
  }

  series(span: Span): Promise<Series> {
    return this.get('/series', { span });
  }

  /** Whether Redis and MongoDB answer; needs no login. */
  async ready(): Promise<Readiness> {
    const response = await this.fetch('/readyz');
    return (await response.json()) as Readiness;
  }

  logs(query: Query = {}): Promise<Page<LogLine>> {
    return this.get('/logs', query);
  }

  drain(node: string): Promise<unknown> {
    return this.send('POST', `/nodes/${enc(node)}/drain`);
  }

  undrain(node: string): Promise<unknown> {
    return this.send('POST', `/nodes/${enc(node)}/undrain`);
  }

  stepdown(): Promise<unknown> {
    return this.send('POST', '/cluster/stepdown');
  }

  settings(): Promise<ClusterSettings> {
    return this.get('/cluster/settings');
  }

  // ----------------------------------------------------------------------- chaos, where `settings` says that it is there

  processes(): Promise<Page<Process>> {
    return this.get('/chaos/nodes');
  }

  killLeader(): Promise<{ killed: string; term: number }> {
    return this.send('POST', '/chaos/leader/kill');
  }

  pauseProcess(node: string): Promise<Process> {
    return this.send('POST', `/chaos/nodes/${enc(node)}/pause`);
  }

  resumeProcess(node: string): Promise<Process> {
    return this.send('POST', `/chaos/nodes/${enc(node)}/resume`);
  }

  flushRedis(): Promise<{ keys: number }> {
    return this.send('POST', '/chaos/redis/flush');
  }

  // ------------------------------------------------------------------------------------------------------- transport

  private get<T>(path: string, query: Query = {}): Promise<T> {
    const found = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      if (Array.isArray(value)) for (const one of value) found.append(name, one);
      else if (value !== null && value !== undefined && value !== '') found.set(name, String(value));
    }
    const text = found.toString();
    return this.send<T>('GET', text === '' ? path : `${path}?${text}`);
  }

  private async send<T>(
    method: string,
    path: string,
    options: { body?: unknown; headers?: Record<string, string>; open?: boolean } = {},
  ): Promise<T> {
    if (!options.open && (this.access === null || Date.now() > this.accessUntil - 20_000)) {
      if (!(await this.renew())) throw new ApiError(401, { title: 'Log in again', status: 401 });
    }
    let response = await this.once(method, path, options);
    if (response.status === 401 && !options.open && (await this.renew())) {
      response = await this.once(method, path, options);
    }
    if (response.status === 401 && !options.open) this.forget();
    if (!response.ok) throw await problemOf(response);
    if (response.status === 204) return undefined as T;
    return (await response.json()) as T;
  }

  private async once(
    method: string,
    path: string,
    options: { body?: unknown; headers?: Record<string, string>; open?: boolean },
  ): Promise<Response> {
    const headers: Record<string, string> = { Accept: 'application/json', ...options.headers };
    if (options.body !== undefined) headers['Content-Type'] = 'application/json';
    if (!options.open && this.access !== null) headers.Authorization = `Bearer ${this.access}`;
    const body = options.body === undefined ? null : JSON.stringify(options.body);
    try {
      return await this.fetch(`${BASE}${path}`, { method, headers, body });
    } catch {
      throw new ApiError(0, { title: 'The server does not answer', status: 0 });
    }
  }
}

function enc(part: string): string {
  return encodeURIComponent(part);
}

async function problemOf(response: Response): Promise<ApiError> {
  const after = response.headers.get('Retry-After');
  const retryAfter = after === null ? null : Number(after);
  const kind = response.headers.get('Content-Type') ?? '';
  const problem: Problem = kind.includes('json')
    ? ((await response.json()) as Problem)
    : { title: response.statusText || `Error ${response.status}`, status: response.status };
  return new ApiError(response.status, problem, retryAfter);
}
