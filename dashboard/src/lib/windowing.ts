// Windowing for long lists: only the visible rows and a few on either side are in the DOM, so a million of them cost no more
// than sixty. All rows have the same height, except where lines wrap.

/** Browsers limit elements to about 16 million pixels; a taller list scrolls proportionally. */
export const MAX_HEIGHT = 8_000_000;
export const MAX_ROWS = 56;

export interface Window {
  first: number;
  last: number;
  /** The position of the first row, in pixels from the top of the scrolled content. */
  offset: number;
  /** The height of the scrolled content. */
  height: number;
}

export function windowOf(scroll: number, view: number, row: number, rows: number, extra = 4): Window {
  const full = rows * row;
  const height = Math.min(full, MAX_HEIGHT);
  if (rows === 0) return { first: 0, last: 0, offset: 0, height: 0 };
  const reach = Math.max(0, height - view);
  const at = Math.min(Math.max(0, scroll), reach);
  // In a list that is too tall, the scroll position is the share of rows above.
  const top = full > MAX_HEIGHT ? (at / reach) * (full - view) : at;
  const first = Math.max(0, Math.floor(top / row) - extra);
  const last = Math.min(rows, first + MAX_ROWS, Math.ceil((top + view) / row) + extra);
  return { first, last, offset: at - (top - first * row), height };
}

/** The same for rows of different heights: `tops` has the top of each row, and at its end the height of all rows. */
export function windowOfTops(scroll: number, view: number, tops: readonly number[], extra = 4): Window {
  const rows = tops.length - 1;
  const height = tops[rows] ?? 0;
  if (rows <= 0) return { first: 0, last: 0, offset: 0, height: 0 };
  const top = Math.min(Math.max(0, scroll), Math.max(0, height - view));
  const first = Math.max(0, rowAt(tops, top) - extra);
  const last = Math.min(rows, first + MAX_ROWS, rowAt(tops, top + view) + 1 + extra);
  return { first, last, offset: tops[first] ?? 0, height };
}

/** The row at a position. */
function rowAt(tops: readonly number[], at: number): number {
  let [low, high] = [0, tops.length - 2];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((tops[middle] ?? 0) <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The scroll position that shows a row; the current one if the row is visible already. */
export function reveal(index: number, scroll: number, view: number, row: number): number {
  const top = index * row;
  if (top < scroll) return top;
  return top + row > scroll + view ? top + row - view : scroll;
}

/** Assigns rows to elements: a row keeps its element, and a new row takes the element of a row that is gone. So no elements
 *  are created even if all rows change every second.
 */
export function recycler(): (ids: readonly string[]) => number[] {
  let before = new Map<string, number>();
  return (ids) => {
    const now = new Map<string, number>();
    for (const id of ids) {
      const had = before.get(id);
      if (had !== undefined) now.set(id, had);
    }
    const taken = new Set(now.values());
    let next = 0;
    const slots = ids.map((id) => {
      let slot = now.get(id);
      if (slot === undefined) {
        while (taken.has(next)) next += 1;
        slot = next++;
        now.set(id, slot);
      }
      return slot;
    });
    before = now;
    return slots;
  };
}
