// REST, typed by the OpenAPI document. Keeps the login, renews it before it expires, and throws an ApiError for every
// problem document. The refresh token is in a cookie that no script can read; only whether there is one is stored.
import createClient, { type Client, type ClientPathsWithMethod, type FetchResponse, type RequestOptions } from 'openapi-fetch';
import { exclusively } from './lock';
import type { paths } from './openapi';
import type { Access, LoginOptions, Me, Problem } from './types';

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly problem: Problem,
    readonly retryAfter: number | null = null,
  ) {
    super(problem.detail ?? problem.title);
    this.name = 'ApiError';
  }

  /** The server, Redis or MongoDB is unavailable, or there were too many requests: worth another try. */
  get transient(): boolean {
    return [0, 429, 502, 503, 504].includes(this.status);
  }
}

export interface Readiness {
  status: 'ok' | 'unavailable';
  redis: { ms?: number; error?: string };
  mongodb: { ms?: number; error?: string };
}

const BASE = '/api/v1';
const SESSION = `${BASE}/auth/session`;
const OPTIONS = `${BASE}/auth/options`;
const READY_WITHIN_MS = 5000;
const RENEW_BEFORE_MS = 20_000;
const STORAGE_KEY = 'cronflow.login';
/** Where pages until 0.6 kept the refresh token itself. */
const OLD_STORAGE_KEY = 'cronflow.refresh';
/** Other sites cannot make a browser send this header, so they cannot use the cookie. */
const FROM_PAGE = { header: { 'X-CronFlow-Page': '1' } };

type Paths = { [P in keyof paths as P extends `${typeof BASE}${infer Rest}` ? Rest : never]: paths[P] };
type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';
type Options<P extends keyof Paths, M extends Method> = RequestOptions<Paths[P][M]>;
type RequiredKeys<T> = { [K in keyof T]-?: {} extends Pick<T, K> ? never : K }[keyof T];
/** What the operation answers when it succeeds. */
type Answer<P extends keyof Paths, M extends Method> = NonNullable<FetchResponse<NonNullable<Paths[P][M]>, unknown, 'application/json'>['data']>;
type Call<M extends Method> = <P extends ClientPathsWithMethod<Client<Paths>, M>>(
  path: P,
  ...options: RequiredKeys<Options<P, M>> extends never ? [Options<P, M>?] : [Options<P, M>]
) => Promise<Answer<P, M>>;

export class Api {
  private access: string | null = null;
  private expiresAt = 0;
  private renewing: Promise<boolean> | null = null;
  private readonly client: Client<Paths>;
  onLogin: (me: Me | null) => void = () => {};
  /** The instant at which the page is frozen: what is read ends there. */
  frozenAt: () => number | null = () => null;

  constructor(
    private readonly fetch: (request: Request) => Promise<Response> = (request) => globalThis.fetch(request),
    private readonly storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> = localStorage,
    private readonly origin = globalThis.location?.origin ?? 'http://localhost',
  ) {
    storage.removeItem(OLD_STORAGE_KEY);
    this.client = createClient<Paths>({
      baseUrl: origin + BASE, fetch: (request) => this.send(request), querySerializer: queryString, headers: { Accept: 'application/json' },
    });
  }

  // -------------------------------------------------------------------------------------------------- operations

  readonly get: Call<'get'> = (path, ...options) => this.call('get', path, options);
  readonly post: Call<'post'> = (path, ...options) => this.call('post', path, options);
  readonly put: Call<'put'> = (path, ...options) => this.call('put', path, options);
  readonly patch: Call<'patch'> = (path, ...options) => this.call('patch', path, options);
  readonly delete: Call<'delete'> = (path, ...options) => this.call('delete', path, options);

  /** Whether Redis and MongoDB answer; needs no login. */
  async ready(): Promise<Readiness> {
    const response = await this.fetch(new Request(`${this.origin}/readyz`, { signal: AbortSignal.timeout(READY_WITHIN_MS) }));
    return (await response.json()) as Readiness;
  }

  private async call<T>(method: Method, path: string, options: readonly unknown[]): Promise<T> {
    const at = method === 'get' ? this.frozenAt() : null;
    if (at === null) return this.ask(method, path, options);
    const { askedAt, answeredAt } = await import('./past');
    const [asked] = options as [Parameters<typeof askedAt>[1]];
    return answeredAt(path, await this.ask(method, path, [askedAt(path, asked, at)]), asked, at) as T;
  }

