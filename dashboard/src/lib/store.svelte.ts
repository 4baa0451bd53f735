// The runes between the one writer and the views: what came down the socket, who is logged in, what time it is. Views
// read from here and never fetch.
import { Api } from './api';
import { Live, type Link } from './live';
import { apply, empty, resumed, withHistory, withoutTail, withPast, type State } from './state';
import type { ClusterEvent, LogLine, Me, Role } from './types';

const ROLES: Role[] = ['viewer', 'operator', 'admin'];
/** A tick is due every second. */
const SILENT_MS = 1500;
const AMBER_MS = 3000;
const RED_MS = 10_000;
/** How often the readiness probe is asked while no tick comes. */
const PROBE_MS = 5000;

export type Liveness = 'live' | 'late' | 'stale' | 'connecting';

class Store {
  state = $state.raw<State>(empty());
  link = $state.raw<Link>({ state: 'connecting', retryAt: null, reason: null });
  me = $state.raw<Me | null>(null);
  /** Whether this cluster may be broken on purpose, by whoever is logged in. */
  chaos = $state(false);
  /** Whether the first question, are we logged in, has been answered. */
  known = $state(false);
  /** The cluster's clock as this page guesses it, moved once a second. */
  now = $state(Date.now());
  /** The view stands still; messages wait and are counted. */
  held = $state(false);
  waiting = $state(0);

  /** By this browser's clock: when the last message came. */
  private heard = $state(0);
  private skew = 0;
  private resuming: number | null = null;
  private kept: State | null = null;
  /** What happened, as it is told. */
  onEvents: (events: readonly ClusterEvent[]) => void = () => {};
  private readonly users = new Map<string, number>();

  readonly api = new Api();
  readonly live = new Live({
    url: `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/api/v1/stream`,
    ticket: () => this.api.ticket(),
    cursor: () => (this.kept ?? this.state).seq,
    onMessage: (message) => this.take(message),
    onLink: (link) => this.linked(link),
  });

  values = $derived(this.state.values);
  age = $derived(this.heard === 0 ? Infinity : Math.max(0, this.now - this.heard - this.skew));
  liveness = $derived<Liveness>(
    this.heard === 0 ? 'connecting' : this.age > RED_MS ? 'stale' : this.age > AMBER_MS || this.link.state !== 'live' ? 'late' : 'live',
  );
  /** What the readiness probe said when ticks stopped; asked only then. */
  private probed = $state.raw<{ redis: string | null; mongo: string | null }>({ redis: null, mongo: null });
  away = $derived.by(() => {
    const servers = this.values?.servers;
    const stale = this.liveness === 'stale';
    const redis = stale ? this.probed.redis : servers !== undefined && 'error' in servers.redis ? servers.redis.error : null;
    const mongo = stale ? this.probed.mongo : servers !== undefined && 'error' in servers.mongodb ? servers.mongodb.error : null;
    return [...(redis === null ? [] : [{ name: 'Redis', reason: redis }]), ...(mongo === null ? [] : [{ name: 'MongoDB', reason: mongo }])];
  });

