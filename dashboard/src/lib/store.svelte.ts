// Reactive state between the socket and the views: the cluster, the login and the clock. Views read from here.
import { Api, ApiError } from './api';
import { frozen } from './frozen.svelte';
import { backoff, Live, type Link } from './live';
import { covers, roleFor } from './permissions';
import { ServerClock } from './serverClock';
import { apply, initialState, withHistory, withoutTail, withPastEvents, withReplayCount, type State } from './state';
import type { ClusterEvent, LogLine, Me, Role } from './types';

/** Ticks arrive every second; without one for this long the page moves its own clock. */
const SILENT_MS = 1500;
const AMBER_MS = 3000;
const RED_MS = 10_000;
/** How often the readiness probe is requested while no ticks arrive. */
const PROBE_MS = 3000;
/** How long the page waits for the login before it shows itself without one. */
const PATIENCE_MS = 400;
const NOTHING_PROBED: Probed = { redis: null, mongo: null, api: null };

interface Probed {
  redis: string | null;
  mongo: string | null;
  /** Why the API itself did not answer. */
  api: string | null;
}

/** The API adds this to the address after a login through the identity provider. */
const SIGNED_IN = '#signed-in';

export type Liveness = 'live' | 'late' | 'stale' | 'connecting' | 'frozen';

class Store {
  state = $state.raw<State>(initialState());
  link = $state.raw<Link>({ state: 'connecting', retryAt: null, reason: null });
  me = $state.raw<Me | null>(null);
  /** Whether this is a development cluster with chaos tools. */
  chaos = $state(false);
  /** Whether the login has been checked. */
  initialized = $state(false);
  /** Whether that takes longer than usual. */
  slow = $state(false);
  /** The cluster's clock, estimated, updated once a second. */
  now = $state(Date.now());
  /** While the view is paused, ticks are counted but not shown. */
  paused = $state(false);
  pendingTicks = $state(0);

  /** When the last message arrived, by this browser's clock. */
  private lastMessageAt = $state(0);
  private readonly startedAt = Date.now();
  private readonly serverClock = new ServerClock();
  private resuming: number | null = null;
  /** The current state while the view is paused. */
  private latest: State | null = null;
  /** Called with the events of every tick. */
  onEvents: (events: readonly ClusterEvent[]) => void = () => {};
  private readonly followers = new Map<string, number>();

  readonly api = new Api();
  readonly live = new Live({
    url: `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/api/v1/stream`,
    ticket: () => this.api.ticket(),
    cursor: () => (this.latest ?? this.state).seq,
    onMessage: (message) => this.receive(message),
    onLink: (link) => this.updateLink(link),
  });

  values = $derived(this.state.values);
  age = $derived(this.lastMessageAt === 0 ? Infinity : Math.max(0, this.now - this.lastMessageAt - this.serverClock.ahead));
  liveness = $derived<Liveness>(
    frozen.at !== null ? 'frozen' : this.lastMessageAt === 0 ? 'connecting' : this.age > RED_MS ? 'stale' : this.age > AMBER_MS || this.link.state !== 'live' ? 'late' : 'live',
  );
  /** What the readiness probe returned; it is requested only while no ticks arrive. */
  private probed = $state.raw<Probed>(NOTHING_PROBED);
  private probing = false;
  unavailable = $derived.by(() => {
    const servers = this.values?.servers;
    const silent = this.liveness !== 'live' && this.probed !== NOTHING_PROBED;
    const redis = silent ? this.probed.redis : servers !== undefined && 'error' in servers.redis ? servers.redis.error : null;
    const mongo = silent ? this.probed.mongo : servers !== undefined && 'error' in servers.mongodb ? servers.mongodb.error : null;
    const api = silent ? this.probed.api : null;
    const found = [['The API', api], ['Redis', redis], ['MongoDB', mongo]] as const;
    return found.flatMap(([name, reason]) => (reason === null ? [] : [{ name, reason }]));
  });

