import { describe, expect, it } from 'vitest';
import { progressOf } from '../../src/lib/backfills';
import { cpus } from '../../src/lib/format';
import { endOf, holdText } from '../../src/lib/hold';
import { whyHref } from '../../src/lib/runIds';
import type { Backfill } from '../../src/lib/types';

const NOW = Date.parse('2026-11-23T12:00:00Z');
const MINUTE = 60_000;

const backfill = (fields: Partial<Backfill>): Backfill => ({
  id: 'sums~b1', job: 'sums', state: 'running', only: 'missing', first: '', last: '', rate: null, total: 100, first_instant: null, last_instant: null,
  least_ms: null, started: 0, open: 0, runs: {}, waiting: null, by: 'ada', created_at: '2026-11-23T11:50:00Z', ended_at: null, cancelled_by: null, reason: null, ...fields,
});

describe('the end of a pause or maintenance', () => {
  it('is a length from now, a local time, or none', () => {
    expect(endOf('4h', '', NOW + 400)).toBe('2026-11-23T16:00:00.000Z');
    expect(endOf('at', '2026-11-24T08:30', NOW)).toBe(new Date('2026-11-24T08:30').toISOString());
    expect([endOf('', '2026-11-24T08:30', NOW), endOf('at', '', NOW)]).toEqual([null, null]);
  });

  it('is shown with who began it, and without what is unknown', () => {
    const at = new Date(NOW - MINUTE).toISOString();
    expect(holdText({ at, by: 'ada', until: new Date(NOW + 90 * MINUTE).toISOString() }, NOW)).toMatch(/^since \S+ by ada, until .+ \(1 h 30 m left\)$/);
    expect(holdText({ at, by: null, until: null }, NOW)).toMatch(/^since [\d:]+$/);
    expect(holdText({ at, by: null, until: at }, NOW)).not.toContain('left');
  });
});

describe('the progress of a backfill', () => {
  it('counts what succeeded, what did not, what is open and what is to come', () => {
    const found = progressOf(backfill({ started: 40, open: 3, runs: { succeeded: 30, failed: 5, cancelled: 2, running: 3 } }), NOW);
    expect(found).toMatchObject({ succeeded: 30, others: 7, open: 3, left: 60, total: 100 });
    expect(progressOf(backfill({ state: 'cancelled', started: 40, open: 0, runs: { succeeded: 40 } }), NOW)).toMatchObject({ left: 0, end: null });
  });

  it('ends when the rest has run as fast as the runs before, but not faster than its rate', () => {
    const ten = { started: 11, open: 1, runs: { succeeded: 10, running: 1 } };
    expect(progressOf(backfill(ten), NOW).end).toBe(NOW + 90 * MINUTE);
    // 99 pauses of two minutes: 89 instants are left.
    expect(progressOf(backfill({ ...ten, least_ms: 99 * 2 * MINUTE }), NOW).end).toBe(NOW + 89 * 2 * MINUTE);
    expect(progressOf(backfill({ least_ms: 99 * MINUTE }), NOW).end).toBe(NOW + 100 * MINUTE);
  });

  it('is unknown while it waits or has just begun', () => {
    expect(progressOf(backfill({ started: 2, runs: { succeeded: 2 } }), NOW).end).toBeNull();
    expect(progressOf(backfill({ started: 50, runs: { succeeded: 50 }, waiting: 'the job is paused' }), NOW).end).toBeNull();
  });
});

it('a run that may not exist yet is explained on the page of its job', () => {
  expect(whyHref('etl.a@20261123T010500Z')).toBe('/jobs/etl.a?tab=why&instant=2026-11-23T01%3A05%3A00Z');
  expect(whyHref('etl@20261123T010500Z~b1')).toBe('/runs/etl%4020261123T010500Z~b1?tab=why');
});

it('CPUs have at most two decimals', () => {
  expect([0, 0.5, 4, 1.256].map(cpus)).toEqual(['0', '0.5', '4', '1.26']);
});
