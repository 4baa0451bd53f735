import { describe, expect, it } from 'vitest';
import { isWithin, merge, pathOf, placeOf, setAt, type Doc } from '../../src/lib/document';
import { choiceOf, definitionOf, fieldOf, initial, JOB, resolve, SECTIONS, shorten, words, type Node } from '../../src/lib/jobSchema';
import { lineOf, parse, rewrite, write } from '../../src/lib/jobYaml';
import { lineDiff } from '../../src/lib/lineDiff';

const property = (key: string): Node => JOB.properties![key]!;
const choicesOf = (key: string) => {
  const field = fieldOf(property(key));
  if (field.kind !== 'choices') throw new Error(`${key} is ${field.kind}`);
  return field.choices;
};

describe('the form', () => {
  it('has every key of a job in one section', () => {
    const placed = SECTIONS.flatMap((section) => section.keys);
    expect([...placed].sort()).toEqual(Object.keys(JOB.properties!).sort());
  });

  it('has labels that people would say', () => {
    expect(['pause_after', 'tz', 'dst', 'url'].map(words)).toEqual(['Pause after', 'Time zone', 'Clock changes', 'URL']);
  });

  it('has an input for every key at any depth', () => {
    const seen = new Set<string>();
    const walk = (node: Node, path: string, depth = 0): void => {
      if (depth > 8) return;
      expect(resolve(node).description, path).toBeTruthy();
      const field = fieldOf(node);
      seen.add(`${path} ${field.kind}`);
      if (field.kind === 'group') for (const [key, inner] of Object.entries(field.properties)) walk(inner, `${path}.${key}`, depth + 1);
      if (field.kind === 'choices') for (const choice of field.choices) if (resolve(choice.node).properties !== undefined) walk(choice.node, `${path}/${choice.label}`, depth + 1);
    };
    for (const [key, node] of Object.entries(JOB.properties!)) walk(node, key);
    for (const line of ['name text', 'timeout text', 'priority number', 'spread boolean', 'overlap enum', 'require map', 'apart_from list', 'after items', 'concurrency items', 'schedule choices', 'run choices', 'retry choices', 'run/Python.args json', 'run/Argv.argv list', 'schedule/Cron.business_day list', 'schedule/Cron.dst group', 'pause_after number', 'breaker choices']) {
      expect(seen).toContain(line);
    }
  });

  it('recognises what kind of schedule, target and retry a document has', () => {
    const name = (key: string, value: Doc) => choicesOf(key)[choiceOf(choicesOf(key), value)]?.label;
    expect(name('schedule', { cron: '* * * * *', tz: 'UTC' })).toBe('Cron');
    expect(name('schedule', { every: '5m' })).toBe('Every');
    expect(name('schedule', { any: [] })).toBe('Any');
    expect(name('run', { http: { url: '' } })).toBe('HTTP');
    expect(name('retry', { max: 3 })).toBe('Backoff');
    expect(name('retry', { delays: ['1s'] })).toBe('Delays');
    expect(name('retry', { profile: 'fast' })).toBe('Profile');
    expect(choiceOf(choicesOf('misfire'), 'skip')).toBe(1);
  });

  it('begins another kind of schedule with the keys that both have', () => {
    const choices = choicesOf('schedule');
    expect(initial(choices, choices.findIndex((one) => one.label === 'Every'), { cron: '0 2 * * *', tz: 'Europe/Berlin' })).toEqual({ every: '', tz: 'Europe/Berlin' });
    const retries = choicesOf('retry');
    expect(initial(retries, retries.findIndex((one) => one.label === 'Profile'), undefined)).toEqual({ profile: 'default' });
  });

  it('leaves out what repeats a default, but not what settings complete', () => {
    const stored = {
      name: 'a', description: '', schedule: { cron: '0 2 * * *', tz: 'UTC', dst: { gap: 'next_valid', overlap: 'last' }, start: null, jitter: '0s', calendars: [] },
      run: { python: 'm:f', args: {}, process: false }, retry: { max: 3, initial: '30s', multiplier: 2, cap: '15m', jitter: false, rules: [], deadline: null },
      timeout: '1h', overlap: 'forbid', misfire: { policy: 'fire_once', late_after: '1m', grace: null, max_catch_up: 100 }, breaker: { threshold: 0.5, window: 20, cooldown: '10m' },
      labels: { team: '' }, enabled: true, pause_after: null, after: [{ job: 'b', on: 'succeeded', within: null }],
    };
    expect(shorten(stored)).toEqual({
      name: 'a', schedule: { cron: '0 2 * * *', tz: 'UTC', dst: { overlap: 'last' } }, run: { python: 'm:f' }, retry: { max: 3, initial: '30s', multiplier: 2, cap: '15m', jitter: false },
      breaker: {}, labels: { team: '' }, after: [{ job: 'b' }],
    });
    expect(shorten({ ...stored, schedule: { at: '2026-01-01T00:00:00Z' } }).misfire).toEqual(stored.misfire);
    expect(definitionOf({ name: 'a', run: {}, state: 'active', version: 3 })).toEqual({ name: 'a', run: {} });
  });
});

