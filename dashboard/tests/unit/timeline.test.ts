import { describe, expect, it } from 'vitest';
import { layout, stacked } from '../../src/lib/gantt';
import { placed, type LatePart } from '../../src/lib/lateness';
import { matchingJobs, matchingRuns } from '../../src/lib/timeline';
import { around, grouped, LONGEST_MS, panned, parseTime, SHORTEST_MS, zoomed } from '../../src/lib/timeWindow';
import type { JobSummary, RunSummary } from '../../src/lib/types';

const NOW = new Date(2026, 10, 21, 10, 42, 7).getTime();
const at = (seconds: number) => new Date(NOW + seconds * 1000).toISOString();

describe('the time range', () => {
  it('keeps the point under the pointer when it zooms', () => {
    expect(zoomed({ from: 0, to: 100_000 }, 0.5, 25_000)).toEqual({ from: 12_500, to: 62_500 });
    expect(zoomed({ from: 0, to: 100_000 }, 2)).toEqual({ from: -50_000, to: 150_000 });
  });

  it('is neither shorter than a second nor longer than a month', () => {
    const short = zoomed({ from: 0, to: 1500 }, 0.01);
    expect(short.to - short.from).toBe(SHORTEST_MS);
    const long = zoomed({ from: 0, to: LONGEST_MS / 2 }, 100);
    expect(long.to - long.from).toBe(LONGEST_MS);
  });

  it('moves by a share of its length, and around a time', () => {
    expect(panned({ from: 1000, to: 3000 }, -0.25)).toEqual({ from: 500, to: 2500 });
    expect(around({ from: 0, to: 1000 }, 5000)).toEqual({ from: 4500, to: 5500 });
  });

  it.each([
    ['10:42', new Date(2026, 10, 21, 10, 42).getTime()],
    ['23:15:09', new Date(2026, 10, 20, 23, 15, 9).getTime()],
    ['15m ago', NOW - 900e3],
    ['-2 h', NOW - 7200e3],
    ['2026-11-20 15:54', new Date(2026, 10, 20, 15, 54).getTime()],
    ['2026-11-20T15:54:41Z', Date.UTC(2026, 10, 20, 15, 54, 41)],
    ['2026-11-20', new Date(2026, 10, 20).getTime()],
    ['25:00', null],
    ['tomorrow', null],
    ['2026-13-40 10:00', null],
  ])('reads %s', (text, wanted) => {
    expect(parseTime(text, NOW)).toBe(wanted);
  });

  it('shows marks that would overlap as one', () => {
    const marks = [{ at: at(0) }, { at: at(1) }, { at: at(60) }];
    expect(grouped(marks, (time) => (time - NOW) / 100, 22).map((one) => one.marks.length)).toEqual([2, 1]);
  });
});

describe('the lanes', () => {
  const run = (n: number): RunSummary => ({
    id: `etl@${n}`, job: 'etl', fire_at: at(0), kind: 'cron', state: 'running', attempt: 1, max_attempts: 1, fence: n, node: 'a#1', started_at: at(0), ended_at: null,
    lateness_ms: 0, duration_ms: null, outcome: null, reason: null, error: null, attempts: [], dead: false,
  });

  it('are at most so many rows tall, and say how many are left out', () => {
    const { lanes, rows } = layout(Array.from({ length: 20 }, (_, i) => run(i)), ['a', 'b'], { from: NOW, to: NOW + 60e3 }, 100, 12);
    expect(lanes.map((lane) => [lane.node, lane.rows, lane.folded, lane.bars.length])).toEqual([['a', 12, 8, 12], ['b', 1, 0, 0]]);
    expect(rows).toBe(13);
  });

  it('stack the next fires where they would overlap', () => {
    expect(stacked([0, 1, 2, 3, 20], 10, 3)).toEqual([0, 1, 2, 2, 0]);
  });
});

describe('the filters', () => {
  const job = (name: string, labels: Record<string, string> = {}) => ({ name, labels }) as unknown as JobSummary;
  const jobs = [job('etl-load', { team: 'data' }), job('etl-clean'), job('billing', { team: 'data' })];
  const runs = ['etl-load', 'etl-clean', 'billing', 'etl-deleted'].map((name) => ({ job: name }) as RunSummary);

  it('match parts of names and whole labels', () => {
    expect(matchingJobs(jobs, '', '')).toBeNull();
    const shown = (part: string, label: string) => matchingRuns(runs, matchingJobs(jobs, part, label), part, label).map((one) => one.job);
    expect(shown('ETL', '')).toEqual(['etl-load', 'etl-clean', 'etl-deleted']);
    expect(shown('', 'team=data')).toEqual(['etl-load', 'billing']);
    expect(shown('etl', 'team=data')).toEqual(['etl-load']);
    expect(shown('', '')).toHaveLength(4);
  });
});

describe('the parts of a lateness', () => {
  const part = (ms: number) => ({ ms, delay: 'sent' }) as LatePart;
  const late = (...lengths: number[]) => ({ due: at(0), until: at(9), started: true, lateness_ms: 0, parts: lengths.map(part) });

  it('fill the axis without gaps, and a short one can be seen', () => {
    const found = placed(late(1, 100_000, 0));
    expect(found.map((one) => one.left)).toEqual([0, found[0]!.width, found[0]!.width + found[1]!.width]);
    expect(found.reduce((sum, one) => sum + one.width, 0)).toBeCloseTo(1);
    expect(found[0]!.width).toBeGreaterThan(0.01);
    expect(placed(late())).toEqual([]);
  });
});