  constructor() {
    this.api.onLogin = (me) => {
      this.me = me;
      this.chaos = false;
      if (me === null) this.live.stop();
      else {
        this.live.start();
        void this.past();
        if (this.may('admin')) void this.api.settings().then(({ chaos }) => (this.chaos = chaos)).catch(() => undefined);
      }
    };
    setInterval(() => {
      // A tick moves the clock; it goes on by itself only where none comes, so that views are not made twice a second.
      if (Date.now() - this.heard < SILENT_MS) return;
      this.now = this.time();
      if (this.me !== null && this.liveness === 'stale' && this.now % PROBE_MS < 1000) void this.probe();
    }, 1000);
    addEventListener('online', () => this.live.now());
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) {
        this.now = this.time();
        this.live.now();
      }
    });
  }

  /** The cluster's clock at this moment; `now` is it at the last tick. */
  time(): number {
    return Date.now() + this.skew;
  }

  async begin(): Promise<void> {
    try {
      await this.api.resume();
    } finally {
      this.known = true;
    }
  }

  /** Whether the server would allow it: no button is shown that would answer 403. */
  may(role: Role, job: string | null = null): boolean {
    if (this.me === null || ROLES.indexOf(this.me.role) < ROLES.indexOf(role)) return false;
    const { jobs } = this.me;
    return jobs.length === 0 || (job !== null && jobs.some((pattern) => matches(pattern, job)));
  }

  /** Stand still, or go on from where the cluster is by now. */
  hold(held: boolean): void {
    this.held = held;
    this.waiting = 0;
    if (held) {
      this.kept = this.state;
    } else if (this.kept !== null) {
      this.state = this.kept;
      this.kept = null;
    }
  }

  /** Follow a topic for as long as the caller keeps it; many callers share one subscription. */
  follow(topic: string, tail = 200): () => void {
    const users = this.users.get(topic) ?? 0;
    this.users.set(topic, users + 1);
    if (users === 0) this.live.subscribe(topic, tail);
    return () => {
      const left = (this.users.get(topic) ?? 1) - 1;
      this.users.set(topic, left);
      if (left > 0) return;
      this.users.delete(topic);
      this.live.unsubscribe(topic);
      this.state = withoutTail(this.state, topic);
    };
  }

  history(topic: string, lines: readonly LogLine[]): void {
    this.state = withHistory(this.state, topic, lines);
  }

  /** What happened before the page was opened, or while no tick told of it. */
  private async past(): Promise<void> {
    const leading = ['leader_elected', 'leader_stepped_down', 'runs_lost', 'runs_reassigned'];
    const pages = await Promise.all([this.api.events({ limit: 40 }), this.api.events({ limit: 40, kind: leading })]).catch(() => []);
    const found = pages.flatMap((page) => page.items);
    if (found.length === 0) return;
    this.state = withPast(this.state, found);
    if (this.kept !== null) this.kept = withPast(this.kept, found);
  }

  private async probe(): Promise<void> {
    const found = await this.api.ready().catch(() => null);
    this.probed = { redis: found?.redis.error ?? null, mongo: found?.mongodb.error ?? null };
  }

  private take(message: Parameters<typeof apply>[1]): void {
    const before = this.kept ?? this.state;
    const at = message.t === 'snap' ? message.doc.at : message.ts;
    let next = apply(before, message);
    if (message.t === 'tick' && this.resuming !== null) {
      this.resuming += message.events.length;
      // A tick of this very second: the replay is over.
      if (Math.abs(Date.now() + this.skew - Date.parse(at)) < 1500) {
        next = resumed(next, this.resuming);
        this.resuming = null;
      }
    } else if (message.t === 'snap') {
      this.resuming = null;
    }
    this.heard = Date.now();
    const ahead = Date.parse(at) - this.heard;
    // The two clocks may differ; what the network took is not worth following.
    if (this.resuming === null && Math.abs(ahead - this.skew) > 1000) this.skew = ahead;
    this.now = this.time();
    if (message.t === 'tick') this.onEvents(message.events);
    // The stream has lost its place, or this page was too slow for it.
    if (message.t === 'snap' ? before.ready : message.dropped > 0) void this.past();
    if (this.kept === null) {
      this.state = next;
    } else {
      this.kept = next;
      this.waiting += 1;
    }
  }

  private linked(link: Link): void {
    if (link.state === 'live' && this.link.state === 'live') return;
    if (link.state === 'connecting' && (this.kept ?? this.state).seq !== null) this.resuming ??= 0;
    this.link = link;
  }
}

/** Shell patterns, as the server reads them: `*` and `?`. */
function matches(pattern: string, name: string): boolean {
  const source = pattern.replace(/[.+^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*').replaceAll('?', '.');
  return new RegExp(`^${source}$`).test(name);
}

export const store = new Store();
