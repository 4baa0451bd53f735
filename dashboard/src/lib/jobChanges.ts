// Changes of whole jobs: restore a version, delete, and the undo of each. All fail if the job has changed since it was read.
import type { Doc } from './document';
import { definitionOf } from './jobSchema';
import { jobs } from './jobs.svelte';
import { router } from './router.svelte';
import { store } from './store.svelte';
import type { Job } from './types';
import { ui } from './ui.svelte';

/** Fails if the job has another version. */
export function putJob(name: string, version: number, document: Doc): Promise<Job> {
  return store.api.put('/jobs/{name}', { params: { path: { name }, header: { 'if-match': `"${version}"` } }, body: document as never }) as Promise<Job>;
}

/** Restores the document that a job had before, or deletes a job that was created. */
export async function undoSave({ name, version }: Job, before: Doc | null): Promise<void> {
  if (before !== null) {
    jobs.put(await putJob(name, version, before));
    return;
  }
  await store.api.delete('/jobs/{name}', { params: { path: { name }, header: { 'if-match': `"${version}"` } } });
  jobs.remove(name);
  router.go('/jobs');
}

export async function returnTo(job: Job, version: number, document: Doc): Promise<Job | null> {
  const before = definitionOf(job);
  const saved = await ui.attempt(() => putJob(job.name, job.version, document));
  if (saved === null) return null;
  jobs.put(saved);
  ui.toast(`Version ${version} of ${job.name} restored`, { undo: () => undoSave(saved, before) });
  return saved;
}

export async function deleteJob(job: Job): Promise<void> {
  const { name } = job;
  const body = 'The job no longer runs, and its open runs that have not started are cancelled. Its runs and logs are kept for the retention period.';
  if ((await ui.confirm({ title: `Delete ${name}?`, body, confirm: 'Delete job', danger: true })) === null) return;
  const done = await ui.attempt(() => store.api.delete('/jobs/{name}', { params: { path: { name }, header: { 'if-match': `"${job.version}"` } } }));
  if (done === null) return;
  jobs.remove(name);
  router.go('/jobs');
  ui.toast(`${name} deleted`, {
    undo: async () => jobs.put(await store.api.post('/jobs', { body: definitionOf(job) as never })),
  });
}
