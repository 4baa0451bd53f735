import { describe, expect, it } from 'vitest';
import { changesOf, startOf } from '../../src/lib/audit';

describe('an audit entry', () => {
  it('is shown as what differs, and as what there is for something new or deleted', () => {
    expect(changesOf({ before: { a: 1, b: [2], c: 3 }, after: { a: 1, b: [4] } })).toBe('b: [2] → [4], c: 3 → nothing');
    expect(changesOf({ before: null, after: { method: 'oidc' } })).toBe('method: "oidc"');
    expect(changesOf({ before: { session: 'x'.repeat(80) }, after: null })).toHaveLength(69);
    expect(changesOf({ before: null, after: null })).toBe('');
  });

  it('is read from the beginning of the period', () => {
    expect(startOf('24h', Date.UTC(2026, 10, 21))).toBe('2026-11-20T00:00:00.000Z');
    expect(startOf('', 0)).toBeNull();
  });
});
