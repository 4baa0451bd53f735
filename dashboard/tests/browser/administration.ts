// What the simulated cluster answers about single nodes and in the settings.
import type { NodeWithRuns } from '../../src/lib/types';
import type { World } from './world';

type Answer = [number, unknown];

export class Administration {
  /** The deadline of each drain, by node. */
  readonly deadlines = new Map<string, string | null>();

  constructor(private readonly world: World) {
    world.event('node_lost', 'error', 'us-west-1 was lost with 3 runs in flight', 7300e3, { node: 'us-west-1', in_flight: 3 });
    world.event('node_joined', 'info', 'us-west-1 joined with 16 slots', 7200e3, { node: 'us-west-1', version: '0.12.0', slots: 16 });
    world.event('leader_elected', 'info', 'us-west-1 is the leader, term 40', 7100e3, { node: 'us-west-1', term: 40 });
    world.event('node_lost', 'error', 'us-south-9 was lost with 1 run in flight', 86_400e3, { node: 'us-south-9', in_flight: 1 });
  }

  /** Null: not one of these routes. */
  route(method: string, path: string, query: URLSearchParams, body: Record<string, unknown>): Answer | null {
    const node = /^\/nodes\/([^/]+)(?:\/(\w+))?$/.exec(path);
    if (node !== null) return this.node(method, node[1] ?? '', node[2], body);
    if (path === '/runs' && query.get('node')?.includes('#')) {
      const [name] = query.get('node')!.split('#');
      const states = query.getAll('state');
      const items = this.world.recent(600).filter((run) => run.node?.split('#')[0] === name && states.includes(run.state));
      return [200, { items, next_cursor: null }];
    }
    if (path === '/events' && query.get('node')) return [200, { items: this.world.pastEvents().filter((event) => event.fields.node === query.get('node')), next_cursor: null }];
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
