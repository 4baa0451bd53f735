import { deflateSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { backoff, Live, type Link } from '../../src/lib/live';

class Socket {
  static readonly OPEN = 1;
  static made: Socket[] = [];
  readyState = 1;
  sent: { op: string; [key: string]: unknown }[] = [];
  onopen: () => void = () => {};
  onmessage: (event: { data: string | ArrayBuffer }) => void = () => {};
  onclose: (event: { code: number }) => void = () => {};
  constructor(readonly url: string) {
    Socket.made.push(this);
  }
  send(text: string) {
    this.sent.push(JSON.parse(text) as { op: string });
  }
  closed = false;
  close() {
    this.closed = true;
  }
}

const tick = (socket: Socket | undefined, seq = '1-0') => socket?.onmessage({ data: JSON.stringify({ t: 'tick', seq }) });
const flush = () => vi.advanceTimersByTimeAsync(0);

describe('the socket', () => {
  let links: Link[];
  let seq: string | null;
  let ticket: () => Promise<string>;
  let live: Live;

  beforeEach(() => {
    vi.useFakeTimers();
    vi.stubGlobal('WebSocket', Socket);
    Socket.made = [];
    links = [];
    seq = null;
    ticket = () => Promise.resolve('ticket');
    live = new Live({
      url: 'ws://here/api/v1/stream', ticket: () => ticket(), cursor: () => seq, onMessage: (message) => (seq = message.seq), onLink: (link) => links.push(link), random: () => 1, open: (url) => new Socket(url) as unknown as WebSocket,
    });
  });
  afterEach(() => {
    live.stop();
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it('sends the ticket in the hello message, not in the URL, and resumes from its position after a disconnect', async () => {
    live.start();
    await flush();
    const [first] = Socket.made;
    first?.onopen();
    expect(first?.sent[0]).toEqual({ op: 'hello', ticket: 'ticket', since: null, topics: ['cluster'], encoding: 'deflate' });
    expect(first?.url).not.toContain('ticket');
    first?.onmessage({ data: JSON.stringify({ t: 'tick', seq: '17-0' }) });
    first?.onclose({ code: 1006 });
    await vi.advanceTimersByTimeAsync(500);
    Socket.made[1]?.onopen();
    expect(Socket.made[1]?.sent[0]).toMatchObject({ op: 'hello', since: '17-0' });
  });

  it('ignores a compressed message of a connection that is lost by the time it is decompressed', async () => {
    vi.useRealTimers();
    live.start();
    await vi.waitFor(() => expect(Socket.made.length).toBe(1));
    const [first] = Socket.made;
    first?.onopen();
    const message = (at: string) => new Uint8Array(deflateSync(JSON.stringify({ t: 'tick', seq: at }))).buffer;
    first?.onmessage({ data: message('1-0') });
    await vi.waitFor(() => expect(seq).toBe('1-0'));
    first?.onmessage({ data: message('2-0') });
    first?.onclose({ code: 1006 });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(seq).toBe('1-0');
    expect(links.at(-1)?.state).toBe('waiting');
  });

  it('is not live before the first message', async () => {
    live.start();
    await flush();
    Socket.made[0]?.onopen();
    expect(links.map((link) => link.state)).toEqual(['connecting']);
    Socket.made[0]?.onmessage({ data: JSON.stringify({ t: 'snap', seq: '1-0' }) });
    expect(links.at(-1)?.state).toBe('live');
  });

  it('reconnects with backoff, and immediately on request', async () => {
    ticket = () => Promise.reject(new Error('away'));
    live.start();
    await flush();
    expect(links.at(-1)).toMatchObject({ state: 'waiting', reason: 'away', retryAt: Date.now() + 500 });
    await vi.advanceTimersByTimeAsync(500);
    expect(links.at(-1)?.retryAt).toBe(Date.now() + 1000);
    ticket = () => Promise.resolve('t');
    live.reconnect();
    await flush();
    expect(Socket.made.length).toBe(1);
  });

  it('subscribes to its topics again on a new connection', async () => {
    live.start();
    await flush();
    Socket.made[0]?.onopen();
    live.subscribe('run:x', 200);
    live.subscribe('run:y', 200);
    live.unsubscribe('run:y');
    Socket.made[0]?.onclose({ code: 1012 });
    await vi.advanceTimersByTimeAsync(500);
    Socket.made[1]?.onopen();
    expect(Socket.made[1]?.sent.slice(1)).toEqual([{ op: 'sub', topic: 'run:x', tail: 200 }]);
  });

  it('renews its login before it expires', async () => {
    live.start();
    await flush();
    Socket.made[0]?.onopen();
    for (let second = 0; second < 14 * 60; second += 5) {
      tick(Socket.made[0]);
      await vi.advanceTimersByTimeAsync(5000);
    }
    expect(Socket.made.length).toBe(1);
    expect(Socket.made[0]?.sent.some((message) => message.op === 'auth')).toBe(true);
  });

  it('gives a silent connection up after ten seconds and ignores what it still delivers', async () => {
    live.start();
    await flush();
    const [first] = Socket.made;
    first?.onopen();
    tick(first, '1-0');
    await vi.advanceTimersByTimeAsync(9_999);
    expect(links.at(-1)?.state).toBe('live');
    await vi.advanceTimersByTimeAsync(1);
    expect(links.at(-1)).toMatchObject({ state: 'waiting', reason: 'the server sent nothing for 10 seconds' });
    expect(first?.closed).toBe(true);
    await vi.advanceTimersByTimeAsync(500);
    const second = Socket.made[1];
    second?.onopen();
    expect(second?.sent[0]).toMatchObject({ op: 'hello', since: '1-0' });
    tick(first, '2-0');
    first?.onclose({ code: 1006 });
    expect(seq).toBe('1-0');
    tick(second, '3-0');
    expect(links.at(-1)?.state).toBe('live');
  });

  it('gives up a ticket that does not arrive, and does not use it later', async () => {
    let answer: (ticket: string) => void = () => {};
    ticket = () => new Promise((resolve) => (answer = resolve));
    live.start();
    await vi.advanceTimersByTimeAsync(30_000);
    expect(links.at(-1)).toMatchObject({ state: 'waiting', reason: 'the server sent nothing for 30 seconds' });
    answer('late');
    await flush();
    expect(Socket.made.length).toBe(0);
  });

  it('waits between half and all of the backoff time, at most 15 seconds', () => {
    expect(backoff(0, () => 0)).toBe(250);
    expect(backoff(30, () => 1)).toBe(15_000);
  });
});
