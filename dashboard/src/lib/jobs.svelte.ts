// All jobs, loaded once and shared by the list, the palette and the filters. Newer data about a job replaces older data.
import { ApiError } from './api';
import { Pages } from './resource.svelte';
import { store } from './store.svelte';
import type { ClusterEvent, JobSummary, Recent } from './types';

const MOST = 20_000;
const SOON_MS = 4000;
/** Events after which a job is new, gone, or has another definition, pause or circuit breaker. */
const CHANGES = new Set(['job_created', 'job_changed', 'job_deleted', 'job_paused', 'job_paused_after_failures', 'job_resumed', 'job_breaker_opened', 'job_breaker_closed']);
const MOST_FOLLOWED = 20;

class Jobs {
  private readonly pages = new Pages<JobSummary>((cursor) => store.api.get('/jobs', { params: { query: { brief: true, cursor, limit: 500 } } }));
  private started = false;
  private nextFires = new Map<JobSummary, string | null>();

  get all(): readonly JobSummary[] {
    return this.pages.rows;
  }

  get error() {
    return this.pages.error;
  }

  get ready(): boolean {
    return this.pages.ready;
  }

  async load(): Promise<void> {
    if (this.started && this.pages.error === null) return;
    this.started = true;
    await this.pages.all(MOST);
  }

  /** Replaces a job with the one that the server returned, or adds it. */
  put(job: JobSummary): void {
    const rows = this.pages.rows;
    if (rows.some((known) => known.name === job.name)) this.pages.replace(rows.map((known) => (known.name === job.name ? job : known)));
    else if (this.ready) this.pages.replace([...rows, job].sort((a, b) => (a.name < b.name ? -1 : 1)));
  }

  remove(name: string): void {
    this.pages.replace(this.pages.rows.filter((known) => known.name !== name));
  }

  /** Loads jobs again that events report as changed. `seen` is the newest event that was followed before. */
  async follow(events: readonly ClusterEvent[], seen: string): Promise<void> {
    const changed = new Set(events.filter((event) => event.id > seen && CHANGES.has(event.kind)).map((event) => String(event.fields.job)));
    for (const name of [...changed].slice(0, MOST_FOLLOWED)) {
      const job = await store.api.get('/jobs/{name}', { params: { path: { name } } }).catch((error: ApiError) => error);
      if (!(job instanceof ApiError)) this.put(job);
      else if (job.status === 404) this.remove(name);
    }
  }

  /** Updates jobs from other responses: states and imminent fires now, other next fires with `flushNextFires`. */
  update(recent: readonly Recent[]): void {
    const found = new Map(recent.map((one) => [one.job, one]));
    let changed = false;
    const next = this.pages.rows.map((job) => {
      const one = found.get(job.name);
      if (one === undefined) return job;
      const soon = one.next_fire !== null && Date.parse(one.next_fire) - store.now < SOON_MS;
      if (one.state !== job.state || (soon && one.next_fire !== job.next_fire)) {
        changed = true;
        return { ...job, next_fire: one.next_fire, state: one.state };
      }
      if (one.next_fire !== job.next_fire) this.nextFires.set(job, one.next_fire);
      return job;
    });
    if (changed) this.pages.replace(next);
  }

  /** Shows collected next fires, except for jobs that have been replaced since. */
  flushNextFires(): void {
    if (this.nextFires.size === 0) return;
    const { nextFires } = this;
    this.nextFires = new Map();
    this.pages.replace(this.pages.rows.map((job) => (nextFires.has(job) ? { ...job, next_fire: nextFires.get(job) ?? null } : job)));
  }
}

export const jobs = new Jobs();
