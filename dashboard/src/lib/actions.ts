// What a person can do, in one place: ask where it destroys, do it, tell it, offer the way back where there is one.
import { jobs } from './jobs.svelte';
import { store } from './store.svelte';
import { NEEDS, type Action } from './needs';
import type { Job, Json } from './types';
import { ui } from './ui.svelte';
import { plural } from './format';

export function may(action: Action, job: string | null = null): boolean {
  return store.may(NEEDS[action], job);
}

/** Whether arguments of a single run would have an effect. */
export function takesArgs(job: Job): boolean {
  return 'python' in job.run;
}

/** Eight at a time: the server counts requests. */
async function each<T, R>(things: readonly T[], work: (thing: T) => Promise<R>): Promise<R[]> {
  const found: R[] = [];
  for (let i = 0; i < things.length; i += 8) found.push(...(await Promise.all(things.slice(i, i + 8).map(work))));
  return found;
}

/** A node's id is `<name>#<incarnation>`; people know it by its name. */
export function nodeName(id: string | null): string {
  return id === null ? '–' : (id.split('#')[0] ?? id);
}

export function runHref(id: string): string {
  return `/runs/${encodeURIComponent(id)}`;
}

export function jobHref(name: string): string {
  return `/jobs/${encodeURIComponent(name)}`;
}

export async function runNow(job: string): Promise<string | null> {
  const key = crypto.randomUUID();
  const run = await ui.attempt(() => store.api.runJob(job, null, key));
  if (run === null) return null;
  ui.toast(`${job} was asked to run`, { href: runHref(run.id) });
  return run.id;
}

/** The list knows at once what the server answered, also to the way back. */
const pauseEach = (names: string[]) => each(names, async (name) => jobs.put(await store.api.pause(name)));
const resumeEach = (names: string[]) => each(names, async (name) => jobs.put(await store.api.resumeJob(name)));

export async function pause(names: string[]): Promise<boolean> {
  const many = names.length > 1;
  if (many && (await ui.ask({ title: `Pause ${plural(names.length, 'job')}?`, body: 'Fires that fall due meanwhile are skipped.', confirm: 'Pause' })) === null) return false;
  if ((await ui.attempt(() => pauseEach(names))) === null) return false;
  ui.toast(many ? `${plural(names.length, 'job')} paused` : `${names[0]} is paused`, { undo: () => resumeEach(names) });
  return true;
}

export async function resume(names: string[]): Promise<boolean> {
  if ((await ui.attempt(() => resumeEach(names))) === null) return false;
  ui.toast(names.length > 1 ? `${plural(names.length, 'job')} resumed` : `${names[0]} goes on`, { undo: () => pauseEach(names) });
  return true;
}

/** Give a cron another minute; the way back is to give it its own again. */
export async function moveTo(job: Job, cron: string, moved: () => unknown): Promise<void> {
  const before = job.schedule?.cron ?? '';
  const done = await ui.attempt(() => store.api.patchJob(job.name, job.version, { schedule: { cron } }));
  if (done === null) return;
  moved();
  ui.toast(`${job.name} fires at ${cron} now`, {
    undo: () => store.api.patchJob(job.name, done.version, { schedule: { cron: before } }).then(moved),
  });
}

export async function cancel(ids: string[]): Promise<boolean> {
  const answer = await ui.ask({
    title: ids.length > 1 ? `Cancel ${plural(ids.length, 'run')}?` : 'Cancel this run?',
    body: 'What is running is stopped. It is not tried again.', confirm: 'Cancel it', danger: true, reason: true,
  });
  if (answer === null) return false;
  const done = await ui.attempt(() => each(ids, (id) => store.api.cancel(id, answer.reason)));
  if (done !== null) ui.toast(ids.length > 1 ? `${plural(ids.length, 'run')} asked to stop` : 'The run was asked to stop');
  return done !== null;
}

export async function replay(ids: string[]): Promise<boolean> {
  if (ids.length > 1) {
    const answer = await ui.ask({
      title: `Replay ${plural(ids.length, 'run')}?`, confirm: 'Replay',
      body: 'Each becomes a new run with the same arguments and leaves the dead letters.',
    });
    if (answer === null) return false;
  }
  const done = await ui.attempt(() => each(ids, (id) => store.api.retry(id, null)));
  if (done === null) return false;
  const first = done[0];
  ui.toast(ids.length > 1 ? `${plural(ids.length, 'run')} replayed` : 'Replayed as a new run', {
    href: ids.length === 1 && first !== undefined ? runHref(first.id) : null,
  });
  return true;
}

export async function editAndReplay(id: string, args: { [key: string]: unknown } | null): Promise<boolean> {
  const answer = await ui.ask({
    title: 'Edit and replay', confirm: 'Replay', body: 'The new run gets these arguments.',
    edit: { label: 'Arguments (JSON)', value: JSON.stringify(args ?? {}, null, 2) },
  });
  if (answer === null) return false;
  const run = await ui.attempt(() => store.api.retry(id, JSON.parse(answer.edited) as { [key: string]: Json }));
  if (run !== null) ui.toast('Replayed as a new run', { href: runHref(run.id) });
  return run !== null;
}

export async function acknowledge(ids: string[]): Promise<boolean> {
  const answer = await ui.ask({
    title: ids.length > 1 ? `Acknowledge ${plural(ids.length, 'dead letter')}?` : 'Acknowledge this dead letter?',
    body: 'It stays in the history and no longer counts as open.', confirm: 'Acknowledge', reason: true,
  });
  if (answer === null) return false;
  const done = await ui.attempt(() => each(ids, (id) => store.api.ack(id, answer.reason)));
  if (done !== null) ui.toast(ids.length > 1 ? `${plural(ids.length, 'dead letter')} acknowledged` : 'Acknowledged');
  return done !== null;
}

export async function drain(node: string): Promise<void> {
  const answer = await ui.ask({
    title: `Drain ${node}?`, body: 'It ends what runs and takes no more. Other nodes get its work.', confirm: 'Drain',
  });
  if (answer === null) return;
  if ((await ui.attempt(() => store.api.drain(node))) !== null) {
    ui.toast(`${node} drains`, { undo: () => store.api.undrain(node) });
  }
}

export async function undrain(node: string): Promise<void> {
  if ((await ui.attempt(() => store.api.undrain(node))) !== null) ui.toast(`${node} takes work again`);
}

export async function stepdown(leader: string): Promise<void> {
  const answer = await ui.ask({
    title: `Ask ${leader} to step down?`, danger: true, confirm: 'Step down',
    body: 'Another node is elected within a second. No run is lost.',
  });
  if (answer === null) return;
  if ((await ui.attempt(() => store.api.stepdown())) !== null) ui.toast(`${leader} was asked to step down`);
}

// ------------------------------------------------------------- breaking a development cluster: the ring shows what follows

export async function killLeader(): Promise<void> {
  const done = await ui.attempt(() => store.api.killLeader());
  if (done !== null) ui.toast(`${done.killed} was killed`, { tone: 'info' });
}

export async function pauseNode(name: string): Promise<void> {
  if ((await ui.attempt(() => store.api.pauseProcess(name))) !== null) ui.toast(`${name} is paused`, { tone: 'info' });
}

export async function resumeNode(name: string): Promise<void> {
  if ((await ui.attempt(() => store.api.resumeProcess(name))) !== null) ui.toast(`${name} goes on`, { tone: 'info' });
}

export async function flushRedis(): Promise<void> {
  const done = await ui.attempt(() => store.api.flushRedis());
  if (done !== null) ui.toast(`Redis has forgotten ${plural(done.keys, 'key')}`, { tone: 'info' });
}
