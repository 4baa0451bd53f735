// Rows and columns of the heat maps: the hours of a week and the days of a year. Pure; the time zone is an argument.
import type { Day } from './types';

export const WEEKDAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'];
export const WEEKS = 53;
const DAY_MS = 86_400_000;

/** A row for each day of the week and a column for each hour, in local time of a zone. */
export function byWeekday(first: string, hours: readonly number[], zone: string): number[][] {
  const rows = WEEKDAYS.map(() => new Array<number>(24).fill(0));
  const shown = new Intl.DateTimeFormat('en-GB', { timeZone: zone, weekday: 'short', hour: '2-digit', hourCycle: 'h23' });
  const begin = Date.parse(first);
  hours.forEach((fires, i) => {
    const parts = shown.formatToParts(begin + i * 3_600_000);
    const part = (type: string) => parts.find((one) => one.type === type)?.value ?? '';
    const row = rows[WEEKDAYS.indexOf(part('weekday'))];
    if (row !== undefined) row[Number(part('hour'))]! += fires;
  });
  return rows;
}

export interface Square {
  /** In UTC, for example 2026-11-21. */
  day: string;
  runs: number;
  /** Failed or lost. */
  bad: number;
}

/** The last 53 weeks: a row for each day of the week, a column for each week; null for days in the future. */
export function byWeek(days: readonly Day[], now: number): (Square | null)[][] {
  const found = new Map(days.map((one) => [one.day, one.states]));
  const today = Math.floor(now / DAY_MS);
  const monday = today - ((today + 3) % 7) - (WEEKS - 1) * 7;
  return WEEKDAYS.map((_, row) => Array.from({ length: WEEKS }, (_, column) => {
    const at = monday + column * 7 + row;
    if (at > today) return null;
    const day = new Date(at * DAY_MS).toISOString().slice(0, 10);
    const states = found.get(day) ?? {};
    const runs = Object.values(states).reduce((sum, one) => sum + one, 0);
    return { day, runs, bad: (states.failed ?? 0) + (states.lost ?? 0) };
  }));
}

/** The colour intensity of a cell, 0 to 4, on a square-root scale. */
export function intensity(value: number, most: number): number {
  return value <= 0 || most <= 0 ? 0 : Math.max(1, Math.ceil(4 * Math.sqrt(value / most)));
}
