// Every action of the page: confirm it if it is destructive, do it, report the result, and offer to undo it where possible.
import { copyText, randomKey } from './browser';
import type { Doc } from './document';
import { jobs } from './jobs.svelte';
import { store } from './store.svelte';
import type { Job, JobSummary, MinuteMove, Session } from './types';
import { ui } from './ui.svelte';
import { moment, plural } from './format';
import { DEADLINES } from './hold';
import { runHref } from './links';

/** Eight at a time, because the server limits the request rate. */
async function each<T, R>(things: readonly T[], work: (thing: T) => Promise<R>): Promise<R[]> {
  const found: R[] = [];
  for (let i = 0; i < things.length; i += 8) found.push(...(await Promise.all(things.slice(i, i + 8).map(work))));
  return found;
}

export async function copy(text: string, what: string): Promise<void> {
  if (await copyText(text)) ui.toast(`${what} copied`);
  else ui.toast('The browser did not allow copying. Select the text and press Ctrl C.', { tone: 'bad' });
}

/** `args` are added to those of the job. */
export async function runNow(job: string, args: Doc = {}): Promise<string | null> {
  const key = randomKey();
  const run = await ui.attempt(() => store.api.post('/jobs/{name}/run', { params: { path: { name: job }, header: { 'idempotency-key': key } }, body: Object.keys(args).length === 0 ? {} : { args } }));
  if (run === null) return null;
  ui.toast(`Run of ${job} requested`, { href: runHref(run.id) });
  return run.id;
}

/** A body with an end, if there is one. */
const holdBody = (note: string, until: string | null) => ({ note, ...(until === null ? {} : { until }) });

/** A job and its pause. */
type Held = Pick<JobSummary, 'name' | 'pause'>;

// The list of jobs gets each job as the server returns it, also after an undo.
const pauseEach = (held: readonly { name: string; note: string; until: string | null }[]) =>
  each(held, async ({ name, note, until }) => jobs.put(await store.api.post('/jobs/{name}/pause', { params: { path: { name } }, body: holdBody(note, until) })));
const resumeEach = (names: string[]) => each(names, async (name) => jobs.put(await store.api.post('/jobs/{name}/resume', { params: { path: { name } } })));

export async function pause(names: string[]): Promise<boolean> {
  const many = names.length > 1;
  const answer = await ui.confirm({
    title: many ? `Pause ${plural(names.length, 'job')}?` : `Pause ${names[0]}?`, confirm: 'Pause', hold: { open: 'When somebody resumes it' },
    body: 'Runs that come due during the pause are skipped. Running jobs continue.',
  });
  if (answer === null) return false;
  const { note, until } = answer;
  if ((await ui.attempt(() => pauseEach(names.map((name) => ({ name, note, until }))))) === null) return false;
  ui.toast(many ? `${plural(names.length, 'job')} paused` : `${names[0]} paused`, { undo: () => resumeEach(names) });
  return true;
}

/** Undo pauses them again with the same notes, and with the same ends unless they have passed. */
export async function resume(held: readonly Held[]): Promise<boolean> {
  const names = held.map((job) => job.name);
  if ((await ui.attempt(() => resumeEach(names))) === null) return false;
  const before = held.map(({ name, pause }) => ({ name, note: pause?.note ?? '', until: pause?.until ?? null }));
  ui.toast(names.length > 1 ? `${plural(names.length, 'job')} resumed` : `${names[0]} resumed`, {
    undo: () => pauseEach(before.map((one) => (one.until !== null && Date.parse(one.until) <= store.time() ? { ...one, until: null } : one))),
  });
  return true;
}

export async function closeBreaker(name: string): Promise<boolean> {
  const job = await ui.attempt(() => store.api.post('/jobs/{name}/close-breaker', { params: { path: { name } } }));
  if (job === null) return false;
  jobs.put(job);
  ui.toast(`Circuit breaker of ${name} closed: failed runs are retried again`);
  return true;
}

export async function revokeSession(session: Session): Promise<boolean> {
  const body = session.current ? 'This browser is logged out.' : `${session.user} is logged out there immediately and must log in again.`;
  if ((await ui.confirm({ title: `Revoke this session of ${session.user}?`, body, confirm: 'Revoke', danger: true })) === null) return false;
  const done = await ui.attempt(async () => (await store.api.delete('/sessions/{id}', { params: { path: { id: session.id } } }), true));
  if (done === null) return false;
  ui.toast(`Session of ${session.user} revoked`);
  return true;
}

export async function cancelBackfill(id: string): Promise<boolean> {
  const answer = await ui.confirm({ title: `Cancel backfill ${id}?`, body: 'No more of its runs start, and open ones are cancelled.', confirm: 'Cancel backfill', danger: true, reason: true });
  if (answer === null) return false;
  const done = await ui.attempt(() => store.api.post('/backfills/{id}/cancel', { params: { path: { id } }, body: { reason: answer.reason } }));
  if (done !== null) ui.toast(`Backfill ${id} cancelled`);
  return done !== null;
}

