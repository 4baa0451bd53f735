// How the jobs in view do: their last runs and next fires, asked for together, and again when the stream says that
// something moved. Views read what has come; what a view has read since the last time is what is asked for again.
import { ApiError } from './api';
import { jobs } from './jobs.svelte';
import { store } from './store.svelte';
import type { Mark } from './types';

export const RECENT = 50;
const AT_ONCE = 50;
/** Of those that were read, so many are kept fresh: more than a window shows. */
const MOST_FRESH = 100;

class Recents {
  private values = $state.raw<ReadonlyMap<string, readonly Mark[]>>(new Map());
  private readonly asked = new Set<string>();
  private readonly seen = new Set<string>();
  private wanted: string[] = [];
  private running = false;

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

  /** Ask again for those that are looked at. */
  refresh(): void {
    const fresh = [...this.seen].slice(-MOST_FRESH);
    this.seen.clear();
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
      const next = new Map(this.values);
      for (const one of items) next.set(one.job, one.runs.toReversed());
      this.values = next;
      jobs.told(items);
    } catch (error) {
      // They are asked for again when their rows are shown again.
      for (const name of names) this.asked.delete(name);
      if (!(error instanceof ApiError)) throw error;
    }
  }
}

export const recent = new Recents();

export interface Health {
  success: number | null;
  p95_ms: number | null;
}

export function health(runs: readonly Pick<Mark, 'state' | 'duration_ms'>[]): Health {
  const ended = runs.filter((run) => run.state === 'succeeded' || run.state === 'failed' || run.state === 'lost');
  const lengths = ended.flatMap((run) => (run.duration_ms === null ? [] : [run.duration_ms])).sort((a, b) => a - b);
  return {
    success: ended.length === 0 ? null : ended.filter((run) => run.state === 'succeeded').length / ended.length,
    p95_ms: lengths[Math.min(lengths.length - 1, Math.floor(lengths.length * 0.95))] ?? null,
  };
}
