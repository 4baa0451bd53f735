// What rows in view ask for one by one: each key is asked for once, a few at a time, those asked for last first, since
// they are what is being looked at.
import { ApiError } from './api';
import { store } from './store.svelte';
import type { Run, Schedule } from './types';

const AT_ONCE = 6;

export class Lazy<V> {
  private values = $state.raw<ReadonlyMap<string, V>>(new Map());
  private readonly asked = new Set<string>();
  private readonly queue: string[] = [];
  private running = 0;

  constructor(private readonly load: (key: string) => Promise<V>) {}

  /** The value, or undefined until it has come. */
  get(key: string): V | undefined {
    const value = this.values.get(key);
    if (value === undefined && !this.asked.has(key)) {
      this.asked.add(key);
      this.queue.push(key);
      queueMicrotask(() => this.pump());
    }
    return value;
  }

  forget(key: string): void {
    this.asked.delete(key);
  }

  update(key: string, change: (value: V) => V): void {
    const value = this.values.get(key);
    if (value !== undefined) this.put(key, change(value));
  }

  private put(key: string, value: V): void {
    this.values = new Map(this.values).set(key, value);
  }

  private pump(): void {
    while (this.running < AT_ONCE && this.queue.length > 0) {
      const key = this.queue.pop() as string;
      this.running += 1;
      void this.load(key)
        .then((value) => this.put(key, value))
        .catch((error: unknown) => {
          // It is asked for again when its row is shown again.
          this.asked.delete(key);
          if (!(error instanceof ApiError)) throw error;
        })
        .finally(() => {
          this.running -= 1;
          this.pump();
        });
    }
  }
}

/** A schedule in words, by the server's own engine; equal schedules are asked for once. */
const spoken = new Lazy<string>(async (key) => (await store.api.preview({ schedule: JSON.parse(key) as Schedule, count: 1 })).words);

export function words(schedule: Schedule | null): string | undefined {
  return schedule === null ? 'Only by hand' : spoken.get(JSON.stringify(schedule));
}

export const RECENT = 50;

/** The last runs of a job, the newest last. */
export const recent = new Lazy<Run[]>(async (job) => (await store.api.runsOf(job, { limit: RECENT })).items.reverse());

export interface Health {
  success: number | null;
  p95_ms: number | null;
}

export function health(runs: readonly Run[]): Health {
  const ended = runs.filter((run) => run.state === 'succeeded' || run.state === 'failed' || run.state === 'lost');
  const lengths = ended.flatMap((run) => (run.duration_ms === null ? [] : [run.duration_ms])).sort((a, b) => a - b);
  return {
    success: ended.length === 0 ? null : ended.filter((run) => run.state === 'succeeded').length / ended.length,
    p95_ms: lengths[Math.min(lengths.length - 1, Math.floor(lengths.length * 0.95))] ?? null,
  };
}
