// The columns of tables of runs: which ones are chosen, and which of those fit. Pure, except for what the browser keeps.
import type { Column } from '../ui/Table.svelte';

interface RunColumn {
  key: string;
  title: string;
  /** The share of the width that is left, and the least width in pixels. */
  share: number;
  min: number;
  end?: boolean;
  /** Columns with a low rank give way last. */
  rank: number;
}

const COLUMNS: readonly RunColumn[] = [
  { key: 'state', title: 'State', share: 0, min: 116, rank: 0 },
  { key: 'job', title: 'Job', share: 2, min: 140, rank: 0 },
  { key: 'fire', title: 'Due', share: 1, min: 140, rank: 0 },
  { key: 'kind', title: 'Kind', share: 0, min: 72, rank: 6 },
  { key: 'node', title: 'Node', share: 1, min: 80, rank: 3 },
  { key: 'attempt', title: 'Attempt', share: 0, min: 64, end: true, rank: 5 },
  { key: 'late', title: 'Late', share: 0, min: 76, end: true, rank: 4 },
  { key: 'started', title: 'Started', share: 1, min: 140, rank: 7 },
  { key: 'ended', title: 'Ended', share: 1, min: 140, rank: 7 },
  { key: 'took', title: 'Duration', share: 0, min: 76, end: true, rank: 2 },
  { key: 'error', title: 'Message', share: 2.4, min: 120, rank: 1 },
  { key: 'id', title: 'Run', share: 2, min: 180, rank: 8 },
];

/** Which columns can be chosen: key and title. */
export const CHOICES: readonly (readonly [string, string])[] = COLUMNS.map(({ key, title }) => [key, title] as const);

export const DEFAULT = ['state', 'job', 'fire', 'node', 'attempt', 'late', 'took', 'error'];

const GAP = 16;
const PADDING = 32 + 10;

/** The chosen columns, in the order of the table. A column is hidden if those of a lower rank leave it no room. */
export function columnsOf(chosen: readonly string[]): Column[] {
  const shown = COLUMNS.filter(({ key }) => chosen.includes(key));
  const from = new Map<string, number>();
  let used = PADDING;
  for (const one of [...shown].sort((a, b) => a.rank - b.rank)) {
    used += one.min + GAP;
    from.set(one.key, one.rank === 0 ? 0 : used);
  }
  return shown.map(({ key, title, share, min, end }) => ({
    key, title, width: share === 0 ? `${min}px` : `minmax(${min}px, ${share}fr)`, ...(end ? { end } : {}), from: from.get(key) ?? 0,
  }));
}

const STORAGE_KEY = 'cronflow.runs.columns';

/** The columns in the URL, else those that this browser has kept, else the default. Unknown ones are left out. */
export function chosenColumns(url: string, storage: Pick<Storage, 'getItem'> = localStorage): string[] {
  const text = url || storage.getItem(STORAGE_KEY) || '';
  const keys = CHOICES.map(([key]) => key);
  const found = text.split(',').filter((key) => keys.includes(key));
  return found.length === 0 ? DEFAULT : found;
}

/** Keeps the choice in this browser, and returns it as the URL has it; null: the default. */
export function keepColumns(chosen: readonly string[], storage: Pick<Storage, 'setItem' | 'removeItem'> = localStorage): string | null {
  const text = CHOICES.map(([key]) => key).filter((key) => chosen.includes(key)).join(',');
  if (text === DEFAULT.join(',')) {
    storage.removeItem(STORAGE_KEY);
    return null;
  }
  storage.setItem(STORAGE_KEY, text);
  return text;
}
