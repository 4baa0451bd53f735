// The last runs and next fires of the jobs in view, loaded in batches and reloaded while runs start or end. Whatever a view
// has read since the last refresh counts as in view.
import { tick } from 'svelte';
import { SvelteMap } from 'svelte/reactivity';
import { ApiError } from './api';
import { jobs } from './jobs.svelte';
import { store } from './store.svelte';
import type { Mark, Recent } from './types';

export const RECENT = 50;
const BATCH = 50;
/** How many jobs are kept up to date: more than a window shows. */
const MAX_FRESH = 100;
/** Each tick reloads one of this many shares of the rows. */
const TURNS = 4;
/** Refreshes after the last run has ended: every share once more, and one to show the last response. */
export const EXTRA_ROUNDS = TURNS + 1;

class RecentRuns {
  private readonly values = new SvelteMap<string, readonly Mark[]>();
  private readonly requested = new Set<string>();
  private readonly seen = new Set<string>();
  private queue: string[] = [];
  private running = false;
  private round: string[] = [];
  private turn = 0;
  /** Responses for rows that are already shown; they wait for the next tick, so that both cost one frame. */
  private received: Recent[] = [];

  /** The last runs of a job, the newest last; undefined until they are loaded. */
  get(job: string): readonly Mark[] | undefined {
    const value = this.values.get(job);
    this.seen.delete(job);
    this.seen.add(job);
    if (value === undefined && !this.requested.has(job)) {
      this.requested.add(job);
      this.queue.push(job);
      queueMicrotask(() => void this.pump());
    }
    return value;
  }

  /** Shows received data and reloads a share of the rows in view. */
  refresh(): void {
    this.show(this.received.splice(0));
    jobs.flushNextFires();
    // By the next tick of Svelte, every row in view has read its data.
    void tick().then(() => this.reload());
  }

  private reload(): void {
    if (this.turn === 0) {
      this.round = [...this.seen].slice(-MAX_FRESH);
      this.seen.clear();
    }
    const fresh = this.round.filter((_, i) => i % TURNS === this.turn);
    this.turn = (this.turn + 1) % TURNS;
    this.queue = [...new Set([...this.queue, ...fresh])];
    void this.pump();
  }

  private async pump(): Promise<void> {
    if (this.running) return;
    this.running = true;
    try {
      // The jobs requested last are the ones in view.
      while (this.queue.length > 0) await this.load(this.queue.splice(-BATCH));
    } finally {
      this.running = false;
    }
  }

  private async load(names: string[]): Promise<void> {
    try {
      const { items } = await store.api.get('/runs/recent', { params: { query: { job: names, limit: RECENT } } });
      // Immediately, so that an older response does not undo a pause on the screen.
      jobs.update(items);
      if (items.every((one) => this.values.has(one.job))) this.received.push(...items);
      else this.show(items);
    } catch (error) {
      // They are requested again when their rows are shown again.
      for (const name of names) this.requested.delete(name);
      if (!(error instanceof ApiError)) throw error;
    }
  }

  private show(items: readonly Recent[]): void {
    for (const one of items) this.values.set(one.job, one.runs.toReversed());
  }
}

export const recentRuns = new RecentRuns();

export interface Health {
  success: number | null;
  p95_ms: number | null;
}

const healths = new WeakMap<object, Health>();

/** Cached per list of runs, because three cells of a row need it. */
export function health(runs: readonly Pick<Mark, 'state' | 'duration_ms'>[]): Health {
  let found = healths.get(runs);
  if (found === undefined) healths.set(runs, (found = healthOf(runs)));
  return found;
}

function healthOf(runs: readonly Pick<Mark, 'state' | 'duration_ms'>[]): Health {
  const ended = runs.filter((run) => run.state === 'succeeded' || run.state === 'failed' || run.state === 'lost');
  const durations = ended.flatMap((run) => (run.duration_ms === null ? [] : [run.duration_ms])).sort((a, b) => a - b);
  return {
    success: ended.length === 0 ? null : ended.filter((run) => run.state === 'succeeded').length / ended.length,
    p95_ms: durations[Math.min(durations.length - 1, Math.floor(durations.length * 0.95))] ?? null,
  };
}
