import { describe, expect, it } from 'vitest';
import { ago, clock, count, countdown, instant, lag, duration, moment, momentMs, percent, rate, remaining } from '../../src/lib/format';

describe('numbers', () => {
  it.each([[0, '0'], [9999, '9,999'], [12_345, '12.3k'], [999_949, '1000k'], [1_250_000, '1.3M']])('count %s is %s', (value, text) => {
    expect(count(value)).toBe(text);
  });
  it('never rounds a failure away', () => {
    expect(percent(0.99999)).toBe('99.9 %');
    expect(percent(1)).toBe('100 %');
    expect(percent(null)).toBe('–');
  });
  it.each([[0, '0'], [0.04, '0.0'], [12.34, '12.3'], [1234, '1,234']])('rate %s is %s', (value, text) => {
    expect(rate(value)).toBe(text);
  });
});

describe('durations', () => {
  it.each([
    [null, '–'], [0, '0 ms'], [999, '999 ms'], [999.7, '1.0 s'], [1800, '1.8 s'], [9960, '10 s'], [59_700, '1 m'], [200_000, '3 m 20 s'],
    [7_500_000, '2 h 5 m'], [360_000_000, '4 d 4 h'], [-1500, '-1.5 s'],
  ])('%s ms is %s', (value, text) => {
    expect(duration(value)).toBe(text);
  });
  it.each([[0, '0.0 ms'], [0.0004, '0.4 ms'], [0.00994, '9.9 ms'], [0.00996, '10 ms'], [1.8, '1.8 s']])('a lag of %s s is %s', (value, text) => {
    expect(lag(value)).toBe(text);
  });
  it.each([[-5, 'now'], [1, 'in 1 s'], [7000, 'in 7 s'], [59_200, 'in 1 m'], [760_000, 'in 12 m 40 s'], [7_500_000, 'in 2 h 5 m'], [90_000_000, 'in 1 d 1 h']])('a countdown of %s is %s', (value, text) => {
    expect(countdown(value)).toBe(text);
    expect(countdown(value)).not.toContain(':');
  });
  it.each([[0, 'now'], [12_000, '12 s ago'], [240_000, '4 m ago'], [90_000_000, '1 d ago']])('%s ago is %s', (value, text) => {
    expect(ago(value)).toBe(text);
  });
});

describe('times', () => {
  it('are shown in the given zone, also when clocks change', () => {
    expect(clock('2026-10-25T00:30:00Z', 'Europe/Berlin')).toBe('02:30:00');
    expect(clock('2026-10-25T01:30:00Z', 'Europe/Berlin')).toBe('02:30:00');
    expect(instant('2026-11-21T23:30:00Z', 'Asia/Tokyo', Date.UTC(2026, 5))).toBe('Sun 22 Nov, 08:30:00');
    expect(clock('2026-11-21T00:00:00Z', 'UTC')).toBe('00:00:00');
  });
  it('have a year if it is not the current one in their zone', () => {
    const now = Date.UTC(2026, 11, 31, 20);
    expect(instant('2028-02-29T09:00:00Z', 'UTC', now)).toBe('Tue 29 Feb 2028, 09:00:00');
    expect(instant('2025-11-21T09:00:00Z', 'UTC', now)).toBe('Fri 21 Nov 2025, 09:00:00');
    // In Tokyo it is 2027 by now.
    expect(instant('2027-01-01T09:00:00Z', 'UTC', now)).toBe('Fri 1 Jan 2027, 09:00:00');
    expect(instant('2027-01-01T09:00:00Z', 'Asia/Tokyo', now)).toBe('Fri 1 Jan, 18:00:00');
    expect(moment(new Date(2025, 10, 20, 12).toISOString(), new Date(2026, 10, 21).getTime())).toBe('Thu 20 Nov 2025, 12:00:00');
  });
  it('of the same minute differ in seconds, and in another zone in hours', () => {
    expect(clock('2026-11-21T10:42:07.318Z', 'UTC')).toBe('10:42:07');
    expect(clock('2026-11-21T10:42:59.999Z', 'UTC')).toBe('10:42:59');
    expect(clock('2026-11-21T10:42:59.999Z', 'Asia/Kolkata')).toBe('16:12:59');
  });
  it('include the date if it is not today', () => {
    const noon = new Date(2026, 10, 21, 12).getTime();
    expect(moment(new Date(2026, 10, 21, 0, 0, 1).toISOString(), noon)).toBe('00:00:01');
    expect(moment(new Date(2026, 10, 20, 23, 59, 59).toISOString(), noon)).toBe('Fri 20 Nov, 23:59:59');
    expect(moment(new Date(2026, 10, 20, 23, 59, 59).toISOString(), noon - 86_400_000)).toBe('23:59:59');
  });
});

it('what is left is counted in whole seconds', () => {
  expect([remaining(-1), remaining(400), remaining(28_400)]).toEqual(['0 s', '1 s', '29 s']);
});

it('a moment with milliseconds has its date unless it is today, and its year if that differs', () => {
  const now = new Date(2026, 10, 21, 12).getTime();
  expect(momentMs(new Date(2026, 10, 21, 9, 8, 7, 65).toISOString(), now)).toBe('09:08:07.065');
  expect(momentMs(new Date(2025, 10, 20, 9, 8, 7, 65).toISOString(), now)).toBe('Thu 20 Nov 2025, 09:08:07.065');
});
