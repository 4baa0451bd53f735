// The jobs that need attention, shared by all views. Ticks have their numbers; which jobs and why is loaded while a view shows
// them, when a number changes, and every half minute, because others may be in the same numbers.
import { untrack } from 'svelte';
import { Resource } from './resource.svelte';
import { store } from './store.svelte';
import type { JobCondition, JobHealth } from './types';

const AGAIN_MS = 30_000;
/** What the state of a job does not show anyway. */
const URGENT: ReadonlySet<JobHealth> = new Set<JobHealth>(['stuck', 'overdue', 'failing']);

class JobHealths {
  private readonly report = new Resource(() => store.api.get('/job-health'));
  private last = '';
  private loadedAt = 0;

  /** By job, the most urgent condition first. */
  private readonly byJob = $derived.by(() => {
    const found = new Map<string, JobCondition[]>();
    for (const one of this.report.value?.items ?? []) found.set(one.job, [...(found.get(one.job) ?? []), one]);
    return found;
  });

  /** Stuck, overdue and failing jobs, the most urgent condition first; each job once. */
  readonly urgent = $derived.by(() => [...this.byJob.values()].flatMap(([first]) => (first !== undefined && URGENT.has(first.health) ? [first] : [])));

  get error() {
    return this.report.error;
  }

  of(job: string): readonly JobCondition[] {
    return this.byJob.get(job) ?? [];
  }

  /** Why a job does not run as it should: stuck or overdue. */
  late(job: string): JobCondition | null {
    return this.of(job).find((one) => one.health === 'stuck' || one.health === 'overdue') ?? null;
  }

  /** An effect that keeps the conditions up to date. */
  follow(): void {
    const now = `${JSON.stringify(store.values?.health ?? null)} ${store.state.snapshots}`;
    const due = store.now - this.loadedAt >= AGAIN_MS && store.values !== null;
    if (now === this.last && !due) return;
    this.last = now;
    this.loadedAt = store.now;
    untrack(() => void this.report.refresh());
  }
}

export const jobHealth = new JobHealths();
