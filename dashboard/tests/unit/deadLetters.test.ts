import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { RunSummary } from '../../src/lib/types';

// The store opens a socket and reads the address of the page; these tests bring their own source.
vi.mock('../../src/lib/store.svelte', () => ({ store: {} }));

const { ApiError } = await import('../../src/lib/api');
const { DeadLetters } = await import('../../src/lib/deadLetters.svelte');

const run = (id: string) => ({ id, dead: true }) as RunSummary;
const names = (from: number, n: number) => Array.from({ length: n }, (_, i) => `job@${from - i}`);

/** The dead letters of a server, newest first, and what was requested. */
class Server {
  requests: string[] = [];
  received = 0;
  fails = false;
  pause: Promise<void> = Promise.resolve();

  constructor(public ids: string[]) {}

  private async answer<T>(request: string, rows: number, found: () => T): Promise<T> {
    this.requests.push(request);
    if (this.fails) throw new ApiError(503, { title: 'Service Unavailable', status: 503 });
    const value = found();
    await this.pause;
    this.received += rows;
    return value;
  }

  page = (cursor: string | null) => {
    const from = Number(cursor ?? 0);
    const items = this.ids.slice(from, from + 500).map(run);
    return this.answer('page', items.length, () => ({ items, next_cursor: from + 500 < this.ids.length ? String(from + 500) : null }));
  };
  allIds = () => this.answer('ids', 0, () => this.ids.slice(0, 2000));
  runs = (ids: readonly string[]) => {
    expect(ids.length).toBeLessThanOrEqual(100);
    const found = ids.filter((id) => this.ids.includes(id)).map(run);
    return this.answer('runs', found.length, () => found);
  };
}

let server: Server;
let letters: InstanceType<typeof DeadLetters>;
const shown = () => letters.rows.map((one) => one.id);

beforeEach(() => {
  server = new Server(names(5000, 1200));
  letters = new DeadLetters({ page: server.page, ids: server.allIds, runs: server.runs });
});

describe('dead letters', () => {
  it('are loaded page by page once, then only as far as they changed', async () => {
    await letters.load();
    expect(server.requests).toEqual(['page', 'page', 'page']);
    expect(shown()).toEqual(server.ids);
    const [kept] = letters.rows;
    // New ones at the top and further down, and others that are gone.
    server.ids = ['new@2', ...server.ids.slice(0, 40), 'late@1', ...server.ids.slice(43)];
    Object.assign(server, { requests: [], received: 0 });
    await letters.load();
    expect(server.requests).toEqual(['ids', 'runs']);
    expect(server.received).toBe(2);
    expect(shown()).toEqual(server.ids);
    expect(letters.rows[1]).toBe(kept);
  });

  it('are not requested again if only some are gone', async () => {
    await letters.load();
    server.ids = server.ids.slice(5);
    server.requests = [];
    await letters.load();
    expect(server.requests).toEqual(['ids']);
    expect(shown()).toEqual(server.ids);
  });

  it('are requested in parts if many are new, and page by page if most are', async () => {
    await letters.load();
    server.ids = [...names(5250, 250), ...server.ids];
    server.requests = [];
    await letters.load();
    expect(server.requests).toEqual(['ids', 'runs', 'runs', 'runs']);
    expect(shown()).toEqual(server.ids);
    server.ids = names(9000, 900);
    server.requests = [];
    await letters.load();
    expect(server.requests).toEqual(['ids', 'page', 'page']);
    expect(shown()).toEqual(server.ids);
  });

  it('are at most two thousand', async () => {
    server.ids = names(9000, 2600);
    await letters.load();
    expect(shown()).toEqual(server.ids.slice(0, 2000));
    server.ids = ['new@1', ...server.ids];
    await letters.load();
    expect(shown()).toEqual(server.ids.slice(0, 2000));
  });

  it('that are resolved between two requests do not come back', async () => {
    const runs = (ids: readonly string[]) => {
      server.ids = server.ids.filter((id) => id !== 'gone@1');
      return server.runs(ids);
    };
    letters = new DeadLetters({ page: server.page, ids: server.allIds, runs });
    await letters.load();
    server.ids = ['new@1', 'gone@1', ...server.ids];
    await letters.load();
    expect(shown()).toEqual(server.ids);
    expect(shown().slice(0, 2)).toEqual(['new@1', 'job@5000']);
  });

  it('that were removed here do not come back with a response that was under way', async () => {
    await letters.load();
    let release = () => {};
    server.pause = new Promise((resolve) => (release = resolve));
    const loading = letters.load();
    letters.remove(['job@5000']);
    release();
    await loading;
    expect(shown()).not.toContain('job@5000');
    // What another user did meanwhile is seen with the next load.
    await letters.load();
    expect(shown()[0]).toBe('job@5000');
  });

  it('are loaded once more if something changed during a load', async () => {
    let release = () => {};
    server.pause = new Promise((resolve) => (release = resolve));
    const loading = letters.load();
    server.ids = ['new@1', ...server.ids];
    void letters.load();
    void letters.load();
    release();
    await loading;
    expect(server.requests.filter((request) => request === 'ids').length).toBe(1);
    expect(shown()[0]).toBe('new@1');
  });

  it('keep an error until a load succeeds', async () => {
    server.fails = true;
    await letters.load();
    expect([letters.error?.status, letters.ready]).toEqual([503, false]);
    server.fails = false;
    await letters.load();
    expect([letters.error, letters.ready]).toEqual([null, true]);
    expect(shown()).toEqual(server.ids);
    server.fails = true;
    await letters.load();
    expect(letters.error?.status).toBe(503);
  });
});
