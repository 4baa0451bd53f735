// The simulated answers about the past: why a run was late, what a timeline shows besides its runs, incidents, the onset of
// failures, and the jobs of an instant.
import type { Run, Schemas } from '../../src/lib/types';
import type { World } from './world';

const iso = (ms: number): string => new Date(ms).toISOString();

/** Runs whose number ends in 7 started 24.3 s late, after a failover. */
export function lateStart(run: Run): Schemas['LateStartSchema'] | null {
  if (!run.id.endsWith('7') || run.started_at === null) return null;
  const due = Date.parse(run.fire_at);
  const run_ = run.id.replace(/7$/, '1');
  const parts: [Schemas['LatePartSchema']['delay'], number, string, boolean, string | null][] = [
    ['no_leader', 17_200, 'No leader: eu-central-1 had last renewed its lease at 10:41:58 UTC; us-east-2 became leader (term 42)', true, null],
    ['planning', 300, 'us-east-2 was the leader (term 42) and planned the run', true, null],
    ['waiting', 4100, 'limit exports is full (the last recorded reason)', true, run_],
    ['sent', 160, 'Dispatched; waiting for us-east-1 to claim the run', true, null],
    ['slot', 1900, 'All slots of us-east-1 were in use by other runs', true, null],
    ['node', 640, 'Dispatched to us-east-1 and started there; no details were recorded', false, null],
  ];
  let at = due;
  return {
    due: iso(due), until: iso(due + 24_300), started: true, lateness_ms: 24_300,
    parts: parts.map(([delay, ms, words, recorded, of]) => {
      const since = iso(at);
      at += ms;
      return { delay, since, until: iso(at), ms, words, recorded, run: of };
    }),
  };
}

/** Running runs take longer than usual. */
export function withUsual<T extends { chain: object[] }>(run: Run, why: T): T {
  if (run.state !== 'running') return why;
  return { ...why, chain: [...why.chain, { step: 'runs', since: run.started_at, attempt: 1, node: run.node, usual_ms: 2400, usual_of: 50, long: true }] };
}

function marks(world: World, since: number, until: number): Schemas['ClusterMarkSchema'][] {
  const now = world.now();
  const all: Schemas['ClusterMarkSchema'][] = [
    { at: iso(now - 190e3), kind: 'leader', words: 'us-east-2 is the leader, term 41', node: 'us-east-2' },
    { at: iso(now - 120e3), kind: 'deployment', words: 'ap-south-1 went from CronFlow 0.13.2 to 0.14.0', node: 'ap-south-1' },
    { at: iso(now - 60e3), kind: 'node_lost', words: 'us-west-1 was lost with 3 running jobs', node: 'us-west-1' },
  ];
  return all.filter((mark) => Date.parse(mark.at) >= since && Date.parse(mark.at) <= until);
}

/** The answer of a route about the past, or null if it is another route. */
export function past(world: World, path: string, query: URLSearchParams): unknown {
  const time = (name: string) => Date.parse(query.get(name) ?? '');
  if (path === '/timeline') {
    const now = Math.ceil(world.now() / 1000) * 1000;
    const ahead = query.get('fires_until') === null ? 0 : Math.max(0, Math.floor((time('fires_until') - now) / 1000));
    const fires = Array.from({ length: Math.min(500, Math.floor(ahead / 3)) }, (_, i) => ({ job: ['sync-tokens', 'usage-rollup', 'thumbnail-sweeper'][i % 3]!, at: iso(now + i * 3000) }));
    const wanted = query.get('job');
    return { runs: 14_210, more: false, marks: marks(world, time('since'), time('until')), fires: fires.filter((fire) => wanted === null || fire.job === wanted), more_fires: ahead > 1500 } satisfies Schemas['TimelineSchema'];
  }
  if (path === '/incident') {
    const [since, until] = [time('since'), query.get('until') === null ? world.now() : time('until')];
    const failure = { reason: 'ConnectionError: POST <address>: connection refused', message: 'ConnectionError: POST api.partner.example:8443: connection refused', count: 12, open: 3, first: iso(since + 60e3), last: iso(until - 60e3), jobs: { 'invoice-reminders': 9, 'fraud-scores': 3 }, example: world.run(3).id };
    const found = marks(world, since, until);
    return {
      since: iso(since), until: iso(until), ended: { succeeded: 1200, failed: 12 }, failures: [failure], jobs: failure.jobs, marks: found, latest_ms: 24_300,
      notes: ['Counts and lateness are stored per hour, so they include all of the first hour.'],
      markdown: `# Incident summary, ${iso(since)} to ${iso(until)}\n\n- Failed and lost runs: 12, of 2 jobs\n- Longest lateness: about 24.3 s\n\n${found.map((mark) => `- ${mark.words}`).join('\n')}\n`,
    } satisfies Schemas['IncidentSchema'];
  }
  if (path === '/past/jobs') {
    const items = world.jobs().slice(0, 12).map((job, i) => ({ name: job.name, ver: 2, by: 'ada', since: iso(time('at') - 86_400e3), held: i === 1 ? 'paused' : null, words: job.words, last: i === 2 ? null : { id: world.run(i).id, fire_at: iso(time('at') - 40e3), state: 'succeeded' as const, duration_ms: 1200 } }));
    return { items, next_cursor: null } satisfies { items: Schemas['PastJobSchema'][]; next_cursor: null };
  }
  const match = /^\/jobs\/([^/]+)\/onset$/.exec(path);
  if (match === null) return null;
  if (match[1] !== 'invoice-reminders') return { onset: null };
  const [first, before] = [world.run(14), world.run(15)];
  const mark = ({ id, fire_at, state, duration_ms }: Run) => ({ id, fire_at, state, duration_ms });
  return {
    onset: {
      first: mark(first), last_success: mark(before), failed: 8, since: 8, before: 40, reason: 'ConnectionError: POST <address>: connection refused',
      matches: [
        { kind: 'version', words: 'All 8 failures ran version 7 or later; all 40 earlier successes ran version 6 or earlier', at: first.fire_at },
        { kind: 'failover', words: 'us-east-2 is the leader, term 42, 40 s before the first failure started', at: first.fire_at },
      ],
    },
  } satisfies Schemas['OnsetAnswerSchema'];
}
