// The routes of the simulation that create, edit and delete jobs, and the plan of a change. What the real server checks
// in full is checked here only as far as the tests need it.
import { definitionOf } from '../../src/lib/jobSchema';
import { same, type Doc } from '../../src/lib/document';
import type { Job, Json, Version } from '../../src/lib/types';
import type { World } from './world';

type Answer = [number, unknown];
type Problem = { place: string; what: string; remedy: string };

export class JobEdits {
  /** The jobs that were created or changed; null: deleted. */
  readonly jobs = new Map<string, Job | null>();
  readonly versions = new Map<string, Version[]>();

  /** The bodies of all requests that change something. */
  readonly bodies: [string, Doc][] = [];

  constructor(private readonly world: World) {}

  sent(request: string): Doc | undefined {
    return this.bodies.findLast(([one]) => one === request)?.[1];
  }

  answer(method: string, path: string, body: Doc, expected: number | null): Answer | null {
    if (method !== 'GET') this.bodies.push([`${method} ${path}`, body]);
    if (path === '/jobs/plan') return this.plan((body.jobs as Doc[])[0]!);
    if (path === '/jobs' && method === 'POST') return this.world.named(String(body.name)) === null ? this.write(body, null, 'ada') : [409, { title: 'Conflict', status: 409, detail: 'it exists' }];
    const name = decodeURIComponent(/^\/jobs\/([^/]+)$/.exec(path)?.[1] ?? '');
    if (method === 'PUT' && name !== '') return this.write(body, expected, 'ada');
    if (method === 'DELETE' && name !== '') {
      this.jobs.set(name, null);
      return [200, { name, deleted_at: new Date().toISOString() }];
    }
    return null;
  }

  /** The body as the server stores it, by somebody. */
  write(body: Doc, expected: number | null, by: string): Answer {
    const problems = problemsOf(body, '');
    if (problems.length > 0) return refused(problems);
    const name = String(body.name);
    const before = this.world.named(name);
    if (expected !== null && before?.version !== expected) return [409, { title: 'Conflict', status: 409, detail: `job ${name} has version ${before?.version}` }];
    const version = (before?.version ?? 0) + 1;
    const plain = this.world.job(0);
    const job = { ...plain, labels: {}, description: '', after: [], followers: [], pause: null, paused: false, open_breaker: null, state: 'active', ...body, name, version, updated_at: new Date().toISOString() } as unknown as Job;
    this.versions.set(name, [...this.history(name), { version, at: job.updated_at, by, state: 'active', since: null, until: null, job: definitionOf(job) as never }]);
    this.jobs.set(name, job);
    return [before === null ? 201 : 200, job];
  }

  history(name: string): Version[] {
    const known = this.versions.get(name);
    if (known !== undefined) return known;
    const job = this.world.named(name);
    if (job === null) return [];
    const first = (definitionOf(job) as Doc);
    return Array.from({ length: job.version }, (_, i) => ({ version: i + 1, at: `2026-1${i % 3}-01T08:00:00Z`, by: i % 2 === 0 ? 'ada' : 'grace', state: i === 1 ? 'paused' : 'active', since: null, until: null, job: (i === job.version - 1 ? first : { ...first, timeout: `${(i + 1) * 7}m` }) as never }));
  }

  private plan(document: Doc): Answer {
    const problems = problemsOf(document, 'jobs[0].');
    if (problems.length > 0) return refused(problems);
    const name = String(document.name);
    const before = this.world.named(name);
    const next_fire = document.schedule ? new Date(Date.now() + 3600e3).toISOString() : null;
    if (before === null) return planned({ name, result: 'created', state: 'active', next_fire, runs: runs(0, 7) });
    const old = definitionOf(before);
    const changes = [...new Set([...Object.keys(document), 'timeout', 'labels', 'schedule'])].filter((key) => key in document || (key === 'timeout' && old[key] !== '1h')).filter((key) => !contains(old[key], document[key])).map((field) => ({ field, before: old[field] ?? null, after: document[field] ?? null }));
    if (changes.length === 0) return planned({ name, result: 'unchanged', state: before.state, next_fire });
    return planned({ name, result: 'changed', state: before.state, next_fire, changes, ...(changes.some((one) => one.field === 'schedule') ? { runs: runs(7, 14) } : {}) });
  }
}

/** Whether the stored value has everything of the short one. */
function contains(stored: Json | undefined, short: Json | undefined): boolean {
  if (same(stored, short)) return true;
  if (Array.isArray(stored) && Array.isArray(short)) return stored.length === short.length && stored.every((one, i) => contains(one, short[i]));
  return typeof stored === 'object' && stored !== null && typeof short === 'object' && short !== null && !Array.isArray(short) && Object.entries(short).every(([key, value]) => contains((stored as Doc)[key], value));
}

function runs(before: number, after: number) {
  const fires = (n: number) => Array.from({ length: Math.min(n, 3) }, (_, i) => new Date(Date.now() + (i + 1) * 86_400e3).toISOString());
  return { before, after, compared: true, added: after, removed: before, first_added: fires(after), first_removed: fires(before) };
}

function planned(job: object): Answer {
  return [200, { jobs: [job], runs: { added: 0, removed: 0, at_least: false, not_compared: 0 } }];
}

function problemsOf(document: Doc, place: string): Problem[] {
  const found: Problem[] = [];
  const schedule = document.schedule as Doc | undefined;
  if (!document.name) found.push({ place: `${place}name`, what: 'is empty', remedy: 'give the job a name, such as nightly-report' });
  if (schedule && 'cron' in schedule && String(schedule.cron).split(/\s+/).length < 5) found.push({ place: `${place}schedule.cron`, what: `${String(schedule.cron)} has too few fields`, remedy: 'write five or six' });
  const run = document.run as Doc | undefined;
  if (!run || ('python' in run && !/^[\w.]+:\w+$/.test(String(run.python)))) found.push({ place: `${place}run.python`, what: 'expected package.module:function', remedy: 'name the function' });
  return found;
}

function refused(errors: Problem[]): Answer {
  return [422, { title: 'Unprocessable Content', status: 422, detail: `${errors[0]!.place}: ${errors[0]!.what}`, errors }];
}
