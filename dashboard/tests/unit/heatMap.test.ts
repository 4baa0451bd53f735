import { describe, expect, it } from 'vitest';
import { byWeek, byWeekday, intensity, WEEKS } from '../../src/lib/heatMap';

describe('the hours of a week', () => {
  const hours = Array.from({ length: 168 }, (_, i) => i);

  it('are placed by local time of the zone', () => {
    // A Saturday, 12:00 in UTC; 21:00 in Tokyo.
    const utc = byWeekday('2026-11-21T12:00:00Z', hours, 'UTC');
    expect([utc[5]?.[12], utc[6]?.[0], utc[0]?.[0], utc[5]?.[11]]).toEqual([0, 12, 36, 167]);
    expect(byWeekday('2026-11-21T12:00:00Z', hours, 'Asia/Tokyo')[5]?.[21]).toBe(0);
    expect(utc.flat().reduce((sum, one) => sum + one, 0)).toBe((167 * 168) / 2);
  });

  it('are complete in a week in which the clocks change', () => {
    const rows = byWeekday('2026-10-22T00:00:00Z', hours.map(() => 1), 'Europe/Berlin');
    expect(rows.flat().reduce((sum, one) => sum + one, 0)).toBe(168);
    expect(rows[6]?.[2]).toBe(2);
  });
});

describe('the days of a year', () => {
  it('end today and cover every day of 53 weeks', () => {
    const now = Date.parse('2026-11-21T12:00:00Z');
    const rows = byWeek([{ day: '2026-11-21', states: { succeeded: 3, failed: 1, lost: 1 } }, { day: '2026-11-16', states: { skipped: 2 } }], now);
    expect(rows.map((row) => row.length)).toEqual(Array(7).fill(WEEKS));
    expect(rows[5]?.at(-1)).toEqual({ day: '2026-11-21', runs: 5, bad: 2 });
    expect(rows[0]?.at(-1)).toEqual({ day: '2026-11-16', runs: 2, bad: 0 });
    expect(rows[6]?.at(-1)).toBeNull();
    expect(rows[0]?.[0]?.day).toBe('2025-11-17');
  });
});

describe('the intensity of a colour', () => {
  it('is 0 for zero, at least 1 for any other value, and 4 for the maximum', () => {
    expect([0, 1, 25, 50, 100].map((value) => intensity(value, 100))).toEqual([0, 1, 2, 3, 4]);
    expect(intensity(0, 0)).toBe(0);
  });
});
