// What the simulated cluster answers about single nodes and in the settings.
import type { Alert, AlertInput, ApiKey, Calendar, NodeWithRuns, Notification, Secret, User } from '../../src/lib/types';
import type { World } from './world';

type Answer = [number, unknown];

export class Administration {
  /** The deadline of each drain, by node. */
  readonly deadlines = new Map<string, string | null>();

  users: User[] = [
    { name: 'grace', role: 'operator', jobs: [], allow_shell: false, allow_secrets: false, enabled: true, source: 'local', created_at: '2026-10-02T08:00:00Z' },
    { name: 'linus', role: 'editor', jobs: ['billing-*', 'search-*'], allow_shell: true, allow_secrets: false, enabled: false, source: 'local', created_at: '2026-10-09T08:00:00Z' },
    { name: 'oidc:grace.murray.hopper@compilers.example.com', role: 'viewer', jobs: [], allow_shell: false, allow_secrets: false, enabled: true, source: 'oidc', created_at: '2026-11-02T08:00:00Z' },
  ];
  keys: ApiKey[] = [
    { name: 'ci', role: 'editor', jobs: ['billing-*'], allow_shell: false, allow_secrets: true, created_at: '2026-09-01T08:00:00Z', created_by: 'ada', expires_at: '2026-10-01T08:00:00Z', last_used_at: '2026-09-30T08:00:00Z' },
    { name: 'grafana', role: 'viewer', jobs: [], allow_shell: false, allow_secrets: false, created_at: '2026-09-01T08:00:00Z', created_by: 'ada', expires_at: null, last_used_at: null },
  ];
  secrets: Secret[] = [
    { name: 'PARTNER_TOKEN', updated_at: '2026-11-12T08:00:00Z', updated_by: 'ada' },
    { name: 'UNUSED', updated_at: '2025-11-12T08:00:00Z', updated_by: null },
  ];
  alerts: Alert[] = [alert('billing', { on: ['failed', 'recovered', 'late'], jobs: ['billing-*'] }), alert('night-shift', { webhook: null, email: { to: ['ops@example.com', 'night@example.com'], log_lines: 20 }, enabled: false, group: { by: ['job'], wait: '30s', interval: '5m' } })];
  notices: Notification[] = [
    notice('msg_1', 'gave_up', { attempts: 14, status: 503, error: 'Service Unavailable: the receiver is overloaded, and it has been so for a day' }),
    notice('msg_2', 'delivered', { attempts: 1, status: 204, kind: 'recovered', ended_at: '2026-11-21T03:00:02Z' }),
  ];
  calendars: Calendar[] = [calendar('holidays', 12), calendar('inventory', 0)];
  /** Bodies of requests that changed something, by method and path. */
  readonly sent: [string, Record<string, unknown>][] = [];

  constructor(private readonly world: World) {
    world.event('node_lost', 'error', 'us-west-1 was lost with 3 running jobs', 7300e3, { node: 'us-west-1', in_flight: 3 });
    world.event('node_joined', 'info', 'us-west-1 joined with 16 slots', 7200e3, { node: 'us-west-1', version: '0.12.0', slots: 16 });
    world.event('leader_elected', 'info', 'us-west-1 is the leader, term 40', 7100e3, { node: 'us-west-1', term: 40 });
    world.event('node_lost', 'error', 'us-south-9 was lost with 1 running job', 86_400e3, { node: 'us-south-9', in_flight: 1 });
  }

  /** Null: not one of these routes. */
  route(method: string, path: string, query: URLSearchParams, body: Record<string, unknown>): Answer | null {
    const node = /^\/nodes\/([^/]+)(?:\/(\w+))?$/.exec(path);
    if (node !== null) return this.node(method, node[1] ?? '', node[2], body);
    if (method !== 'GET') this.sent.push([`${method} ${path}`, body]);
    return this.settings(method, path, body) ?? this.lists(path, query);
  }

  private lists(path: string, query: URLSearchParams): Answer | null {
    if (path === '/runs' && query.get('node')?.includes('#')) {
      const [name] = query.get('node')!.split('#');
      const states = query.getAll('state');
      const items = this.world.recent(600).filter((run) => run.node?.split('#')[0] === name && states.includes(run.state));
      return [200, { items, next_cursor: null }];
    }
    if (path === '/events' && query.get('node')) return [200, { items: this.world.pastEvents().filter((event) => event.fields.node === query.get('node')), next_cursor: null }];
    return null;
  }

