// The lines that differ between two texts, with the lines around them.

export interface DiffLine {
  sign: ' ' | '+' | '-';
  text: string;
}

/** Lines, or the number of equal lines that are left out. */
export type DiffPart = DiffLine | { skipped: number };

/** More lines than this on both sides are shown as removed and added. */
const MOST = 2000;

export function lineDiff(before: string, after: string, context = 3): DiffPart[] {
  return folded(compared(linesOf(before), linesOf(after)), context);
}

const linesOf = (text: string) => (text === '' ? [] : text.replace(/\n$/, '').split('\n'));

function compared(a: string[], b: string[]): DiffLine[] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const equal = (lines: string[]): DiffLine[] => lines.map((text) => ({ sign: ' ', text }));
  return [...equal(a.slice(0, start)), ...changed(a.slice(start, a.length - end), b.slice(start, b.length - end)), ...equal(a.slice(a.length - end))];
}

/** The longest common subsequence, by a table from the end. */
function changed(a: string[], b: string[]): DiffLine[] {
  const removed = (lines: string[]): DiffLine[] => lines.map((text) => ({ sign: '-', text }));
  const added = (lines: string[]): DiffLine[] => lines.map((text) => ({ sign: '+', text }));
  if (a.length * b.length === 0 || a.length > MOST || b.length > MOST) return [...removed(a), ...added(b)];
  const width = b.length + 1;
  const common = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * width + j] = a[i] === b[j] ? common[(i + 1) * width + j + 1]! + 1 : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!);
    }
  }
  const found: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      found.push({ sign: ' ', text: a[i]! });
      i++;
      j++;
    } else if (common[(i + 1) * width + j]! >= common[i * width + j + 1]!) found.push({ sign: '-', text: a[i++]! });
    else found.push({ sign: '+', text: b[j++]! });
  }
  return [...found, ...removed(a.slice(i)), ...added(b.slice(j))];
}

function folded(lines: DiffLine[], context: number): DiffPart[] {
  const near = new Set<number>();
  lines.forEach((line, i) => {
    if (line.sign !== ' ') for (let n = i - context; n <= i + context; n++) near.add(n);
  });
  const found: DiffPart[] = [];
  let skipped = 0;
  lines.forEach((line, i) => {
    if (near.has(i)) {
      if (skipped > 0) found.push({ skipped });
      skipped = 0;
      found.push(line);
    } else skipped++;
  });
  if (skipped > 0 && found.length > 0) found.push({ skipped });
  return found;
}
