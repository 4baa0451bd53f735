// Which rows of a long list stand in the DOM: those in view, and a few on either side. Rows are of one height, so a
// million of them cost no more than sixty.

/** A browser gives up on elements beyond some 16 million pixels; a longer list scrolls in proportion. */
export const TALLEST = 8_000_000;
export const MOST_ROWS = 56;

export interface Window {
  first: number;
  last: number;
  /** Where the first row stands, in pixels from the top of the scrolled content. */
  offset: number;
  /** The height of the scrolled content. */
  height: number;
}

export function windowOf(scroll: number, view: number, row: number, rows: number, extra = 4): Window {
  const full = rows * row;
  const height = Math.min(full, TALLEST);
  if (rows === 0) return { first: 0, last: 0, offset: 0, height: 0 };
  const reach = Math.max(0, height - view);
  const at = Math.min(Math.max(0, scroll), reach);
  // In a list that is too tall, how far one has scrolled tells which share of the rows is above.
  const top = full > TALLEST ? (at / reach) * (full - view) : at;
  const first = Math.max(0, Math.floor(top / row) - extra);
  const last = Math.min(rows, first + MOST_ROWS, Math.ceil((top + view) / row) + extra);
  return { first, last, offset: at - (top - first * row), height };
}

/** Where to scroll so that a row is in view; the present place when it is already. */
export function reveal(index: number, scroll: number, view: number, row: number): number {
  const top = index * row;
  if (top < scroll) return top;
  return top + row > scroll + view ? top + row - view : scroll;
}

/** Tells which element shows which row: a row keeps the one it has, and a row that is new takes one whose row is gone,
 *  so that no element is made anew where every second all rows are others.
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
