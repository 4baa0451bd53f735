import { describe, expect, it } from 'vitest';
import { byWeek, byWeekday, intensity, legendOf, levelOf, WEEKS } from '../../src/lib/heatMap';

describe('the hours of a week', () => {
  const hours = Array.from({ length: 168 }, (_, i) => i);

  it('are placed by local time of the zone', () => {
    // A Saturday, 12:00 in UTC; 21:00 in Tokyo.
    const utc = byWeekday('2026-11-21T12:00:00Z', hours, 'UTC');
    expect([utc[5]?.[12], utc[6]?.[0], utc[0]?.[0], utc[5]?.[11]].map((cell) => cell?.peak)).toEqual([0, 12, 36, 167]);
    expect(utc[6]?.[0]).toEqual({ index: 12, at: Date.parse('2026-11-22T00:00:00Z'), peak: 12 });
    expect(byWeekday('2026-11-21T12:00:00Z', hours, 'Asia/Tokyo')[5]?.[21]?.index).toBe(0);
    expect(new Set(utc.flat().map((cell) => cell?.index)).size).toBe(168);
  });

  it('show the busier of two hours where the clocks go back, and none where they go forward', () => {
    const autumn = byWeekday('2026-10-22T00:00:00Z', hours, 'Europe/Berlin');
    expect(autumn[6]?.[2]?.index).toBe(73);
    const spring = byWeekday('2027-03-25T00:00:00Z', hours, 'Europe/Berlin');
    expect(spring[6]?.[2]).toBeNull();
  });
});

describe('the colour of a busiest minute', () => {
  it('is its quantile, and the legend has the values of each colour that occurs', () => {
    const limits = [1, 2, 5, 5];
    expect([0, 1, 2, 3, 5, 9].map((value) => levelOf(value, limits))).toEqual([0, 1, 2, 3, 3, 5]);
    expect(legendOf([0, 9, 3, 5, 1, 100], limits)).toEqual([{ level: 1, from: 1, to: 1 }, { level: 3, from: 3, to: 5 }, { level: 5, from: 9, to: 100 }]);
    expect(legendOf([0, 0], [])).toEqual([]);
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