export async function beginMaintenance(): Promise<void> {
  const answer = await ui.confirm({
    title: 'Start maintenance?', confirm: 'Start maintenance', danger: true, hold: { open: 'When somebody ends it' },
    body: 'No new runs start anywhere in the cluster; running jobs finish. Afterwards, the misfire policy of each job decides what happens to the runs that came due.',
  });
  if (answer === null) return;
  const done = await ui.attempt(() => store.api.put('/cluster/maintenance', { body: { on: true, ...holdBody(answer.note, answer.until) } }));
  if (done !== null) ui.toast('Maintenance started: no new runs start', { tone: 'info' });
}

export async function endMaintenance(): Promise<void> {
  const answer = await ui.confirm({ title: 'End maintenance?', body: 'Waiting runs start, and the misfire policy of each job decides what happens to the runs that came due.', confirm: 'End maintenance' });
  if (answer === null) return;
  if ((await ui.attempt(() => store.api.put('/cluster/maintenance', { body: { on: false } }))) !== null) ui.toast('Maintenance ended');
}

/** Changes a job's cron expression; undo restores the old one. */
export async function moveTo(job: Job, cron: string, moved: () => unknown): Promise<void> {
  const before = job.schedule?.cron ?? '';
  const done = await ui.attempt(() => setCron(job.name, job.version, cron));
  if (done === null) return;
  moved();
  ui.toast(`${job.name} now runs at ${cron}`, {
    undo: () => setCron(job.name, done.version, before).then(moved),
  });
}

/** Applies a plan as one change; undo is another one, back to the old minutes. */
export async function spread(moves: readonly MinuteMove[], moved: () => unknown): Promise<boolean> {
  const many = plural(moves.length, 'job');
  const answer = await ui.confirm({ title: `Move ${many}?`, body: 'Each gets a new minute and keeps its hours, days and time zone. If any of them has changed in the meantime, none is moved.', confirm: `Move ${many}` });
  if (answer === null) return false;
  const done = await ui.attempt(() => applyMoves(moves.map(({ job, version, after }) => ({ job, version, cron: after }))));
  if (done === null) return false;
  moved();
  const before = new Map(moves.map((move) => [move.job, move.before]));
  ui.toast(`${many} moved`, {
    undo: () => applyMoves(done.moves.map(({ job, version }) => ({ job, version, cron: before.get(job) ?? '' }))).then(moved),
  });
  return true;
}

function applyMoves(moves: { job: string; version: number; cron: string }[]) {
  return store.api.post('/jobs/spread/apply', { body: { moves } });
}

/** Fails if the job has changed since that version. */
function setCron(name: string, version: number, cron: string) {
  return store.api.patch('/jobs/{name}', { params: { path: { name }, header: { 'if-match': `"${version}"` } }, body: { schedule: { cron } } });
}

export async function cancel(ids: string[]): Promise<boolean> {
  const answer = await ui.confirm({
    title: ids.length > 1 ? `Cancel ${plural(ids.length, 'run')}?` : 'Cancel this run?',
    body: 'A running attempt is stopped, and there are no retries.', confirm: ids.length > 1 ? 'Cancel runs' : 'Cancel run', danger: true, reason: true,
  });
  if (answer === null) return false;
  const done = await ui.attempt(() => each(ids, (id) => store.api.post('/runs/{id}/cancel', { params: { path: { id } }, body: { reason: answer.reason } })));
  if (done !== null) ui.toast(ids.length > 1 ? `Cancellation of ${plural(ids.length, 'run')} requested` : 'Cancellation requested');
  return done !== null;
}

export async function replay(ids: string[]): Promise<boolean> {
  if (ids.length > 1) {
    const answer = await ui.confirm({
      title: `Replay ${plural(ids.length, 'run')}?`, confirm: 'Replay',
      body: 'Each one starts as a new run with the same arguments and is removed from the dead letters.',
    });
    if (answer === null) return false;
  }
  const done = await ui.attempt(() => each(ids, (id) => store.api.post('/runs/{id}/retry', { params: { path: { id } }, body: {} })));
  if (done === null) return false;
  const first = done[0];
  ui.toast(ids.length > 1 ? `${plural(ids.length, 'run')} replayed` : 'Replayed as a new run', {
    href: ids.length === 1 && first !== undefined ? runHref(first.id) : null,
  });
  return true;
}

/** The arguments that a job has itself. */
function argsOf(job: { run: unknown } | undefined): Doc {
  return (job?.run as { args?: Doc } | undefined)?.args ?? {};
}

export async function runWithArgs(name: string): Promise<string | null> {
  const job = await ui.attempt(() => store.api.get('/jobs/{name}', { params: { path: { name } } }));
  if (job === null) return null;
  const defaults = argsOf(job);
  const answer = await ui.confirm({ title: `Run ${name} with arguments`, confirm: 'Run', body: 'Arguments that you leave out keep the values of the job.', args: { defaults, value: defaults } });
  return answer === null ? null : runNow(name, answer.args);
}

