import { describe, expect, it } from 'vitest';
import { layout, ticks } from '../../src/lib/gantt';
import { dash, halves, particles, PERIODS, ray, ring, sector } from '../../src/lib/geometry';
import { hasGap, mergeFirstPage } from '../../src/lib/mergeRuns';
import { MAX_ROWS, recycler, reveal, MAX_HEIGHT, windowOf } from '../../src/lib/windowing';
import { SMALL, World } from '../browser/world';

describe('a window over a long list', () => {
  it('never has more than sixty rows at any scroll position', () => {
    for (const rows of [0, 1, 10, 1000, 1_000_000]) {
      for (let scroll = 0; scroll <= rows * 44; scroll += Math.max(1, rows * 4)) {
        const { first, last } = windowOf(scroll, 4000, 44, rows);
        expect(last - first).toBeLessThanOrEqual(MAX_ROWS);
        expect(MAX_ROWS).toBeLessThan(60);
      }
    }
  });
  it('covers the visible part', () => {
    const { first, last, offset } = windowOf(4400, 900, 44, 5000);
    expect(first * 44).toBeLessThanOrEqual(4400);
    expect(last * 44).toBeGreaterThanOrEqual(5300);
    expect(offset).toBe(first * 44);
    const between = windowOf(4410, 900, 44, 5000, 0);
    expect([between.first, between.last]).toEqual([100, 121]);
  });
  it('has as many extra rows at the top as elsewhere', () => {
    expect(windowOf(0, 900, 44, 5000, 4).last).toBe(Math.ceil(900 / 44) + 4);
  });
  it('reaches the last of a million rows despite the height limit of browsers', () => {
    const { height } = windowOf(0, 900, 44, 1_000_000);
    expect(height).toBe(MAX_HEIGHT);
    expect(windowOf(height - 900, 900, 44, 1_000_000).last).toBe(1_000_000);
    expect(windowOf(0, 900, 44, 1_000_000).first).toBe(0);
  });
  it('scrolls no further than necessary to show a row', () => {
    expect(reveal(3, 0, 400, 44)).toBe(0);
    expect(reveal(0, 100, 400, 44)).toBe(0);
    expect(reveal(20, 0, 400, 44)).toBe(20 * 44 + 44 - 400);
  });
});

const world = new World(SMALL, () => 1_795_272_000_000);

describe('merging a reloaded first page', () => {
  const rows = world.recent(200).sort((a, b) => (a.fire_at + a.id < b.fire_at + b.id ? 1 : -1));
  it('returns null if nothing changed', () => {
    expect(mergeFirstPage(rows, rows.slice(0, 50))).toBeNull();
  });
  it('inserts new runs at the top and replaces changed ones', () => {
    const older = rows.slice(2);
    const changed = { ...older[4]!, state: 'cancelled' as const };
    const next = mergeFirstPage(older, [...rows.slice(0, 2), changed])!;
    expect(next.length).toBe(200);
    expect(next[6]?.state).toBe('cancelled');
    expect(next[7]).toBe(older[5]);
  });
  it('ignores runs below the last row', () => {
    expect(mergeFirstPage(rows.slice(0, 10), rows.slice(100, 110))).toBeNull();
  });
  it('inserts a run of the same second in its position', () => {
    const without = [...rows.slice(0, 3), ...rows.slice(4)];
    expect(mergeFirstPage(without, rows.slice(0, 10))?.map((run) => run.id)).toEqual(rows.map((run) => run.id));
  });
  it('detects that more runs are new than fit on the first page', () => {
    expect(hasGap(rows.slice(60), rows.slice(0, 50))).toBe(true);
    expect(hasGap(rows.slice(40), rows.slice(0, 50))).toBe(false);
  });
});

