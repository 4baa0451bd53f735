// A real `cronflow dev` cluster with short leases: its own servers, three nodes and the API, every one a process of its
// own that a test may kill. What it needs: PYTHON (or .venv) with CronFlow and its embedded servers.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { closeSync, copyFileSync, existsSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { components } from '../../../src/lib/openapi';

type Shapes = components['schemas'];

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));
const PYTHON = process.env.PYTHON ?? join(ROOT, '.venv/bin/python');
const UP_WITHIN_MS = 120_000;
const SHORT = {
  CRONFLOW_LEADER_TTL: '3s', CRONFLOW_LEADER_RENEW: '1s', CRONFLOW_FAILOVER_CHECK: '4s', CRONFLOW_HEARTBEAT: '500ms',
  CRONFLOW_NODE_TTL: '2s', CRONFLOW_RUN_LEASE: '3s', CRONFLOW_LOCK_BUFFER: '1s',
};

export const ADMIN = { name: 'admin', password: 'only for these tests' };
export const VIEWER = { name: 'vera', password: 'looks and touches not' };

/** Until it is there; says what was waited for when it never is. */
export async function eventually<T>(what: string, look: () => T | Promise<T>, within = 30_000): Promise<NonNullable<T>> {
  const deadline = Date.now() + within;
  for (;;) {
    const found = await look();
    if (found !== null && found !== undefined && found !== false) return found;
    if (Date.now() > deadline) throw new Error(`after ${within / 1000} s still not: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

export class Cluster {
  private token = '';

  private constructor(
    readonly folder: string,
    readonly url: string,
    private readonly child: ChildProcess,
  ) {}

  static async up(): Promise<Cluster> {
    const folder = mkdtempSync(join(tmpdir(), 'cronflow-page-'));
    const port = await freePort();
    const jobs = join(folder, 'jobs.yaml');
    writeFileSync(jobs, readFileSync(new URL('jobs.yaml', import.meta.url), 'utf8').replaceAll('FOLDER', folder));
    copyFileSync(new URL('letters.py', import.meta.url), join(folder, 'letters.py'));
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('CRONFLOW_'));
    const log = openSync(join(folder, 'dev.log'), 'w');
    const child = spawn(PYTHON, ['-m', 'cronflow', 'dev', jobs, '--data', join(folder, 'data'), '--port', String(port)], {
      cwd: folder,
      env: {
        ...Object.fromEntries(inherited), ...SHORT, CRONFLOW_ADMIN_PASSWORD: ADMIN.password,
        PYTHONPATH: [ROOT, process.env.PYTHONPATH].filter(Boolean).join(':'),
      },
      stdio: ['ignore', log, log],
    });
    closeSync(log);
    const cluster = new Cluster(folder, `http://127.0.0.1:${port}`, child);
    try {
      await eventually('the cluster is up', () => cluster.log().includes('log in as') || child.exitCode !== null, UP_WITHIN_MS);
      if (child.exitCode !== null) throw new Error('`cronflow dev` ended');
      await cluster.login();
      await cluster.ask('POST', '/users', { ...VIEWER, role: 'viewer' });
    } catch (error) {
      await cluster.down();
      throw new Error(`${String(error)}\n${cluster.log()}`);
    }
    return cluster;
  }

  log(): string {
    const file = join(this.folder, 'dev.log');
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  }

  async down(): Promise<void> {
    if (this.child.exitCode === null) {
      const ended = new Promise((resolve) => this.child.once('exit', resolve));
      this.child.kill('SIGTERM');
      const late = setTimeout(() => this.child.kill('SIGKILL'), 30_000);
      await ended;
      clearTimeout(late);
    }
    if (process.env.KEEP === undefined) rmSync(this.folder, { recursive: true, force: true });
  }

  // ------------------------------------------------------------------------------------------------------- the API

  private async login(): Promise<void> {
    const given = await this.ask<Shapes['TokensShape']>('POST', '/auth/token', { username: ADMIN.name, password: ADMIN.password });
    this.token = given.access_token;
  }

  async ask<T>(method: string, path: string, body?: unknown): Promise<T> {
    const answer = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: { 'Content-Type': 'application/json', ...(this.token === '' ? {} : { Authorization: `Bearer ${this.token}` }) },
      body: body === undefined ? null : JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }

  cluster(): Promise<Shapes['ClusterShape']> {
    return this.ask('GET', '/cluster');
  }

  runs(query: string): Promise<Shapes['RunPage']> {
    return this.ask('GET', `/runs?${query}`);
  }

  run(job: string): Promise<Shapes['AskedShape']> {
    return this.ask('POST', `/jobs/${job}/run`);
  }

  job(name: string): Promise<Shapes['JobShape']> {
    return this.ask('GET', `/jobs/${name}`);
  }

  audit(): Promise<Shapes['AuditPage']> {
    return this.ask('GET', '/audit?limit=500');
  }

  // ----------------------------------------------------------------------------------------------------- processes

  /** The processes of this cluster whose command line has these words. */
  private pids(...words: string[]): number[] {
    return readdirSync('/proc').map(Number).filter((pid) => {
      try {
        const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
        const parent = Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[1]);
        return parent === this.child.pid && words.every((word) => line.includes(word));
      } catch {
        return false; // it is no process, or has ended meanwhile
      }
    });
  }

  /** The node that leads is killed by `kill`. It stays away until another one leads. */
  async killLeader(kill: (leader: string) => Promise<unknown> = () => this.ask('POST', '/chaos/leader/kill')): Promise<{ old: string; leader: string; term: number }> {
    const before = await this.cluster();
    const old = before.leader ?? '';
    const [pid] = this.pids('node', '--name', old);
    if (pid === undefined) throw new Error(`there is no process of ${old}`);
    await kill(old);
    const next = await eventually(`${old} is started again`, () => this.pids('node', '--name', old).find((one) => one !== pid));
    process.kill(next, 'SIGSTOP');
    try {
      const after = await eventually('another node leads', async () => {
        const now = await this.cluster();
        // The term is written after the leader's place in Redis is taken.
        return now.leader !== null && now.leader !== old && now.term > before.term ? now : null;
      });
      return { old, leader: after.leader ?? '', term: after.term };
    } finally {
      process.kill(next, 'SIGCONT');
    }
  }

  /** kill -9 of the API; `cronflow dev` starts it again. */
  async killApi(): Promise<void> {
    const [pid] = this.pids('api', '--port');
    if (pid === undefined) throw new Error('there is no process of the API');
    process.kill(pid, 'SIGKILL');
    await eventually('the API has gone', () => !this.pids('api', '--port').includes(pid));
    await eventually('the API listens again', () => fetch(`${this.url}/livez`).then((answer) => answer.ok, () => false));
  }

  /** So many runs that ended long ago, put into MongoDB without a detour. */
  async fill(runs: number): Promise<void> {
    const [pid] = this.pids('api', '--port');
    const env = Object.fromEntries(readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').map((line) => {
      const at = line.indexOf('=');
      return [line.slice(0, at), line.slice(at + 1)];
    }));
    await promisify(execFile)(PYTHON, ['-m', 'tests.dashboard.fill', env.CRONFLOW_MONGO_URL ?? '', String(runs)], { cwd: ROOT });
  }

  /** What the jobs of this cluster look at. */
  openTheRoad(): void {
    writeFileSync(join(this.folder, 'road-is-open'), '');
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
