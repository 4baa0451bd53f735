// How many rows a log line takes when it wraps. The font is monospaced and breaks anywhere, so counting is enough.
import { plain } from './ansi';

const TAB = 8;
const lengths = new Map<string, number>();
const KEPT = 5000;

/** The width of a line in characters; East Asian characters and emoji are two wide. */
export function widthOf(text: string): number {
  let found = lengths.get(text);
  if (found === undefined) {
    const shown = plain(text);
    found = shown.length;
    for (const character of shown) {
      if (character === '\t') found += TAB - 1;
      else if (character.length === 1 && character > '\u10ff') found += 1;
    }
    if (lengths.size >= KEPT) lengths.clear();
    lengths.set(text, found);
  }
  return found;
}

export function rowsOf(text: string, columns: number): number {
  return Math.max(1, Math.ceil(widthOf(text) / Math.max(8, columns)));
}
