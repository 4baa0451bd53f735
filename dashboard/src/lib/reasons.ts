// Why a run failed, without the details that differ between runs. The rules match `cronflow/domain/failures.py`, so the
// groups have the same names as in `runs report`.
import type { RunSummary } from './types';

const MAX_LENGTH = 200;
// The order matters: patterns that contain numbers come before numbers.
const PARTS: [RegExp, string][] = [
  [/\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b/gi, '<id>'],
  [/\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?/g, '<time>'],
  [/\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b/g, '<address>'],
  [/\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b/g, '<address>'],
  [/\[[0-9a-f]*:[0-9a-f:]+\](?::\d+)?/gi, '<address>'],
  [/\b[a-z0-9-]+(?:\.[a-z0-9-]+)+:\d+\b/gi, '<address>'],
  [/\b0x[0-9a-f]+\b/gi, '<id>'],
  [/\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b/gi, '<id>'],
  [/(?<![\w<])-?\d+(?:[.,]\d+)*/g, '<n>'],
  [/(?<=[A-Za-z_#-])\d{2,}/g, '<n>'],
];

export function reasonOf(run: Pick<RunSummary, 'error' | 'outcome' | 'state'>): string {
  const line = (run.error ?? '').split('\n').find((one) => one.trim() !== '') ?? '';
  let text = line.trim().split(/\s+/).join(' ');
  for (const [pattern, name] of PARTS) text = text.replace(pattern, name);
  if (text.length > MAX_LENGTH) text = `${text.slice(0, MAX_LENGTH - 1)}…`;
  return text || (run.outcome ?? run.state);
}
