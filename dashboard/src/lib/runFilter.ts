// Which runs the Runs view shows: the filter in the URL, as a query of the API, and in words. Pure.
import { instant, plural } from './format';
import { RUN, RUN_STATES } from './labels';
import { rangeOf as timesOf, spanWords } from './timeRange';
import type { RunKind, RunState } from './types';

export interface RunFilter {
  /** The name of one job. */
  job: string;
  /** A part of the job's name, or a pattern. */
  q: string;
  labels: string[];
  kind: string;
  states: RunState[];
  node: string;
  /** The length of a range that ends now, such as `24h`; fixed ends win over it. */
  span: string;
  from: string;
  to: string;
  oldest: boolean;
}

/** Groups of kinds: key, label, the kinds of the API. */
export const KINDS: readonly [string, string, readonly RunKind[]][] = [
  ['schedule', 'Schedule', ['cron', 'interval', 'once']],
  ['manual', 'Manual', ['manual']],
  ['replay', 'Replay', ['replay']],
  ['backfill', 'Backfill', ['backfill']],
  ['chain', 'Chain', ['after']],
  ['part', 'Part of a run', ['part']],
];

export const KIND_LABEL: Record<RunKind, string> = {
  cron: 'Schedule', interval: 'Schedule', once: 'Schedule', manual: 'Manual', replay: 'Replay', backfill: 'Backfill', after: 'Chain', part: 'Part',
};

/** The parameters of the URL that select runs. */
const SELECTING = ['job', 'q', 'label', 'kind', 'state', 'node', 'span', 'from', 'to'] as const;

export const NO_FILTER: Record<string, null> = Object.fromEntries(SELECTING.map((name) => [name, null]));

/** Whether the server compares the whole name with it, instead of searching for it in the name. */
export function isPattern(text: string): boolean {
  return /[*?[]/.test(text);
}

export function filterOf(get: (name: string) => string): RunFilter {
  const words = (name: string) => get(name).split(',').map((one) => one.trim()).filter(Boolean);
  return {
    job: get('job'), q: get('q'), labels: words('label'), kind: get('kind'), node: get('node'),
    states: words('state').filter((one): one is RunState => (RUN_STATES as string[]).includes(one)),
    span: get('span'), from: get('from'), to: get('to'), oldest: get('sort') === 'oldest',
  };
}

/** Whether any filter is set. */
export function selects(filter: RunFilter): boolean {
  return filter.job !== '' || filter.q !== '' || filter.labels.length > 0 || filter.kind !== '' || filter.states.length > 0 || filter.node !== '' || filter.span !== '' || filter.from !== '' || filter.to !== '';
}

/** The time range at this instant: spans move with the clock. */
export function rangeOf(filter: RunFilter, now: number): { since: string | null; until: string | null } {
  const { from, to } = timesOf({ get: (name) => filter[name as 'span' | 'from' | 'to'] }, now);
  return { since: iso(from), until: iso(to) };
}

function iso(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString();
}

function kindsOf(filter: RunFilter): RunKind[] {
  return [...(KINDS.find(([key]) => key === filter.kind)?.[2] ?? [])];
}

/** The query of `GET /runs`. */
export function queryOf(filter: RunFilter, now: number) {
  return {
    job: filter.job || null, q: filter.q, label: filter.labels, kind: kindsOf(filter), state: filter.states, node: filter.node || null,
    ...rangeOf(filter, now), order: filter.oldest ? ('oldest' as const) : ('newest' as const),
  };
}

/** The filter of an action on all that match now. Runs that fall due later do not match, so that what was counted is what
 *  changes. `states` are those that the action can change; null if the filter has none of them.
 */
export function bulkFilterOf(filter: RunFilter, states: readonly RunState[], now: number) {
  const chosen = filter.states.filter((state) => states.includes(state));
  if (filter.states.length > 0 && chosen.length === 0) return null;
  const { since, until } = rangeOf(filter, now);
  return {
    ...(filter.job === '' ? {} : { job: filter.job }), ...(filter.q === '' ? {} : { q: filter.q }), ...(filter.labels.length === 0 ? {} : { label: filter.labels }),
    ...(filter.kind === '' ? {} : { kind: kindsOf(filter) }), ...(chosen.length === 0 ? {} : { state: chosen }), ...(filter.node === '' ? {} : { node: filter.node }),
    ...(since === null ? {} : { since }), until: until ?? new Date(Math.ceil(now / 1000) * 1000).toISOString(),
  };
}

/** The filter in words, such as "job name contains etl · failed or lost · last 24 h". */
export function describe(filter: RunFilter, now: number): string {
  const { since, until } = rangeOf(filter, now);
  const span = spanWords(filter.span);
  const range = filter.from !== '' || filter.to !== ''
    ? [since === null ? '' : `from ${instant(since, undefined, now)}`, until === null ? '' : `until ${instant(until, undefined, now)}`].filter(Boolean).join(' ')
    : span === null ? '' : `last ${span}`;
  return [
    filter.job && `job ${filter.job}`,
    filter.q && (isPattern(filter.q) ? `job name matches ${filter.q}` : `job name contains ${filter.q}`),
    filter.labels.length > 0 && `${filter.labels.length === 1 ? 'label' : 'labels'} ${filter.labels.join(' and ')}`,
    filter.kind && `kind ${(KINDS.find(([key]) => key === filter.kind)?.[1] ?? filter.kind).toLowerCase()}`,
    filter.states.map((state) => RUN[state].label.toLowerCase()).join(' or '),
    filter.node && `node ${filter.node}`,
    range,
  ].filter(Boolean).join(' · ');
}

/** The result of an action on all matching runs, in words. */
export function outcomeText(done: string, changed: number, skipped: readonly { why: string }[]): string {
  const left = skipped[0] === undefined ? '' : `; ${plural(skipped.length, 'run')} left out (${skipped[0].why})`;
  return `${plural(changed, 'run')} ${done}${left}`;
}