  constructor() {
    this.api.frozenAt = () => frozen.at;
    this.api.onLogin = (me) => {
      this.me = me;
      this.chaos = false;
      if (me === null) this.live.stop();
      else {
        if (frozen.at === null) {
          this.live.start();
          void this.loadPastEvents();
        }
        if (this.may(roleFor('chaos'))) void this.api.get('/cluster/settings').then(({ chaos }) => (this.chaos = chaos)).catch(() => undefined);
      }
    };
    setInterval(() => {
      // Each tick moves the clock. This timer moves it only when none arrives, so views render once a second.
      if (frozen.at !== null || Date.now() - this.lastMessageAt < SILENT_MS) return;
      this.now = this.time();
      const silentFor = Date.now() - Math.max(this.lastMessageAt, this.startedAt);
      if ((this.me !== null || this.slow) && silentFor > AMBER_MS && this.now % PROBE_MS < 1000) void this.probe();
    }, 1000);
    addEventListener('online', () => this.live.reconnect());
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden && frozen.at === null) {
        this.now = this.time();
        this.live.reconnect();
      }
    });
  }

  /** The cluster's clock right now; `now` is the value at the last tick. */
  time(): number {
    return frozen.at ?? Date.now() + this.serverClock.ahead;
  }

  /** Stops the clock and the updates at an instant; null: begins again with a new snapshot. */
  freeze(at: number | null): void {
    if (at === null) {
      this.now = this.time();
      if (this.me !== null) {
        this.live.start();
        void this.loadPastEvents();
      }
      return;
    }
    this.live.stop();
    this.pauseView(false);
    this.state = initialState();
    this.lastMessageAt = 0;
    this.now = at;
  }

  async begin(): Promise<void> {
    const back = location.hash === SIGNED_IN;
    if (back) history.replaceState(history.state, '', location.pathname + location.search);
    const patience = setTimeout(() => {
      this.slow = true;
      void this.probe();
    }, PATIENCE_MS);
    try {
      await this.resume(back);
    } finally {
      clearTimeout(patience);
      this.initialized = true;
    }
  }

  /** Waits for the servers if they are unavailable: the login of this browser may well be valid. */
  private async resume(back: boolean): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      try {
        await this.api.resume(back && attempt === 0);
        return;
      } catch (error) {
        if (!(error instanceof ApiError) || !error.transient) throw error;
      }
      this.slow = true;
      void this.probe();
      await new Promise((resolve) => setTimeout(resolve, backoff(attempt, Math.random)));
    }
  }

  /** Whether the server would allow an action that needs this role. */
  may(role: Role, job: string | null = null): boolean {
    if (this.me === null || frozen.at !== null || !covers(this.me.role, role)) return false;
    const { jobs } = this.me;
    return jobs.length === 0 || (job !== null && jobs.some((pattern) => matches(pattern, job)));
  }

  /** Pauses the view, or resumes it with the current state of the cluster. */
  pauseView(paused: boolean): void {
    this.paused = paused;
    this.pendingTicks = 0;
    if (paused) {
      this.latest = this.state;
    } else if (this.latest !== null) {
      this.state = this.latest;
      this.latest = null;
    }
  }

  /** Follows a topic until the returned function is called; callers share one subscription. */
  follow(topic: string, tail = 200): () => void {
    const followers = this.followers.get(topic) ?? 0;
    this.followers.set(topic, followers + 1);
    if (followers === 0) this.live.subscribe(topic, tail);
    return () => {
      const left = (this.followers.get(topic) ?? 1) - 1;
      this.followers.set(topic, left);
      if (left > 0) return;
      this.followers.delete(topic);
      this.live.unsubscribe(topic);
      this.state = withoutTail(this.state, topic);
    };
  }

  addHistory(topic: string, lines: readonly LogLine[]): void {
    this.state = withHistory(this.state, topic, lines);
  }

  /** Loads events from before the page was opened, or from while the stream was interrupted. */
  private async loadPastEvents(): Promise<void> {
    const kind = ['leader_elected', 'leader_stepped_down', 'runs_lost', 'runs_reassigned'];
    const pages = await Promise.all([this.api.get('/events', { params: { query: { limit: 40 } } }), this.api.get('/events', { params: { query: { limit: 40, kind } } })]).catch(() => []);
    const found = pages.flatMap((page) => page.items);
    if (found.length === 0) return;
    this.state = withPastEvents(this.state, found);
    if (this.latest !== null) this.latest = withPastEvents(this.latest, found);
  }

  private async probe(): Promise<void> {
    if (this.probing) return;
    this.probing = true;
    const found = await this.api.ready().catch(() => null);
    this.probing = false;
    this.probed = found === null
      ? { ...NOTHING_PROBED, api: 'no answer' }
      : { redis: found.redis.error ?? null, mongo: found.mongodb.error ?? null, api: null };
    if (this.unavailable.length === 0) this.live.reconnect();
  }

  private receive(message: Parameters<typeof apply>[1]): void {
    const before = this.latest ?? this.state;
    const at = message.t === 'snap' ? message.doc.at : message.ts;
    let next = apply(before, message);
    if (message.t === 'tick' && this.resuming !== null) {
      this.resuming += message.events.length;
      // A tick of the current second: the replay is complete.
      if (Math.abs(Date.now() + this.serverClock.ahead - Date.parse(at)) < 1500) {
        next = withReplayCount(next, this.resuming);
        this.resuming = null;
      }
    } else if (message.t === 'snap') {
      this.resuming = null;
    }
    this.lastMessageAt = Date.now();
    this.probed = NOTHING_PROBED;
    if (this.resuming === null) this.serverClock.hear(Date.parse(at), this.lastMessageAt);
    this.now = this.time();
    if (message.t === 'tick') this.onEvents(message.events);
    // Events may be missing after a new snapshot or dropped ticks.
    if (message.t === 'snap' ? before.ready : message.dropped > 0) void this.loadPastEvents();
    if (this.latest === null) {
      this.state = next;
    } else {
      this.latest = next;
      this.pendingTicks += 1;
    }
  }

  private updateLink(link: Link): void {
    if (link.state === 'live' && this.link.state === 'live') return;
    if (link.state === 'connecting' && (this.latest ?? this.state).seq !== null) this.resuming ??= 0;
    this.link = link;
  }
}

/** Shell patterns with `*` and `?`, matched as the server matches them. */
function matches(pattern: string, name: string): boolean {
  const source = pattern.replace(/[.+^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*').replaceAll('?', '.');
  return new RegExp(`^${source}$`).test(name);
}

export const store = new Store();