/** Begins with the arguments that the run had: its own, and those of the version of the job that it ran. */
export async function editAndReplay(id: string): Promise<boolean> {
  const found = await ui.attempt(async () => {
    const run = await store.api.get('/runs/{id}', { params: { path: { id } } });
    const job = await store.api.get('/jobs/{name}', { params: { path: { name: run.job } } });
    const then = job.updated_at <= run.created_at ? job : await versionAt(run.job, run.created_at);
    return { defaults: argsOf(job), value: { ...argsOf(job), ...argsOf(then), ...(run.args as Doc | null) } };
  });
  if (found === null) return false;
  const answer = await ui.confirm({ title: 'Edit and replay', confirm: 'Replay', body: 'The new run uses these arguments and the current version of the job.', args: found });
  if (answer === null) return false;
  const run = await ui.attempt(() => store.api.post('/runs/{id}/retry', { params: { path: { id } }, body: { args: answer.args } }));
  if (run !== null) ui.toast('Replayed as a new run', { href: runHref(run.id) });
  return run !== null;
}

/** The document of a job at an instant. */
async function versionAt(name: string, at: string): Promise<{ run: unknown } | undefined> {
  const { items } = await store.api.get('/jobs/{name}/history', { params: { path: { name } } });
  return items.findLast((version) => version.at <= at)?.job;
}

export async function acknowledge(ids: string[]): Promise<boolean> {
  const answer = await ui.confirm({
    title: ids.length > 1 ? `Acknowledge ${plural(ids.length, 'dead letter')}?` : 'Acknowledge this dead letter?',
    body: ids.length > 1 ? 'They stay in the history and no longer count as open.' : 'It stays in the history and no longer counts as open.', confirm: 'Acknowledge', reason: true,
  });
  if (answer === null) return false;
  const done = await ui.attempt(() => each(ids, (id) => store.api.post('/runs/{id}/ack', { params: { path: { id } }, body: { note: answer.reason } })));
  if (done !== null) ui.toast(ids.length > 1 ? `${plural(ids.length, 'dead letter')} acknowledged` : 'Dead letter acknowledged');
  return done !== null;
}

/** Drains a node, or changes the deadline of one that is `draining`. */
export async function drain(node: string, draining = false): Promise<void> {
  const answer = await ui.confirm({
    title: draining ? `Change the deadline of ${node}?` : `Drain ${node}?`, confirm: draining ? 'Change deadline' : 'Drain', hold: { open: 'None: wait for running jobs', end: 'Deadline', ends: DEADLINES, note: false },
    body: 'It finishes running jobs and accepts no new ones. Other nodes take over what it has not started. Jobs that are still running at the deadline are stopped and run again on other nodes, except at_most_once jobs, which continue.',
  });
  if (answer === null) return;
  const { until } = answer;
  if ((await ui.attempt(() => store.api.post('/nodes/{name}/drain', { params: { path: { name: node } }, body: until === null ? {} : { until } }))) !== null) {
    ui.toast(until === null ? `${node} is draining` : `${node} is draining, with a deadline at ${moment(until, store.now)}`, { undo: () => store.api.post('/nodes/{name}/undrain', { params: { path: { name: node } } }) });
  }
}

export async function undrain(node: string): Promise<void> {
  if ((await ui.attempt(() => store.api.post('/nodes/{name}/undrain', { params: { path: { name: node } } }))) !== null) ui.toast(`${node} accepts jobs again`);
}

export async function stepdown(leader: string): Promise<void> {
  const answer = await ui.confirm({
    title: `Make ${leader} step down?`, danger: true, confirm: 'Step down',
    body: 'Another node takes over within a second. No runs are lost.',
  });
  if (answer === null) return;
  if ((await ui.attempt(() => store.api.post('/cluster/stepdown'))) !== null) ui.toast(`${leader} is stepping down`);
}

// ------------------------------------------------------------------ chaos: breaks a development cluster on purpose

export async function killLeader(): Promise<void> {
  const done = await ui.attempt(() => store.api.post('/chaos/leader/kill'));
  if (done !== null) ui.toast(`${done.killed} was killed`, { tone: 'info' });
}

export async function pauseNode(name: string): Promise<void> {
  if ((await ui.attempt(() => store.api.post('/chaos/nodes/{name}/pause', { params: { path: { name } } }))) !== null) ui.toast(`${name} paused`, { tone: 'info' });
}

export async function resumeNode(name: string): Promise<void> {
  if ((await ui.attempt(() => store.api.post('/chaos/nodes/{name}/resume', { params: { path: { name } } }))) !== null) ui.toast(`${name} resumed`, { tone: 'info' });
}

export async function flushRedis(): Promise<void> {
  const done = await ui.attempt(() => store.api.post('/chaos/redis/flush'));
  if (done !== null) ui.toast(`Deleted ${plural(done.keys, 'key')} from Redis`, { tone: 'info' });
}
