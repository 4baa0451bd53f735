// The websocket: connects with a ticket and the last cursor, passes every message on, and reconnects with backoff, also when
// the server falls silent: after a network change a socket can stay open for minutes with nothing at its other end. It does
// not interpret messages.
import { ENCODING, Inbox } from './inbox';
import type { ErrorMessage, Message } from './stream';

export type LinkState = 'connecting' | 'live' | 'waiting';

export interface Link {
  state: LinkState;
  /** When the next attempt is made, in milliseconds since 1970; null unless waiting. */
  retryAt: number | null;
  reason: string | null;
}

export interface LiveOptions {
  url: string;
  ticket: () => Promise<string>;
  cursor: () => string | null;
  onMessage: (message: Message) => void;
  onLink: (link: Link) => void;
  random?: () => number;
  open?: (url: string) => WebSocket;
}

export const CLOSE_LOGIN_EXPIRED = 4401;
export const CLOSE_TOO_SLOW = 4408;
export const CLOSE_TOO_MANY = 4429;

/** The server closes a socket whose login is older than 15 minutes. */
const RENEW_MS = 10 * 60_000;

/** The server sends a tick every second, so a connection without a message for this long is lost. */
const SILENT_MS = 10_000;
/** For the ticket, the socket and the first message, a whole snapshot, which takes a while on a slow line. */
const CONNECT_MS = 30_000;

const REASONS: Record<number, string> = {
  [CLOSE_LOGIN_EXPIRED]: 'the login of this connection expired',
  [CLOSE_TOO_SLOW]: 'this page was too slow to keep up',
  [CLOSE_TOO_MANY]: 'too many dashboard pages are open',
};

/** 0.5 s, 1 s, 2 s … up to 15 s, with jitter over the upper half so that a thousand pages do not reconnect at once. */
export function backoff(attempt: number, random: () => number): number {
  const full = Math.min(15_000, 500 * 2 ** attempt);
  return full / 2 + (full / 2) * random();
}

export class Live {
  private socket: WebSocket | null = null;
  /** Counts connections; what arrives of an earlier one is ignored. */
  private connection = 0;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private silence: ReturnType<typeof setTimeout> | undefined;
  private renewal: ReturnType<typeof setInterval> | null = null;
  private attempt = 0;
  private stopped = true;
  private readonly topics = new Map<string, number>();

  constructor(private readonly options: LiveOptions) {}

  start(): void {
    if (!this.stopped) return;
    this.stopped = false;
    void this.connect();
  }

  stop(): void {
    this.stopped = true;
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    this.disconnect();
  }

  /** Reconnects now instead of waiting. */
  reconnect(): void {
    if (this.stopped || this.timer === null) return;
    clearTimeout(this.timer);
    this.timer = null;
    void this.connect();
  }

  subscribe(topic: string, tail: number): void {
    this.topics.set(topic, tail);
    this.send({ op: 'sub', topic, tail });
  }

  unsubscribe(topic: string): void {
    if (this.topics.delete(topic)) this.send({ op: 'unsub', topic });
  }

  private send(message: unknown): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  private async connect(): Promise<void> {
    const connection = ++this.connection;
    const current = () => this.connection === connection;
    this.options.onLink({ state: 'connecting', retryAt: null, reason: null });
    this.expectMessage(CONNECT_MS);
    let ticket: string;
    try {
      ticket = await this.options.ticket();
    } catch (error) {
      if (current()) this.retry(error instanceof Error ? error.message : 'the server did not respond');
      return;
    }
    if (!current()) return;
    const socket = (this.options.open ?? ((url) => new WebSocket(url)))(this.options.url);
    this.socket = socket;
    socket.binaryType = 'arraybuffer';
    const inbox = new Inbox((text) => current() && this.take(text), () => socket.close());
    socket.onopen = () => {
      if (!current()) return;
      this.send({ op: 'hello', ticket, since: this.options.cursor(), topics: ['cluster'], encoding: ENCODING });
      for (const [topic, tail] of this.topics) this.send({ op: 'sub', topic, tail });
      this.renewal = setInterval(() => void this.renew(), RENEW_MS);
    };
    socket.onmessage = (event: MessageEvent<string | ArrayBuffer>) => inbox.receive(event.data);
    socket.onclose = (event) => {
      if (current()) this.retry(REASONS[event.code] ?? 'the connection was lost');
    };
  }

  private take(text: string): void {
    const message = JSON.parse(text) as Message | ErrorMessage;
    if (message.t === 'error') return; // an unknown topic: its tail stays empty
    this.attempt = 0;
    this.expectMessage(SILENT_MS);
    this.options.onMessage(message);
    this.options.onLink({ state: 'live', retryAt: null, reason: null });
  }

  private async renew(): Promise<void> {
    try {
      this.send({ op: 'auth', ticket: await this.options.ticket() });
    } catch {
      // The server closes the socket when its login expires, and the page reconnects.
    }
  }

  private expectMessage(within: number): void {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.retry(`the server sent nothing for ${within / 1000} seconds`), within);
  }

  private disconnect(): void {
    this.connection++;
    clearTimeout(this.silence);
    if (this.renewal !== null) clearInterval(this.renewal);
    this.renewal = null;
    this.socket?.close(1000);
    this.socket = null;
  }

  private retry(reason: string): void {
    if (this.stopped) return;
    this.disconnect();
    const wait = backoff(this.attempt++, this.options.random ?? Math.random);
    this.options.onLink({ state: 'waiting', retryAt: Date.now() + wait, reason });
    this.timer = setTimeout(() => {
      this.timer = null;
      void this.connect();
    }, wait);
  }
}
