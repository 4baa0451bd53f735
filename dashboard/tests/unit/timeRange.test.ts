import { describe, expect, it } from 'vitest';
import { carried, rangeIn, rangeOf, spanWords } from '../../src/lib/timeRange';

const NOW = 1_800_000_000_000;
const range = (text: string) => rangeOf(new URLSearchParams(text), NOW);

describe('the range of an address', () => {
  it.each([
    ['', { from: null, to: null }], ['span=15m', { from: NOW - 900_000, to: null }], ['span=7d', { from: NOW - 604_800_000, to: null }],
    ['span=soon', { from: null, to: null }], ['from=1799999000000&to=1799999900000', { from: 1_799_999_000_000, to: 1_799_999_900_000 }],
    ['from=2027-01-15T08:00:00Z', { from: NOW, to: null }], ['span=1h&to=2027-01-15T08:00:00Z', { from: null, to: NOW }], ['from=yesterday&to=-5', { from: null, to: null }],
  ])('of ?%s', (text, expected) => {
    expect(range(text)).toEqual(expected);
  });
  it('has words', () => {
    expect(['15m', '1h', '6h', '1d', '7d', '30s', '', 'x'].map(spanWords)).toEqual(['15 min', 'hour', '6 h', 'day', '7 days', '30 s', null, null]);
  });
});

describe('a link', () => {
  const hour: [string, string][] = [['span', '1h']];
  it('keeps the range if its view has one and the link names none', () => {
    expect(carried('/runs?state=failed', hour, null)).toBe('/runs?state=failed&span=1h');
    expect(carried('/jobs/report', hour, null)).toBe('/jobs/report');
    expect(carried('/runs?from=5', hour, null)).toBe('/runs?from=5');
    expect(carried('/nodes', hour, null)).toBe('/nodes');
    expect(carried('/jobs', hour, null)).toBe('/jobs');
  });
  it('keeps the zone, except on the page whose `tz` is that of an expression', () => {
    expect(carried('/nodes', [], 'utc')).toBe('/nodes?tz=utc');
    expect(carried('/cron?tz=Asia/Tokyo', [], 'utc')).toBe('/cron?tz=Asia/Tokyo');
  });
  it('takes the range of the last view that has one', () => {
    expect(rangeIn('/runs', new URLSearchParams('span=1h&state=failed'))).toEqual([['span', '1h']]);
    expect(rangeIn('/runs', new URLSearchParams(''))).toEqual([]);
    expect(rangeIn('/nodes', new URLSearchParams(''))).toBeNull();
  });
});