describe('YAML', () => {
  const text = '# nightly\nname: a # the name\nrun:\n  shell: |\n    echo 1\nlabels:\n  team: x\n';

  it('keeps comments when the form changes a key', () => {
    const { document } = parse(text);
    const next = setAt(setAt(document!, ['timeout'], '5m'), ['name'], 'b') as Doc;
    expect(rewrite(text, next)).toBe('# nightly\nname: b # the name\nrun:\n  shell: |\n    echo 1\nlabels:\n  team: x\ntimeout: 5m\n');
    expect(parse(rewrite(text, { name: 'a', run: { shell: 'x' } })).document).toEqual({ name: 'a', run: { shell: 'x' } });
  });

  it('writes aliases out rather than change two places', () => {
    const aliased = 'name: a\nrun: &r {shell: x}\nlabels: *r\n';
    expect(parse(rewrite(aliased, { name: 'a', run: { shell: 'y' }, labels: { shell: 'x' } })).document).toEqual({ name: 'a', run: { shell: 'y' }, labels: { shell: 'x' } });
  });

  it('finds the line of a problem and of a place', () => {
    expect(parse('name: a\nrun: {shell: x\n').problem?.line).toBe(3);
    expect(parse('- a\n').problem?.what).toContain('expected keys');
    expect(lineOf(text, ['run', 'shell'])).toBe(4);
    expect(lineOf(text, ['labels', 'nope'])).toBe(6);
    expect(lineOf(text, [])).toBe(1);
  });

  it('reads what a job file reads: times and dates stay text', () => {
    expect(parse('a: 2026-01-01\nb: 12:30\non: failed\nc: 1e3\n').document).toEqual({ a: '2026-01-01', b: '12:30', on: 'failed', c: 1000 });
    expect(write({ a: 'yes', b: '012' })).toBe('a: "yes"\nb: "012"\n');
    expect(write({ name: 'a', run: { shell: 'one\ntwo\n' } })).toBe('name: a\nrun:\n  shell: |\n    one\n    two\n');
  });
});

describe('documents', () => {
  it('locates places whose keys have dots', () => {
    expect(pathOf({ labels: { 'a.b': 'x' } }, 'labels.a.b')).toEqual(['labels', 'a.b']);
    expect(pathOf({ after: [{ job: 'x' }] }, 'after[0].job')).toEqual(['after', 0, 'job']);
    expect(placeOf(['after', 0, 'job'])).toBe('after[0].job');
    expect(isWithin('labelsx', 'labels')).toBe(false);
  });

  it('applies two edits, and reports what both changed', () => {
    const base = { name: 'a', timeout: '1h', schedule: { cron: '0 2 * * *', tz: 'UTC' }, labels: { x: '1' } };
    const ours = { name: 'a', timeout: '2h', schedule: { cron: '0 3 * * *', tz: 'UTC' } };
    const theirs = { name: 'a', timeout: '5m', schedule: { cron: '0 2 * * *', tz: 'Europe/Berlin' }, labels: { x: '1' }, priority: 7 };
    expect(merge(base, ours, theirs)).toEqual({ document: { name: 'a', timeout: '2h', schedule: { cron: '0 3 * * *', tz: 'Europe/Berlin' }, priority: 7 }, conflicts: ['timeout'] });
  });

  it('shows changed lines with their surroundings', () => {
    const shown = (before: string, after: string) => lineDiff(before, after, 1).map((part) => ('skipped' in part ? `…${part.skipped}` : part.sign + part.text));
    expect(shown('a\nb\nc\nd\ne\n', 'a\nb\nX\nd\ne\n')).toEqual(['…1', ' b', '-c', '+X', ' d', '…1']);
    expect(shown('', 'a\n')).toEqual(['+a']);
    expect(shown('a\n', 'a\n')).toEqual([]);
  });
});