  private async ask<T>(method: Method, path: string, options: readonly unknown[]): Promise<T> {
    try {
      const { data } = await this.client.request(method, path as never, ...(options as []));
      return data as T;
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      throw new ApiError(0, { title: 'The server sent a response that this page cannot read', status: 0 });
    }
  }

  // -------------------------------------------------------------------------------------------------------- login

  async login(username: string, password: string): Promise<void> {
    this.accept(await this.post('/auth/session', { params: FROM_PAGE, body: { username, password } }));
    this.onLogin(await this.get('/auth/me'));
  }

  /** How people can log in; needs no login. */
  options(): Promise<LoginOptions> {
    return this.get('/auth/options');
  }

  /** Returns true if this browser was logged in and the login is still valid. `back`: it just came back from single sign-on. */
  async resume(back = false): Promise<boolean> {
    if (back) this.storage.setItem(STORAGE_KEY, 'yes');
    if (this.storage.getItem(STORAGE_KEY) === null || !(await this.renew())) return false;
    this.onLogin(await this.get('/auth/me'));
    return true;
  }

  async logout(): Promise<void> {
    try {
      await this.post('/auth/session/logout', { params: FROM_PAGE });
    } catch (error) {
      // This browser forgets the login even if the server could not be reached.
      if (!(error instanceof ApiError)) throw error;
    } finally {
      this.forget();
    }
  }

  async ticket(): Promise<string> {
    return (await this.post('/auth/ws-ticket')).ticket;
  }

  forget(): void {
    this.access = null;
    this.storage.removeItem(STORAGE_KEY);
    this.onLogin(null);
  }

  private accept(access: Access): void {
    this.access = access.access_token;
    this.expiresAt = Date.now() + access.expires_in * 1000;
    this.storage.setItem(STORAGE_KEY, 'yes');
  }

  /** One renewal at a time across all tabs, because a refresh token can be used only once. */
  private renew(): Promise<boolean> {
    this.renewing ??= exclusively('cronflow.refresh', async () => {
      if (this.storage.getItem(STORAGE_KEY) === null) return false;
      try {
        this.accept(await this.post('/auth/session/refresh', { params: FROM_PAGE }));
        return true;
      } catch (error) {
        if (error instanceof ApiError && !error.transient) {
          this.forget();
          return false;
        }
        throw error;
      }
    }, this.storage).finally(() => {
      this.renewing = null;
    });
    return this.renewing;
  }

  // ---------------------------------------------------------------------------------------------------- transport

  /** Sends a request with the login, renews the login once if the server rejects it, and throws every error. */
  private async send(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const needsLogin = !pathname.startsWith(SESSION) && pathname !== OPTIONS;
    if (needsLogin && (this.access === null || Date.now() > this.expiresAt - RENEW_BEFORE_MS) && !(await this.renew())) {
      throw new ApiError(401, { title: 'Log in again', status: 401 });
    }
    let response = await this.transmit(request.clone(), needsLogin);
    if (response.status === 401 && needsLogin) {
      if (await this.renew()) response = await this.transmit(request, needsLogin);
      if (response.status === 401) this.forget();
    }
    if (!response.ok) throw await problemOf(response);
    return response;
  }

  private async transmit(request: Request, needsLogin: boolean): Promise<Response> {
    if (needsLogin && this.access !== null) request.headers.set('Authorization', `Bearer ${this.access}`);
    try {
      return await this.fetch(request);
    } catch {
      throw new ApiError(0, { title: 'The server is not responding', status: 0 });
    }
  }
}

/** Repeats a parameter for each value of a list and leaves out empty ones. */
function queryString(query: Record<string, unknown>): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== '') found.append(name, String(one));
    }
  }
  return found.toString();
}

/** What an error without a problem document means: it comes from a proxy, or from a server that stopped in the middle. */
const WITHOUT_BODY: Readonly<Record<number, string>> = {
  400: 'The request was rejected', 403: 'Access was denied', 404: 'Not found', 405: 'This address does not accept this kind of request', 408: 'The request took too long',
  413: 'The request is too large', 429: 'Too many requests', 500: 'The server failed to handle the request', 502: 'The proxy cannot reach the API',
  503: 'The API is unavailable', 504: 'The API did not respond in time',
};

async function problemOf(response: Response): Promise<ApiError> {
  const { status } = response;
  const after = Number(response.headers.get('Retry-After') ?? NaN);
  const body = (await response.json().catch(() => null)) as Partial<Problem> | null;
  const title = typeof body?.title === 'string' ? body.title : `${WITHOUT_BODY[status] ?? 'The request failed'} (HTTP ${status})`;
  return new ApiError(status, { ...body, title, status }, Number.isNaN(after) ? null : after);
}
