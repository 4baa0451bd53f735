import { afterEach, describe, expect, it } from 'vitest';
import { clock, instant, moment, shortDay } from '../../src/lib/format';
import { ticks } from '../../src/lib/gantt';
import { dayNumber, fieldOf, fromField, offsetOf, offsetWords, zone } from '../../src/lib/zone.svelte';

const AT = Date.parse('2026-11-26T23:30:00Z');

afterEach(() => {
  zone.choice = 'local';
  zone.job = null;
});

describe('times', () => {
  it('follow the chosen zone unless they have one', () => {
    zone.choice = 'utc';
    expect(clock(AT)).toBe('23:30:00');
    zone.choice = 'job';
    zone.job = 'Asia/Tokyo';
    expect(clock(AT)).toBe('08:30:00');
    expect(shortDay(AT)).toBe('Fri 27');
    expect(instant(AT, 'UTC', AT)).toBe('Thu 26 Nov, 23:30:00');
    expect(moment(AT, Date.parse('2026-11-26T15:10:00Z'))).toBe('08:30:00');
    expect(moment(AT, Date.parse('2026-11-26T14:50:00Z'))).toBe('Fri 27 Nov, 08:30:00');
  });
  it('of a page without a job are local', () => {
    const local = clock(AT);
    zone.choice = 'job';
    expect(clock(AT)).toBe(local);
  });
});

describe('offsets', () => {
  it.each([
    ['2026-07-01T00:00:00Z', 'Europe/Berlin', 'UTC+2'], ['2026-12-01T00:00:00Z', 'Europe/Berlin', 'UTC+1'],
    ['2026-12-01T00:00:00Z', 'Asia/Kolkata', 'UTC+5:30'], ['2026-12-01T00:00:00Z', 'America/St_Johns', 'UTC-3:30'], ['2026-12-01T00:00:00Z', 'UTC', 'UTC'],
  ])('at %s in %s is %s', (at, name, words) => {
    expect(offsetWords(Date.parse(at), name)).toBe(words);
  });
  it('change at the instant at which clocks change', () => {
    const change = Date.parse('2026-10-25T01:00:00Z');
    expect(offsetOf(change - 1, 'Europe/Berlin')).toBe(7_200_000);
    expect(offsetOf(change, 'Europe/Berlin')).toBe(3_600_000);
    expect(dayNumber(Date.parse('2026-10-25T22:59:59Z'), 'Europe/Berlin')).toBe(dayNumber(change, 'Europe/Berlin'));
    expect(dayNumber(Date.parse('2026-10-25T23:00:00Z'), 'Europe/Berlin')).toBe(dayNumber(change, 'Europe/Berlin') + 1);
  });
});

describe('fields', () => {
  it('have the time of the shown zone', () => {
    zone.choice = 'job';
    zone.job = 'Asia/Kolkata';
    expect(fieldOf(AT)).toBe('2026-11-27T05:00');
    expect(fromField('2026-11-27T05:00')).toBe(AT);
    expect(fromField('')).toBeNull();
    zone.job = 'Europe/Berlin';
    // An hour after the clocks went back.
    expect(fromField('2026-10-25T03:30')).toBe(Date.parse('2026-10-25T02:30:00Z'));
  });
});

it('axes are round in the shown zone', () => {
  const hours = ticks(AT, AT + 6 * 3_600_000, 600, 90, offsetOf(AT, 'Asia/Kolkata'));
  expect(hours.map((at) => clock(at, 'Asia/Kolkata'))).toEqual(['05:00:00', '06:00:00', '07:00:00', '08:00:00', '09:00:00', '10:00:00', '11:00:00']);
});
