// The days of a calendar, month by month, for a year from today.
import type { Calendar } from './types';

export interface MonthDay {
  /** Such as 2026-12-25. */
  day: string;
  number: number;
  /** What the calendar calls it; null: not a day of the calendar. */
  name: string | null;
}

export interface Month {
  /** Such as 2026-12. */
  key: string;
  title: string;
  /** Empty cells before the first day; weeks begin on Monday. */
  offset: number;
  days: MonthDay[];
}

const TITLE = new Intl.DateTimeFormat('en-GB', { month: 'long', year: 'numeric', timeZone: 'UTC' });

/** Twelve months, beginning with that of `today`. */
export function yearOf(coming: Calendar['coming_days'], today: string): Month[] {
  const named = new Map(coming.map(({ day, name }) => [day, name]));
  const [year, month] = today.split('-').map(Number) as [number, number];
  return Array.from({ length: 12 }, (_, i) => {
    const first = new Date(Date.UTC(year, month - 1 + i, 1));
    const length = new Date(Date.UTC(year, month + i, 0)).getUTCDate();
    const key = first.toISOString().slice(0, 7);
    const days = Array.from({ length }, (_, n) => {
      const day = `${key}-${String(n + 1).padStart(2, '0')}`;
      return { day, number: n + 1, name: named.get(day) ?? null };
    });
    return { key, title: TITLE.format(first), offset: (first.getUTCDay() + 6) % 7, days };
  });
}
