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

type Failed = Pick<RunSummary, 'error' | 'outcome' | 'state'>;

export function reasonOf(run: Failed): string {
  let text = messageOf(run);
  for (const [pattern, name] of PARTS) text = text.replace(pattern, name);
  if (text.length > MAX_LENGTH) text = `${text.slice(0, MAX_LENGTH - 1)}…`;
  return text;
}

/** The first line of the error; without one, the outcome. */
export function messageOf(run: Failed): string {
  const line = (run.error ?? '').split('\n').find((one) => one.trim() !== '') ?? '';
  return line.trim().split(/\s+/).join(' ') || (run.outcome ?? run.state);
}

export interface MessagePart {
  text: string;
  /** It differs between runs with the same reason. */
  varies: boolean;
}

/** How many runs of a group are compared. */
const MOST_COMPARED = 200;

/** The message of the first run, in parts: those that differ in another run of the same reason are marked. */
export function messageParts(runs: readonly Failed[]): MessagePart[] {
  const [first, ...others] = runs.slice(0, MOST_COMPARED).map((run) => split(messageOf(run)));
  if (first === undefined) return [];
  const found: MessagePart[] = [];
  for (const [i, { text, varies: may }] of first.entries()) {
    const varies = may && others.some((other) => other[i]?.text !== text);
    const last = found.at(-1);
    if (last !== undefined && last.varies === varies) last.text += text;
    else found.push({ text, varies });
  }
  return found;
}

/** A message in parts; those that the reason leaves out may vary. Messages with one reason have as many parts. */
function split(message: string): MessagePart[] {
  let parts: MessagePart[] = [{ text: message, varies: false }];
  for (const [pattern] of PARTS) parts = parts.flatMap((part) => (part.varies ? [part] : cut(part.text, pattern)));
  return parts;
}

function cut(text: string, pattern: RegExp): MessagePart[] {
  const parts: MessagePart[] = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    parts.push({ text: text.slice(end, match.index), varies: false }, { text: match[0], varies: true });
    end = match.index + match[0].length;
  }
  return [...parts, { text: text.slice(end), varies: false }];
}
