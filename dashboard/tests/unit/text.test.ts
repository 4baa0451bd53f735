import { describe, expect, it } from 'vitest';
import { pieces, plain } from '../../src/lib/ansi';
import { messageOf, messageParts, reasonOf } from '../../src/lib/reasons';

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

  const failed = (error: string | null) => ({ error, outcome: 'error' as const, state: 'failed' as const });
  const marked = (...messages: (string | null)[]) => messageParts(messages.map(failed)).map((part) => (part.varies ? `[${part.text}]` : part.text)).join('');
  it('is shown as the newest message, in which only what differs is marked', () => {
    expect(marked('exit code 1: HTTP 503 for order 17', 'exit code 1: HTTP 503 for order 4')).toBe('exit code 1: HTTP 503 for order [17]');
    expect(marked('exit code 1: HTTP 503', 'exit code 1: HTTP 404')).toBe('exit code 1: HTTP [503]');
    expect(marked('exit code 1: HTTP 503', 'exit code 1: HTTP 503')).toBe('exit code 1: HTTP 503');
    expect(marked('user a@example.com at 0xdeadbeef on 2026-11-21T10:00:00Z', 'user b@example.com at 0xbeef12 on 2026-11-22')).toBe('user [a@example.com] at [0xdeadbeef] on [2026-11-21T10:00:00Z]');
    expect(marked('only one 17')).toBe('only one 17');
    expect(marked(null, null)).toBe('error');
    expect(marked()).toBe('');
  });
  it('has the same parts as its message, for any message', () => {
    const words = ['exit', 'code', '17', '-4.5', 'a-12', '0xff', 'deadbeef12', 'db-1.example.com:5432', '10.0.0.1:80', '[::1]:80', 'x@y.zz', '2026-11-21', '550e8400-e29b-41d4-a716-446655440000', '#33', 'v2', '<3'];
    for (let seed = 0; seed < 400; seed++) {
      const message = Array.from({ length: 6 }, (_, i) => words[(seed * 7 + i * i * (seed + 3)) % words.length]).join(seed % 3 === 0 ? ' ' : ': ');
      expect(messageParts([failed(message), failed(message)]).map((part) => part.text).join('')).toBe(message);
      expect(messageOf(failed(`\n  ${message}\nmore`))).toBe(message);
    }
  });
});
