// A real `cronflow dev` cluster with short leases: Redis, MongoDB, three nodes and the API, each in its own process that
// tests may kill. It needs a Python (PYTHON or .venv) with CronFlow and the embedded servers.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { closeSync, copyFileSync, existsSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { AuditPage, Cluster as ClusterState, ClusterEvent, Job, Page, RunAccepted, RunPage, Tokens } from '../../../src/lib/types';

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));
const PYTHON = process.env.PYTHON ?? join(ROOT, '.venv/bin/python');
const UP_WITHIN_MS = 120_000;
const NODES = 3;
const SHORT = {
  CRONFLOW_LEADER_TTL: '3s', CRONFLOW_LEADER_RENEW: '1s', CRONFLOW_FAILOVER_CHECK: '4s', CRONFLOW_HEARTBEAT: '500ms',
  CRONFLOW_NODE_TTL: '2s', CRONFLOW_RUN_LEASE: '3s', CRONFLOW_LOCK_BUFFER: '1s',
};

export const ADMIN = { name: 'admin', password: 'for these tests only' };
export const VIEWER = { name: 'vera', password: 'read-only password' };

/** Polls until `look` returns something; the error names what did not happen. */
export async function waitFor<T>(what: string, look: () => T | Promise<T>, within = 30_000): Promise<NonNullable<T>> {
  const deadline = Date.now() + within;
  for (;;) {
    const found = await look();
    if (found !== null && found !== undefined && found !== false) return found;
    if (Date.now() > deadline) throw new Error(`timed out after ${within / 1000} s: ${what}`);
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

  /** Where browsers open the page: by a name over plain http, as most people do, and not on localhost. */
  get page(): string {
    return this.url.replace('127.0.0.1', 'cronflow.test');
  }

  /** Starts a cluster with the jobs of the tests, or with others as the text of a job file. */
  static async up(text = readFileSync(new URL('jobs.yaml', import.meta.url), 'utf8')): Promise<Cluster> {
    const folder = mkdtempSync(join(tmpdir(), 'cronflow-page-'));
    const port = await freePort();
    const jobs = join(folder, 'jobs.yaml');
    writeFileSync(jobs, text.replaceAll('FOLDER', folder));
    copyFileSync(new URL('invoices.py', import.meta.url), join(folder, 'invoices.py'));
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
      await waitFor('the cluster is up', () => cluster.isUp(), UP_WITHIN_MS);
      await cluster.request('POST', '/users', { ...VIEWER, role: 'viewer' });
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

  /** Whether the nodes have joined and the jobs exist. */
  private async isUp(): Promise<boolean> {
    if (this.child.exitCode !== null) throw new Error('`cronflow dev` exited');
    try {
      if (this.token === '') await this.login();
      const { leader, nodes } = await this.cluster();
      return leader !== null && nodes.length === NODES && (await this.request<Page<Job>>('GET', '/jobs')).items.length > 0;
    } catch {
      return false; // not listening yet
    }
  }

  private async login(): Promise<void> {
    const tokens = await this.request<Tokens>('POST', '/auth/token', { username: ADMIN.name, password: ADMIN.password });
    this.token = tokens.access_token;
  }

  async request<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: { 'Content-Type': 'application/json', ...(this.token === '' ? {} : { Authorization: `Bearer ${this.token}` }) },
      body: body === undefined ? null : JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  }

  cluster(): Promise<ClusterState> {
    return this.request('GET', '/cluster');
  }

  runs(query: string): Promise<RunPage> {
    return this.request('GET', `/runs?${query}`);
  }

  run(job: string): Promise<RunAccepted> {
    return this.request('POST', `/jobs/${job}/run`);
  }

  job(name: string): Promise<Job> {
    return this.request('GET', `/jobs/${name}`);
  }

  async events(): Promise<ClusterEvent[]> {
    return (await this.request<Page<ClusterEvent>>('GET', '/events?limit=100')).items;
  }

  audit(): Promise<AuditPage> {
    return this.request('GET', '/audit?limit=500');
  }

  // ----------------------------------------------------------------------------------------------------- processes

  /** The processes of this cluster with these command line arguments. */
  private pids(...args: string[]): number[] {
    return readdirSync('/proc').map(Number).filter((pid) => {
      try {
        const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
        const parent = Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[1]);
        return parent === this.child.pid && args.every((arg) => line.includes(arg));
      } catch {
        return false; // not a process, or it has exited
      }
    });
  }

  /** Kills the leader and keeps its restarted process stopped until another node leads. */
  async killLeader(kill: (leader: string) => Promise<unknown> = () => this.request('POST', '/chaos/leader/kill')): Promise<{ old: string; leader: string; term: number }> {
    const before = await this.cluster();
    const old = before.leader ?? '';
    const [pid] = this.pids('node', '--name', old);
    if (pid === undefined) throw new Error(`${old} has no process`);
    await kill(old);
    const next = await waitFor(`${old} is restarted`, () => this.pids('node', '--name', old).find((one) => one !== pid));
    process.kill(next, 'SIGSTOP');
    try {
      const after = await waitFor('another node leads', async () => {
        const now = await this.cluster();
        // The term is written after the leader key is set.
        return now.leader !== null && now.leader !== old && now.term > before.term ? now : null;
      });
      return { old, leader: after.leader ?? '', term: after.term };
    } finally {
      process.kill(next, 'SIGCONT');
    }
  }

  /** Kills the API with SIGKILL; `cronflow dev` restarts it. */
  async killApi(): Promise<void> {
    const [pid] = this.pids('api', '--port');
    if (pid === undefined) throw new Error('the API has no process');
    process.kill(pid, 'SIGKILL');
    await waitFor('the API has exited', () => !this.pids('api', '--port').includes(pid));
    await waitFor('the API is listening again', () => fetch(`${this.url}/livez`).then((answer) => answer.ok, () => false));
  }

  /** Makes MongoDB or Redis hang while `work` is done: its process is stopped, and its connections stay open. */
  async hang(server: 'MongoDB' | 'Redis', work: () => Promise<void>): Promise<void> {
    const names = server === 'MongoDB' ? /^mongod\b/ : /^(redis|valkey)-server\b/;
    const pid = this.pids().find((one) => names.test(readFileSync(`/proc/${one}/comm`, 'utf8')));
    if (pid === undefined) throw new Error(`${server} has no process`);
    process.kill(pid, 'SIGSTOP');
    try {
      await work();
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  }

  /** Inserts finished runs directly into MongoDB. */
  async fill(runs: number): Promise<void> {
    const url = readFileSync(join(this.folder, 'data', 'mongo-url'), 'utf8').trim();
    await promisify(execFile)(PYTHON, ['-m', 'tests.dashboard.fill', url, String(runs)], { cwd: ROOT });
  }

  /** Lets the `delivery` job succeed from now on. */
  fixDelivery(): void {
    writeFileSync(join(this.folder, 'delivery-fixed'), '');
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
