import { describe, expect, it } from 'vitest';
import { windowOfTops } from '../../src/lib/windowing';
import { rowsOf, widthOf } from '../../src/lib/wrapping';

describe('wrapped lines', () => {
  it.each([['', 1], ['a'.repeat(40), 1], ['a'.repeat(41), 2], ['a'.repeat(400), 10], ['漢'.repeat(21), 2], ['\u001b[31m' + 'a'.repeat(40) + '\u001b[0m', 1]])('%j', (text, rows) => {
    expect(rowsOf(text, 40)).toBe(rows);
  });
  it('count tabs as far as they can reach', () => {
    expect(widthOf('\ta')).toBe(9);
  });
});

describe('a window over rows of different heights', () => {
  const tops = [0, 10, 40, 60, 160, 170];
  it.each([[0, 0, 3], [40, 2, 4], [165, 3, 5], [9999, 3, 5], [-5, 0, 3]])('at %s', (scroll, first, last) => {
    expect(windowOfTops(scroll, 50, tops, 0)).toEqual({ first, last, offset: tops[first], height: 170 });
  });
  it('may be empty', () => {
    expect(windowOfTops(0, 50, [0])).toEqual({ first: 0, last: 0, offset: 0, height: 0 });
  });
});
