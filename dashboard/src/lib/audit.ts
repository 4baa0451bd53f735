// The audit log as text: what an entry changed, and the periods that can be chosen.
import type { AuditEntry, Json } from './types';

export const PERIODS: [string, string][] = [
  ['', 'The beginning'],
  ['1h', 'An hour ago'],
  ['24h', 'A day ago'],
  ['7d', 'A week ago'],
];
const HOURS: Record<string, number> = { '1h': 1, '24h': 24, '7d': 168 };
const LONGEST = 60;

/** The instant at which a period begins; null: no limit. */
export function startOf(period: string, now: number): string | null {
  const hours = HOURS[period];
  return hours === undefined ? null : new Date(now - hours * 3_600_000).toISOString();
}

const isObject = (value: unknown): value is Record<string, Json> => value !== null && typeof value === 'object' && !Array.isArray(value);

function short(value: unknown): string {
  const text = value === undefined || value === null ? 'nothing' : JSON.stringify(value);
  return text.length <= LONGEST ? text : `${text.slice(0, LONGEST - 1)}…`;
}

/** `key: old → new` for every key that differs; what there is for something new or deleted. */
export function changesOf(entry: Pick<AuditEntry, 'before' | 'after'>): string {
  const { before, after } = entry;
  if (isObject(before) && isObject(after)) {
    const keys = Object.keys({ ...before, ...after }).filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]));
    return keys.map((key) => `${key}: ${short(before[key])} → ${short(after[key])}`).join(', ');
  }
  const only = isObject(after) ? after : isObject(before) ? before : {};
  return Object.entries(only).map(([key, value]) => `${key}: ${short(value)}`).join(', ');
}
