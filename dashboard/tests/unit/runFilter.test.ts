import { BY_URGENCY, RUN_STATES } from '../../src/lib/labels';
import { describe as group, expect, it } from 'vitest';
import { chosenColumns, columnsOf, CHOICES, DEFAULT, keepColumns } from '../../src/lib/runColumns';
import { bulkFilterOf, describe, filterOf, outcomeText, queryOf, rangeOf, selects } from '../../src/lib/runFilter';

const NOW = Date.parse('2026-11-21T12:00:00.400Z');
const of = (query: string) => filterOf((name) => new URLSearchParams(query).get(name) ?? '');

group('the filter in the URL', () => {
  it('selects nothing without parameters', () => {
    expect(selects(of('sort=oldest&cols=job'))).toBe(false);
    for (const one of ['job=a', 'q=a', 'label=a', 'kind=manual', 'state=failed', 'node=n', 'span=1h', 'from=2026-11-21T00:00:00Z']) expect(selects(of(one))).toBe(true);
  });
  it('becomes a query of the API', () => {
    expect(queryOf(of('q=etl&label=team=billing,tier&kind=schedule&state=failed,nonsense&node=n1&span=1h&sort=oldest'), NOW)).toEqual({
      job: null, q: 'etl', label: ['team=billing', 'tier'], kind: ['cron', 'interval', 'once'], state: ['failed'], node: 'n1', since: '2026-11-21T11:00:00.400Z', until: null, order: 'oldest',
    });
  });
  it('has two instants or a preset that moves with the clock', () => {
    expect(rangeOf(of('from=2026-11-20T00:00:00Z&to=2026-11-21T00:00:00Z'), NOW)).toEqual({ since: '2026-11-20T00:00:00.000Z', until: '2026-11-21T00:00:00.000Z' });
    expect(rangeOf(of('from=soon'), NOW)).toEqual({ since: null, until: null });
    expect(rangeOf(of('span=15m'), NOW + 60_000).since).toBe('2026-11-21T11:46:00.400Z');
  });
  it('is described in words', () => {
    expect(describe(of('q=etl&label=team=billing&kind=chain&state=failed,lost&node=n1&span=24h'), NOW)).toBe('job name contains etl · label team=billing · kind chain · failed or lost · node n1 · last 24 h');
    expect(describe(of('q=etl-*'), NOW)).toBe('job name matches etl-*');
    expect(describe(of('job=a&to=2025-11-21T12:00:00Z'), NOW)).toContain('2025');
  });
});

group('an action on all that match', () => {
  it('leaves out runs that fall due after they were counted', () => {
    expect(bulkFilterOf(of('q=etl'), ['failed', 'lost'], NOW)).toEqual({ q: 'etl', until: '2026-11-21T12:00:01.000Z' });
    expect(bulkFilterOf(of('span=1h&to='), ['failed'], NOW)).toEqual({ since: '2026-11-21T11:00:00.400Z', until: '2026-11-21T12:00:01.000Z' });
  });
  it('changes only states that it can change', () => {
    expect(bulkFilterOf(of('state=failed,running'), ['failed', 'lost'], NOW)?.state).toEqual(['failed']);
    expect(bulkFilterOf(of('state=running'), ['failed', 'lost'], NOW)).toBeNull();
  });
  it('reports what was left out and why', () => {
    expect(outcomeText('replayed', 1, [])).toBe('1 run replayed');
    expect(outcomeText('replayed', 12, [{ why: "there is no job 'a'" }])).toBe("12 runs replayed; 1 run left out (there is no job 'a')");
  });
});

group('the columns of runs', () => {
  const kept = new Map<string, string>();
  const storage = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value), removeItem: (key: string) => void kept.delete(key) };
  it('are those of the URL, then those that the browser has kept, then the default', () => {
    expect(chosenColumns('', storage)).toEqual(DEFAULT);
    expect(keepColumns(['id', 'job', 'state'], storage)).toBe('state,job,id');
    expect(chosenColumns('', storage)).toEqual(['state', 'job', 'id']);
    expect(chosenColumns('kind,nonsense', storage)).toEqual(['kind']);
    expect(keepColumns([...DEFAULT].reverse(), storage)).toBeNull();
    expect(chosenColumns('nonsense', storage)).toEqual(DEFAULT);
  });
  it('never need more room than the table has', () => {
    const all = columnsOf(CHOICES.map(([key]) => key));
    const least = (width: string) => Number(/\d+/.exec(width)?.[0]);
    for (let width = 560; width < 2000; width += 7) {
      const shown = all.filter((column) => (column.from ?? 0) <= width);
      expect(shown.reduce((sum, column) => sum + least(column.width) + 16, 42)).toBeLessThanOrEqual(width);
    }
    expect(all.filter((column) => (column.from ?? 0) <= 640).map((column) => column.key)).toEqual(['state', 'job', 'fire', 'error']);
  });
});

it('offers every state of a run', () => {
  expect([...BY_URGENCY].sort()).toEqual([...RUN_STATES].sort());
});
