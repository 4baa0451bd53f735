import { describe, expect, it } from 'vitest';
import { pieces, plain } from '../../src/lib/ansi';
import { reasonOf } from '../../src/lib/reasons';

describe('ANSI colours', () => {
  it('become classes', () => {
    expect(pieces('a \u001b[31;1mred\u001b[0m z')).toEqual([{ text: 'a ', class: '' }, { text: 'red', class: 'a-red a-bold' }, { text: ' z', class: '' }]);
  });
  it('leave no control sequences', () => {
    for (const text of ['\u001b[2J\u001b[Hx', '\u001b]0;title\u0007x', '\u001b]8;;http://evil\u001b\\x', 'x\u0000\u0007', '\u001b[38;5;196mx', '\u001b[48;2;1;2;3mx', '\u001bx']) {
      expect(plain(text)).toBe('x');
      expect(pieces(text).map((one) => one.text).join('')).toBe('x');
    }
  });
  it('treats markup as text', () => {
    expect(pieces('<b>x</b>')).toEqual([{ text: '<b>x</b>', class: '' }]);
  });
});

describe('the reason of a failure', () => {
  const reason = (error: string | null) => reasonOf({ error, outcome: 'error', state: 'failed' });
  it('leaves out details that differ between runs', () => {
    expect(reason('KeyError: 17 at 0xdeadbeef')).toBe(reason('KeyError: 4 at 0xbeef12'));
    expect(reason('refused by db-1.example.com:5432\n  File "x"')).toBe('refused by <address>');
    expect(reason('no user a.b@example.com on 2026-11-21T10:00:00Z')).toBe('no user <address> on <time>');
  });
  it('is the outcome if there is no error message', () => {
    expect(reason(null)).toBe('error');
  });
});
