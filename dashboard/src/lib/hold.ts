// Pauses and maintenance: when they end, and what to show about them.
import { duration, moment } from './format';

/** The ends to choose from: key, length in milliseconds, label. */
export const HOLDS = [
  ['1h', 3600e3, 'In 1 hour'],
  ['4h', 4 * 3600e3, 'In 4 hours'],
  ['24h', 24 * 3600e3, 'In 24 hours'],
] as const;

/** The deadlines of a drain to choose from. */
export const DEADLINES = [
  ['5m', 300e3, 'In 5 minutes'],
  ['10m', 600e3, 'In 10 minutes'],
  ['30m', 1800e3, 'In 30 minutes'],
  ['1h', 3600e3, 'In 1 hour'],
] as const;

/** The end for a choice: a length, `at` with a local time as inputs have it, or '' for none. Null without an end. */
export function endOf(choice: string, at: string, now: number): string | null {
  const length = [...HOLDS, ...DEADLINES].find(([key]) => key === choice)?.[1];
  const end = length !== undefined ? now + length : choice === 'at' && at !== '' ? Date.parse(at) : NaN;
  return Number.isNaN(end) ? null : new Date(Math.round(end / 1000) * 1000).toISOString();
}

/** Since when, by whom and until when, such as "since 10:42:07 by ada, until 12:00:00 (1 h 17 m left)". */
export function holdText(hold: { at: string | null; by: string | null; until: string | null }, now: number): string {
  const left = hold.until === null ? 0 : Date.parse(hold.until) - now;
  const end = hold.until === null ? '' : `, until ${moment(hold.until, now)}${left > 0 ? ` (${duration(left)} left)` : ''}`;
  return `since ${moment(hold.at, now)}${hold.by ? ` by ${hold.by}` : ''}${end}`;
}
