// Rows and columns of the heat maps: the hours of a week and the days of a year. Pure; the time zone is an argument.
import type { Day } from './types';

export const WEEKDAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'];
export const WEEKS = 53;
const DAY_MS = 86_400_000;

export interface HourCell {
  /** The number of the hour in the week. */
  index: number;
  /** The hour, in ms. */
  at: number;
  peak: number;
}

/** A row for each day of the week and a column for each hour, in local time of a zone. An hour that the clocks show twice
 * has the busier one; null for an hour that they skip. */
export function byWeekday(first: string, peaks: readonly number[], zone: string): (HourCell | null)[][] {
  const rows = WEEKDAYS.map(() => new Array<HourCell | null>(24).fill(null));
  const shown = new Intl.DateTimeFormat('en-GB', { timeZone: zone, weekday: 'short', hour: '2-digit', hourCycle: 'h23' });
  const begin = Date.parse(first);
  peaks.forEach((peak, index) => {
    const at = begin + index * 3_600_000;
    const parts = shown.formatToParts(at);
    const part = (type: string) => parts.find((one) => one.type === type)?.value ?? '';
    const row = rows[WEEKDAYS.indexOf(part('weekday'))];
    const hour = Number(part('hour'));
    if (row !== undefined && (row[hour]?.peak ?? -1) < peak) row[hour] = { index, at, peak };
  });
  return rows;
}

/** The colour of a cell, 1 to 5 by its quantile, 0 when nothing starts. The server computes the limits. */
export function levelOf(value: number, limits: readonly number[]): number {
  return value === 0 ? 0 : 1 + limits.filter((limit) => value > limit).length;
}

/** The colours that occur, each with its smallest and largest value. */
export function legendOf(values: readonly number[], limits: readonly number[]): { level: number; from: number; to: number }[] {
  const found = new Map<number, { level: number; from: number; to: number }>();
  for (const value of values) {
    const level = levelOf(value, limits);
    const known = found.get(level);
    found.set(level, { level, from: Math.min(value, known?.from ?? value), to: Math.max(value, known?.to ?? value) });
  }
  return [...found.values()].filter((one) => one.level > 0).sort((a, b) => a.level - b.level);
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
