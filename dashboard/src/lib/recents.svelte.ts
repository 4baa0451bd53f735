// How the jobs in view do: their last runs and next fires, asked for together, and again when the stream says that
// something moved. Views read what has come; what a view has read since the last time is what is asked for again.
import { tick } from 'svelte';
import { SvelteMap } from 'svelte/reactivity';
import { ApiError } from './api';
import { jobs } from './jobs.svelte';
import { store } from './store.svelte';
import type { Mark, Recent } from './types';

export const RECENT = 50;
const AT_ONCE = 50;
/** Of those that were read, so many are kept fresh: more than a window shows. */
const MOST_FRESH = 100;
/** With so many refreshes each of them has been asked for again: a share of the rows with every tick. */
const TURNS = 4;
/** After the last run has ended: each once more, and what came last is shown. */
export const AFTER = TURNS + 1;

class Recents {
  private readonly values = new SvelteMap<string, readonly Mark[]>();
  private readonly asked = new Set<string>();
  private readonly seen = new Set<string>();
  private wanted: string[] = [];
  private running = false;
  private round: string[] = [];
  private turn = 0;
  /** What has come of rows that are shown already: it is shown with the next tick, so that both cost one frame. */
  private come: Recent[] = [];

  /** The last runs of a job, the newest last; undefined until they have come. */
  get(job: string): readonly Mark[] | undefined {
    const value = this.values.get(job);
    this.seen.delete(job);
    this.seen.add(job);
    if (value === undefined && !this.asked.has(job)) {
      this.asked.add(job);
      this.wanted.push(job);
      queueMicrotask(() => void this.pump());
    }
    return value;
  }

  /** Show what has come, and ask again for a share of those that are looked at. */
  refresh(): void {
    this.show(this.come.splice(0));
    jobs.due();
    // What is in view has read what came by then, and is known to be looked at.
    void tick().then(() => this.again());
  }

  private again(): void {
    if (this.turn === 0) {
      this.round = [...this.seen].slice(-MOST_FRESH);
      this.seen.clear();
    }
    const fresh = this.round.filter((_, i) => i % TURNS === this.turn);
    this.turn = (this.turn + 1) % TURNS;
    this.wanted = [...new Set([...this.wanted, ...fresh])];
    void this.pump();
  }

  private async pump(): Promise<void> {
    if (this.running) return;
    this.running = true;
    try {
      // Those that were asked for last are what is looked at.
      while (this.wanted.length > 0) await this.load(this.wanted.splice(-AT_ONCE));
    } finally {
      this.running = false;
    }
  }

  private async load(names: string[]): Promise<void> {
    try {
      const { items } = await store.api.recent(names, RECENT);
      // At once: whoever pauses a job must not be told afterwards of how it was before.
      jobs.told(items);
      if (items.every((one) => this.values.has(one.job))) this.come.push(...items);
      else this.show(items);
    } catch (error) {
      // They are asked for again when their rows are shown again.
      for (const name of names) this.asked.delete(name);
      if (!(error instanceof ApiError)) throw error;
    }
  }

  private show(items: readonly Recent[]): void {
    for (const one of items) this.values.set(one.job, one.runs.toReversed());
  }
}

export const recent = new Recents();

export interface Health {
  success: number | null;
  p95_ms: number | null;
}

const healths = new WeakMap<object, Health>();

/** Worked out once for the same runs: three cells of a row ask for it. */
export function health(runs: readonly Pick<Mark, 'state' | 'duration_ms'>[]): Health {
  let found = healths.get(runs);
  if (found === undefined) healths.set(runs, (found = healthOf(runs)));
  return found;
}

function healthOf(runs: readonly Pick<Mark, 'state' | 'duration_ms'>[]): Health {
  const ended = runs.filter((run) => run.state === 'succeeded' || run.state === 'failed' || run.state === 'lost');
  const lengths = ended.flatMap((run) => (run.duration_ms === null ? [] : [run.duration_ms])).sort((a, b) => a - b);
  return {
    success: ended.length === 0 ? null : ended.filter((run) => run.state === 'succeeded').length / ended.length,
    p95_ms: lengths[Math.min(lengths.length - 1, Math.floor(lengths.length * 0.95))] ?? null,
  };
}
