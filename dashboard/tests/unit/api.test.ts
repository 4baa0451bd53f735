import { describe, expect, it } from 'vitest';
import { Api, ApiError } from '../../src/lib/api';

function made(answers: (path: string, options: RequestInit) => [number, unknown, Record<string, string>?]) {
  const kept = new Map<string, string>([['cronflow.refresh', 'old']]);
  const asked: string[] = [];
  const api = new Api(
    (path, options) => {
      asked.push(`${options?.method} ${String(path)}`);
      const [status, body, headers] = answers(String(path), options ?? {});
      return Promise.resolve(new Response(status === 204 ? null : JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json', ...headers } }));
    },
    { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => void kept.set(key, value), removeItem: (key) => void kept.delete(key) },
  );
  return { api, asked, kept };
}

const tokens = (n: number) => ({ access_token: `access ${n}`, refresh_token: `refresh ${n}`, expires_in: 900 });

describe('the login', () => {
  it('is renewed once for many requests at a time, because a refresh token is good for one use', async () => {
    let renewals = 0;
    const { api, kept } = made((path) => (path.endsWith('/auth/refresh') ? [200, tokens(++renewals)] : [200, { items: [], next_cursor: null }]));
    await Promise.all([api.jobs(), api.runs(), api.jobs()]);
    expect(renewals).toBe(1);
    expect(kept.get('cronflow.refresh')).toBe('refresh 1');
  });

  it('is renewed when the server says that it is over, and the request is made again', async () => {
    let first = true;
    const { api, asked } = made((path) => {
      if (path.endsWith('/auth/refresh')) return [200, tokens(1)];
      if (first) {
        first = false;
        return [401, { title: 'Unauthorized', status: 401 }];
      }
      return [200, { items: [], next_cursor: null }];
    });
    await api.jobs();
    expect(asked.filter((one) => one === 'GET /api/v1/jobs').length).toBe(2);
  });

  it('is kept while the server is away, and forgotten when it is refused', async () => {
    let status = 503;
    const { api, kept } = made(() => [status, { title: 'no', status }]);
    await expect(api.jobs()).rejects.toMatchObject({ status: 503, passing: true });
    expect(kept.has('cronflow.refresh')).toBe(true);
    status = 401;
    await expect(api.jobs()).rejects.toBeInstanceOf(ApiError);
    expect(kept.has('cronflow.refresh')).toBe(false);
  });
});

describe('requests', () => {
  it('repeat a parameter for several values and leave empty ones out', async () => {
    const { api, asked } = made((path) => (path.endsWith('/auth/refresh') ? [200, tokens(1)] : [200, {}]));
    await api.runs({ state: ['failed', 'lost'], job: '', cursor: null, dead: true });
    expect(asked.at(-1)).toBe('GET /api/v1/runs?state=failed&state=lost&dead=true');
  });

  it('turn a problem document into an error with its words and its wait', async () => {
    const { api } = made((path) => (path.endsWith('/auth/refresh') ? [200, tokens(1)] : [429, { title: 'Too Many Requests', status: 429, detail: 'slow down' }, { 'Retry-After': '7' }]));
    await expect(api.jobs()).rejects.toMatchObject({ message: 'slow down', retryAfter: 7, passing: true });
  });
});