  private settings(method: string, path: string, body: Record<string, unknown>): Answer | null {
    const all = <T>(items: readonly T[]): Answer => [200, { items, next_cursor: null }];
    const [, first, name = '', verb] = path.split('/');
    const at = new Date(this.world.now()).toISOString();
    const has = <T extends { name: string }>(list: T[]) => list.some((one) => one.name === body.name);
    const exists: Answer = [409, { title: 'Conflict', status: 409, detail: `'${body.name as string}' already exists` }];
    if (this.world.role !== 'admin' && ['users', 'api-keys', 'secrets'].includes(first ?? '')) return [403, { title: 'Forbidden', status: 403, detail: 'this needs the role admin' }];
    switch (first) {
      case 'users':
        if (method === 'POST') {
          if (has(this.users)) return exists;
          const { password: _, ...rest } = body;
          this.users.push({ jobs: [], allow_shell: false, allow_secrets: false, enabled: true, source: 'local', created_at: at, ...rest } as unknown as User);
          return [201, this.users.at(-1)];
        }
        if (method === 'DELETE') return [204, (this.users = this.users.filter((one) => one.name !== name))];
        if (method === 'PATCH') {
          const { password: _, ...rest } = body;
          this.users = this.users.map((one) => (one.name === name ? { ...one, ...rest } : one));
          return [200, this.users.find((one) => one.name === name)];
        }
        return all(this.users);
      case 'api-keys':
        if (method === 'POST') {
          if (has(this.keys)) return exists;
          this.keys.push({ jobs: [], allow_shell: false, allow_secrets: false, created_at: at, created_by: 'ada', expires_at: null, last_used_at: null, ...body } as unknown as ApiKey);
          return [201, { ...this.keys.at(-1), key: 'cf_deploy_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4' }];
        }
        if (method === 'DELETE') return [204, (this.keys = this.keys.filter((one) => one.name !== name))];
        return all(this.keys);
      case 'secrets':
        if (name === 'uses') return [200, { items: [{ name: 'MAIL_PASSWORD', jobs: [], job_count: 0, alerts: ['night-shift'] }, { name: 'PARTNER_TOKEN', jobs: ['sync-tokens', 'import-exchange-rates'], job_count: 2, alerts: [] }], next_cursor: null, jobs_read: 40, complete: true }];
        if (method === 'POST') {
          const set = has(this.secrets);
          this.secrets = [...this.secrets.filter((one) => one.name !== body.name), { name: String(body.name), updated_at: at, updated_by: 'ada' }];
          return [set ? 200 : 201, { name: body.name, new: !set }];
        }
        if (method === 'DELETE') return [204, (this.secrets = this.secrets.filter((one) => one.name !== name))];
        return all(this.secrets);
      case 'alerts':
        if (verb === 'notices') return all(name === 'billing' ? this.notices : []);
        if (verb === 'test') return [200, { samples: [{ kind: 'test', id: 'msg_t', taken: false, status: 404, error: 'no such hook', ms: 84 }], id: 'msg_t', taken: false, status: 404, error: 'no such hook', ms: 84 }];
        if (method === 'POST' && has(this.alerts)) return exists;
        if (method === 'DELETE') return [204, (this.alerts = this.alerts.filter((one) => one.name !== name))];
        if (method === 'POST' || method === 'PUT') {
          const made = alert(String(body.name ?? name), body as AlertInput);
          this.alerts = [...this.alerts.filter((one) => one.name !== made.name), made];
          return [200, made];
        }
        return all(this.alerts);
      case 'calendars': {
        const found = this.calendars.find((one) => one.name === name);
        if (verb === 'read') return String(body.text).includes('VCALENDAR') ? [200, { calendar: { name, description: 'Imported', tz: null, days: ['2026-12-25', '2027-12-25'], windows: [] }, left_out: { cancelled: 1 }, first: '2026-01-01', last: body.last }] : [422, { title: 'Unprocessable Entity', status: 422, detail: 'text: this is not an iCalendar file (export the calendar as .ics again)' }];
        if (verb === 'plan') return [200, { name, result: found === undefined ? 'created' : 'changed', job_count: found?.job_count ?? 0, compared: 1, days: 90, effects: found === undefined ? [] : [{ job: 'close-month', next_before: '2026-12-25T23:30:00Z', next_after: '2026-12-28T23:30:00Z', skipped: [{ fire: '2026-12-25T23:30:00Z', reason: 'holidays' }], allowed: [], more: false }] }];
        if (method === 'PUT') {
          this.calendars = [...this.calendars.filter((one) => one.name !== name), { ...calendar(name, 0), ...body }];
          return [200, {}];
        }
        if (method === 'DELETE') return [204, (this.calendars = this.calendars.filter((one) => one.name !== name))];
        if (name !== '') return found === undefined ? [404, { title: 'Not Found', status: 404, detail: `there is no calendar '${name}'` }] : [200, found];
        return all(this.calendars.map((one) => ({ name: one.name, description: one.description, tz: one.tz, revision: one.revision, day_count: one.days.length, window_count: one.windows.length, job_count: one.job_count, updated_at: one.updated_at, updated_by: one.updated_by })));
      }
    }
    if (path === '/cluster/config') {
      const row = (name: string, value: string, fallback: string | null, source: string, description: string, hidden = false) => ({ name, value, default: fallback, source, hidden, description });
      return all([
        row('REDIS_URL', 'redis://***@redis.internal:6379/0', 'unset', 'environment CRONFLOW_REDIS_URL', 'Redis URL.'),
        row('NODE_NAME', 'api-1-3f2a', null, 'default', 'Name of this node.'),
        row('SLOTS', '4', '16', 'cronflow.toml', 'How many runs a node executes concurrently.'),
        row('ADMIN_PASSWORD', '***', 'unset', 'secrets file /run/secrets/ADMIN_PASSWORD', 'Password of the admin, at least 8 characters.', true),
        row('HEARTBEAT', '5s', '5s', 'default', 'Interval between two heartbeats of a node; less than half of NODE_TTL.'),
      ]);
    }
    return null;
  }

