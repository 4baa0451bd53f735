// The time range of a view, as written in the address: `span=1h` for the last hour, or `from` and `to` in ms since 1970 or as
// instants. Views that have one share it: links between them keep it.

const RANGE = ['span', 'from', 'to'];
const RANGED = [/^\/$/, /^\/runs$/, /^\/timeline$/, /^\/logs$/, /^\/dead-letters$/];
const UNITS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The spans that are offered. */
export const SPANS = ['15m', '1h', '6h', '24h', '7d', '30d'];

export interface TimeRange {
  from: number | null;
  to: number | null;
}

/** The length of `15m`, `1h` or `7d` in ms; null for anything else. */
export function spanMs(span: string): number | null {
  const match = /^(\d{1,4})([smhd])$/.exec(span);
  return match === null ? null : Number(match[1]) * (UNITS[match[2]!] ?? 0);
}

/** 15 min, hour, 24 h, 7 days; null for anything that is not a span. */
export function spanWords(span: string): string | null {
  if (spanMs(span) === null) return null;
  const [n, unit] = [Number.parseInt(span, 10), span.at(-1)];
  if (unit === 'd') return n === 1 ? 'day' : `${n} days`;
  if (unit === 'h') return n === 1 ? 'hour' : `${n} h`;
  return `${n} ${unit === 'm' ? 'min' : 's'}`;
}

function instantOf(text: string | null): number | null {
  if (text === null || text === '') return null;
  const at = /^\d+$/.test(text) ? Number(text) : /^\d{4}-\d\d-\d\dT/.test(text) ? Date.parse(text) : NaN;
  return Number.isFinite(at) && at > 0 ? at : null;
}

/** The range of an address; both ends null: any time. Fixed ends win over a span. */
export function rangeOf(query: Pick<URLSearchParams, 'get'>, now: number): TimeRange {
  const [from, to] = [instantOf(query.get('from')), instantOf(query.get('to'))];
  if (from !== null || to !== null) return { from, to };
  const length = spanMs(query.get('span') ?? '');
  return { from: length === null ? null : now - length, to: null };
}

function isRanged(path: string): boolean {
  return RANGED.some((one) => one.test(path));
}

/** The range of this address as parameters, if its view has one. */
export function rangeIn(path: string, query: URLSearchParams): [string, string][] | null {
  return isRanged(path) ? RANGE.flatMap((name) => (query.get(name) ? [[name, query.get(name)!] as [string, string]] : [])) : null;
}

/** A link to another view with the range of this one and the zone of its times, unless it has its own. */
export function carried(address: string, range: readonly [string, string][], zone: string | null): string {
  const url = new URL(address, 'http://page');
  if (isRanged(url.pathname) && !RANGE.some((name) => url.searchParams.has(name))) {
    for (const [name, value] of range) url.searchParams.set(name, value);
  }
  // The cron builder has a `tz` of its own.
  if (zone !== null && url.pathname !== '/cron') url.searchParams.set('tz', zone);
  return url.pathname + url.search + url.hash;
}
