// All jobs, loaded once and shared by the list, the palette and the filters. What was told of one since replaces what was
// known of it.
import { Pages } from './resource.svelte';
import { store } from './store.svelte';
import type { Job, Recent } from './types';

const MOST = 20_000;
const SOON_MS = 4000;

class Jobs {
  private readonly pages = new Pages<Job>((cursor) => store.api.jobs({ cursor, limit: 500 }));
  private begun = false;
  private fires = new Map<Job, string | null>();

  get all(): readonly Job[] {
    return this.pages.rows;
  }

  get error() {
    return this.pages.error;
  }

  get ready(): boolean {
    return this.pages.ready;
  }

  async load(): Promise<void> {
    if (this.begun && this.pages.error === null) return;
    this.begun = true;
    await this.pages.all(MOST);
  }

  /** What the server answered to a change. */
  put(job: Job): void {
    this.pages.replace(this.pages.rows.map((known) => (known.name === job.name ? job : known)));
  }

  /** What was told of some of them beside a list: their states at once, and fires that would be over by then; other next
   *  fires with `due`.
   */
  told(news: readonly Recent[]): void {
    const found = new Map(news.map((one) => [one.job, one]));
    let changed = false;
    const next = this.pages.rows.map((job) => {
      const one = found.get(job.name);
      if (one === undefined) return job;
      const soon = one.next_fire !== null && Date.parse(one.next_fire) - store.now < SOON_MS;
      if (one.state !== job.state || (soon && one.next_fire !== job.next_fire)) {
        changed = true;
        return { ...job, next_fire: one.next_fire, state: one.state };
      }
      if (one.next_fire !== job.next_fire) this.fires.set(job, one.next_fire);
      return job;
    });
    if (changed) this.pages.replace(next);
  }

  /** Shows the next fires that were told; not of a job of which something newer came since. */
  due(): void {
    if (this.fires.size === 0) return;
    const { fires } = this;
    this.fires = new Map();
    this.pages.replace(this.pages.rows.map((job) => (fires.has(job) ? { ...job, next_fire: fires.get(job) ?? null } : job)));
  }
}

export const jobs = new Jobs();
