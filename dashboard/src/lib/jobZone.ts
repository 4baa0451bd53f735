// The zone of the job on the page, for `zone.job`.
import { router } from './router.svelte';
import { store } from './store.svelte';
import { viewOf } from './views';
import { zone } from './zone.svelte';

/** The job that this address is about, or null. */
export function jobOnPage(): string | null {
  const found = viewOf(router.path);
  if (found?.view.name === 'job') return found.id;
  return found?.view.name === 'run' ? (found.id.split('@')[0] ?? null) : null;
}

let asked: string | null = null;

/** An effect that looks up the zone of the job on the page. */
export function findJobZone(): void {
  const name = jobOnPage();
  if (name === asked) return;
  asked = name;
  zone.job = null;
  if (name === null) return;
  void store.api.get('/jobs/{name}', { params: { path: { name } } }).then(
    (job) => {
      if (asked === name) zone.job = job.schedule !== null && 'tz' in job.schedule ? job.schedule.tz : null;
    },
    () => (asked = null), // a deleted job has none
  );
}