describe('the timeline', () => {
  const runs = world.recent(800);
  const span = { from: 1_795_271_700_000, to: 1_795_272_000_000 };
  const { lanes, rows, runs: shown } = layout(runs, ['idle-node'], span, 10);
  const bars = lanes.flatMap((lane) => lane.bars);
  it('does not let attempts overlap', () => {
    const by = new Map<string, typeof bars>();
    for (const bar of bars) by.set(`${bar.lane} ${bar.row}`, [...(by.get(`${bar.lane} ${bar.row}`) ?? []), bar]);
    for (const row of by.values()) {
      row.sort((a, b) => a.from - b.from);
      row.forEach((bar, i) => expect(bar.from).toBeGreaterThanOrEqual(row[i - 1]?.to ?? 0));
    }
  });
  it('has a lane for an idle node and a gap between two attempts', () => {
    expect(lanes.map((lane) => lane.node)).toContain('idle-node');
    expect(rows).toBe(lanes.reduce((sum, lane) => sum + lane.rows, 0));
    expect(bars.some((bar) => bar.kind === 'gap')).toBe(true);
  });
  it('leaves out runs outside the span and counts those inside', () => {
    expect(shown).toBe(runs.filter((run) => Date.parse(run.fire_at) < span.to && (run.ended_at === null || Date.parse(run.ended_at) > span.from)).length);
    expect(layout(runs, [], { from: 0, to: 1 }, 10)).toEqual({ lanes: [], rows: 0, runs: 0 });
  });
  it('leaves the end of running bars open, so that they need no new layout over time', () => {
    const open = runs.find((run) => run.state === 'running')!;
    expect(bars.find((bar) => bar.run === open.id && bar.kind === 'attempt' && bar.state === 'running')?.to).toBe(Infinity);
  });
  it('has round times on its axis', () => {
    expect(ticks(1000, 301_000, 900).every((tick) => tick % 30_000 === 0)).toBe(true);
  });
});

describe('the elements of visible rows', () => {
  it('stay with their row, and are reused for new rows', () => {
    const slots = recycler();
    expect(slots(['c', 'b', 'a'])).toEqual([0, 1, 2]);
    expect(slots(['d', 'c', 'b'])).toEqual([2, 0, 1]);
    expect(slots(['x', 'y', 'z']).sort()).toEqual([0, 1, 2]);
  });
  it('are no more than the maximum number of visible rows', () => {
    const slots = recycler();
    const used = new Set<number>();
    for (let n = 0; n < 200; n++) for (const slot of slots(Array.from({ length: 10 + (n % 7) }, (_, i) => `${n * 5 + i}`))) used.add(slot);
    expect(Math.max(...used)).toBeLessThan(16);
  });
  it('show one row each', () => {
    const slots = recycler();
    for (let n = 0; n < 50; n++) {
      const found = slots(Array.from({ length: 20 }, (_, i) => `${(n * 3 + i * 7) % 90}`));
      expect(new Set(found).size).toBe(found.length);
    }
  });
});

describe('the ring', () => {
  it('starts at the top with even spacing', () => {
    const [top, right] = ring(4, 10, { x: 0, y: 0 });
    expect(top?.y).toBeCloseTo(-10);
    expect(right?.x).toBeCloseTo(10);
  });
  it('draws at most a full circle', () => {
    expect(dash(3, 10)).toBe(dash(1, 10));
    expect(dash(-1, 10).startsWith('0.00')).toBe(true);
  });
  it('has few particles for any number of nodes and runs', () => {
    for (const n of [1, 3, 24, 100, 200]) {
      for (const rate of [0.01, 1, 1000]) {
        const found = particles(Array.from({ length: n }, (_, i) => ({ name: `n${i}`, rate })), 100, 36);
        expect(found.length).toBeGreaterThan(0);
        expect(found.length).toBeLessThanOrEqual(36);
        expect(new Set(found.map((one) => one.id)).size).toBe(found.length);
        expect(found.every((one) => PERIODS.includes(one.period) && one.offset >= 0 && one.offset <= one.period)).toBe(true);
      }
    }
    expect(particles([{ name: 'idle', rate: 0 }], 100, 36)).toEqual([]);
  });
  it('has a particle for each node in a small cluster', () => {
    const places = ring(3, 100, { x: 0, y: 0 });
    particles([0, 1, 2].map((i) => ({ name: `n${i}`, rate: 0.5 })), 100, 36).forEach((one, i) => {
      expect(one.dx).toBeCloseTo(places[i]!.x);
      expect(one.dy).toBeCloseTo(places[i]!.y);
      expect(one.period).toBe(2);
    });
  });
  it('shows a share as two rotated halves', () => {
    expect(halves(0)).toEqual([-180, 0]);
    expect(halves(0.25)).toEqual([-90, 0]);
    expect(halves(0.75)).toEqual([0, 90]);
    expect(halves(7)).toEqual([0, 180]);
  });
  it('draws rays outwards, starting at the top', () => {
    expect(ray(4, 0, 10, 20)).toBe('M0.0 -10.0L0.0 -20.0');
    expect(ray(4, 1, 10, 20)).toBe('M10.0 0.0L20.0 0.0');
  });
  it('finds the sector of a point', () => {
    ring(100, 10, { x: 0, y: 0 }).forEach((place, i) => expect(sector(100, place.x, place.y)).toBe(i));
  });
});