  private node(method: string, name: string, verb: string | undefined, body: Record<string, unknown>): Answer {
    const found = this.world.nodeDetails().find((one) => one.name === name);
    if (found === undefined) return [404, { title: 'Not Found', status: 404, detail: `there is no node '${name}'` }];
    if (method === 'POST') {
      this.deadlines.set(name, (body.until as string | undefined) ?? null);
      if (verb === 'drain') this.world.draining.add(name);
      else this.world.draining.delete(name);
      return [200, {}];
    }
    const detail: NodeWithRuns = {
      ...found, incarnation: found.id.split('#')[1] ?? '', lag_s: 0.0021, accepts_ahead: 24, runs: [], drain_until: this.deadlines.get(name) ?? null,
      labels: { region: name.slice(0, 7), disk: 'ssd' }, started_at: new Date(this.world.now() - 7200e3).toISOString(),
      capabilities: { shell: true, modules: ['billing.jobs', 'billing.reports', 'warehouse'], hosts: null, secrets: true, amqp: false },
    };
    return [200, detail];
  }
}

function alert(name: string, given: Partial<AlertInput>): Alert {
  const changed = { since: '2026-11-01T08:00:00Z', created_at: '2026-11-01T08:00:00Z', updated_at: '2026-11-20T08:00:00Z', updated_by: 'ada' };
  return {
    name, on: ['failed'], jobs: [], webhook: { url: 'https://hooks.example.com/T0/B1/xyz', secret: '${secret:HOOK}', format: 'json' }, email: null, late_after: '5m', no_leader_after: '1m', retries: 2,
    dead_letters: { warn: 10, critical: 100 }, retry_rate: 0.2, report: { day: 'monday', time: '08:00', tz: 'UTC' }, limit_wait_after: '15m', heartbeat_every: '1m', group: null, quiet: null, enabled: true, ...changed, ...given,
  } as Alert;
}

function notice(id: string, state: Notification['state'], given: Partial<Notification>): Notification {
  return { id, kind: 'failed', subject: 'billing-task-01@20261121T020000Z', job: 'billing-task-01', state, group: null, digest: null, attempts: 0, status: null, error: null, created_at: '2026-11-21T02:00:09Z', tried_at: null, ended_at: null, ...given };
}

/** A day each month, beginning with the coming one. */
function calendar(name: string, days: number): Calendar {
  const now = new Date();
  const coming = Array.from({ length: days }, (_, i) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1 + i, 24)).toISOString().slice(0, 10));
  return {
    name, description: days > 0 ? 'Public holidays in Hesse' : '', tz: 'Europe/Berlin', days: coming, windows: days > 0 ? [] : [{ start: '22:00', end: '06:00', days: 'mon-fri', name: 'stocktaking' }], revision: 3,
    coming_days: coming.map((day) => ({ day, weekday: 'thu', name: 'Christmas Eve, every month' })), coming_windows: [], jobs: days > 0 ? ['close-month', 'invoice-reminders'] : [], job_count: days > 0 ? 2 : 0, updated_at: '2026-11-20T08:00:00Z', updated_by: 'ada',
  };
}
