import { describe, expect, it } from 'vitest';
import { Api, ApiError } from '../../src/lib/api';

function setup(answer: (path: string) => [number, unknown, Record<string, string>?]) {
  const stored = new Map<string, string>([['cronflow.login', 'yes'], ['cronflow.refresh', 'of an older page']]);
  const requests: string[] = [];
  const bodies: string[] = [];
  const api = new Api(
    async (request) => {
      const { pathname, search } = new URL(request.url);
      requests.push(`${request.method} ${pathname}${search}`);
      if (pathname.endsWith('/ack')) bodies.push(await request.text());
      const [status, body, headers] = answer(pathname);
      return new Response(status === 204 ? null : JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json', ...headers } });
    },
    { getItem: (key) => stored.get(key) ?? null, setItem: (key, value) => void stored.set(key, value), removeItem: (key) => void stored.delete(key) },
  );
  return { api, requests, bodies, stored };
}

const tokens = (n: number) => ({ access_token: `access ${n}`, expires_in: 900 });

describe('login', () => {
  it('is renewed once for concurrent requests, because a refresh token can be used only once', async () => {
    let renewals = 0;
    const { api } = setup((path) => (path.endsWith('/auth/session/refresh') ? [200, tokens(++renewals)] : [200, { items: [], next_cursor: null }]));
    await Promise.all([api.get('/jobs'), api.get('/runs'), api.get('/jobs')]);
    expect(renewals).toBe(1);
  });

  it('is renewed when the server rejects it, and the request is repeated with its body', async () => {
    let first = true;
    const { api, requests, bodies } = setup((path) => {
      if (path.endsWith('/auth/session/refresh')) return [200, tokens(1)];
      if (first) {
        first = false;
        return [401, { title: 'Unauthorized', status: 401 }];
      }
      return [200, { items: [], next_cursor: null }];
    });
    await api.post('/runs/{id}/ack', { params: { path: { id: 'a@1' } }, body: { note: 'known' } });
    expect(requests.filter((one) => one === 'POST /api/v1/runs/a%401/ack').length).toBe(2);
    expect(bodies).toEqual(['{"note":"known"}', '{"note":"known"}']);
  });

  it('is kept while the server is unavailable and forgotten when it is rejected', async () => {
    let status = 503;
    const { api, stored } = setup(() => [status, { title: 'no', status }]);
    await expect(api.get('/jobs')).rejects.toMatchObject({ status: 503, transient: true });
    expect(stored.has('cronflow.login')).toBe(true);
    status = 401;
    await expect(api.get('/jobs')).rejects.toBeInstanceOf(ApiError);
    expect(stored.has('cronflow.login')).toBe(false);
  });
});

describe('the refresh token', () => {
  it('is never stored where a script can read it', async () => {
    const { api, requests, stored } = setup((path) => (path.includes('/auth/session') ? (path.endsWith('/logout') ? [204, null] : [200, tokens(1)]) : [200, { name: 'ada', role: 'viewer', jobs: [] }]));
    await api.login('ada', 'secret');
    expect([...stored]).toEqual([['cronflow.login', 'yes']]);
    await api.logout();
    expect([...stored]).toEqual([]);
    expect(requests).toEqual(['POST /api/v1/auth/session', 'GET /api/v1/auth/me', 'POST /api/v1/auth/session/logout']);
  });
});

describe('requests', () => {
  it('repeat a parameter for each value and leave out empty ones', async () => {
    const { api, requests } = setup((path) => (path.endsWith('/auth/session/refresh') ? [200, tokens(1)] : [200, {}]));
    await api.get('/runs', { params: { query: { state: ['failed', 'lost'], job: '', cursor: null, dead: true } } });
    expect(requests.at(-1)).toBe('GET /api/v1/runs?state=failed&state=lost&dead=true');
  });

  it('turn a problem document into an error with its message and Retry-After', async () => {
    const { api } = setup((path) => (path.endsWith('/auth/session/refresh') ? [200, tokens(1)] : [429, { title: 'Too Many Requests', status: 429, detail: 'slow down' }, { 'Retry-After': '7' }]));
    await expect(api.get('/jobs')).rejects.toMatchObject({ message: 'slow down', retryAfter: 7, transient: true });
  });

  it.each([
    ['', 'text/plain', 'The proxy cannot reach the API (HTTP 502)'],
    ['', 'application/json', 'The proxy cannot reach the API (HTTP 502)'],
    ['<h1>nginx</h1>', 'text/html', 'The proxy cannot reach the API (HTTP 502)'],
    ['[1]', 'application/json', 'The proxy cannot reach the API (HTTP 502)'],
    ['{"title": "Bad Gateway", "detail": "no upstream"}', 'application/problem+json', 'no upstream'],
  ])('give an error with the body %j of type %s a message', async (body, type, message) => {
    const stored = { getItem: () => 'yes', setItem: () => {}, removeItem: () => {} };
    const api = new Api(async ({ url }) => (url.endsWith('/refresh') ? Response.json(tokens(1)) : new Response(body, { status: 502, headers: { 'Content-Type': type } })), stored);
    await expect(api.get('/jobs')).rejects.toMatchObject({ status: 502, message, transient: true });
  });

  it('report an unreachable server as a transient error', async () => {
    const api = new Api(() => Promise.reject(new TypeError('network')), { getItem: () => 'refresh', setItem: () => {}, removeItem: () => {} });
    await expect(api.get('/jobs')).rejects.toMatchObject({ status: 0, message: 'The server is not responding', transient: true });
  });
});
