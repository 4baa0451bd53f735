// The difference of two runs: their facts side by side, and their logs line by line. Pure.
import { bytes, clockMs, duration } from './format';
import { RUN } from './labels';
import type { Attempt, RunDetail } from './types';

export interface Fact {
  name: string;
  a: string;
  b: string;
  differs: boolean;
}

const nameOf = (node: string | null) => node?.split('#')[0] ?? '–';
const json = (value: unknown) => (value === null || value === undefined ? '–' : JSON.stringify(value, null, 1));

function tries(attempts: readonly Attempt[]): string {
  return attempts.length === 0 ? '–' : attempts.map((one) => `${one.n}: ${one.outcome} on ${nameOf(one.node)}, ${duration(one.duration_ms)}`).join('\n');
}

function used(attempts: readonly Attempt[]): [cpu: string, memory: string] {
  const last = attempts.at(-1);
  return [last?.cpu_s === null || last === undefined ? 'not recorded' : duration(last.cpu_s * 1000), last?.memory === null || last === undefined ? 'not recorded' : bytes(last.memory)];
}

/** The facts of two runs, in the order in which a person compares them. Times differ between any two runs, so they are
 *  shown but never count as a difference.
 */
export function facts(a: RunDetail, b: RunDetail): Fact[] {
  const fact = (name: string, of: (run: RunDetail) => string, counts = true): Fact => {
    const [left, right] = [of(a), of(b)];
    return { name, a: left, b: right, differs: counts && left !== right };
  };
  return [
    fact('State', (run) => RUN[run.state].label),
    fact('Kind', (run) => run.kind),
    fact('Due', (run) => run.fire_at, false),
    fact('Version', (run) => String(run.ver)),
    fact('Arguments', (run) => json(run.args)),
    fact('Node', (run) => nameOf(run.node)),
    fact('Term', (run) => String(run.term)),
    fact('Started', (run) => clockMs(run.started_at), false),
    fact('Lateness', (run) => duration(run.lateness_ms)),
    fact('Duration', (run) => duration(run.duration_ms)),
    fact('Attempts', (run) => tries(run.attempts)),
    fact('CPU of the last attempt', (run) => used(run.attempts)[0]),
    fact('Memory of the last attempt', (run) => used(run.attempts)[1]),
    fact('Result', (run) => (run.result_size === null ? json(run.result) : `large, ${bytes(run.result_size)}`)),
    fact('Error', (run) => run.error ?? '–'),
    fact('Reason', (run) => run.reason ?? '–'),
  ];
}

export interface DiffLine {
  text: string;
  /** In which of the two. */
  in: 'both' | 'a' | 'b';
}

const MOST_LINES = 600;

/** The lines of two logs in one order: those that both have, and those that only one has. */
export function diffLines(a: readonly string[], b: readonly string[]): DiffLine[] {
  const [x, y] = [a.slice(0, MOST_LINES), b.slice(0, MOST_LINES)];
  // The length of the longest common part of the rests from i and j.
  const longest = Array.from({ length: x.length + 1 }, () => new Uint16Array(y.length + 1));
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1; j >= 0; j--) longest[i]![j] = x[i] === y[j] ? longest[i + 1]![j + 1]! + 1 : Math.max(longest[i + 1]![j]!, longest[i]![j + 1]!);
  }
  const found: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && x[i] === y[j]) {
      found.push({ text: x[i]!, in: 'both' });
      i += 1;
      j += 1;
    } else if (j >= y.length || (i < x.length && longest[i + 1]![j]! >= longest[i]![j + 1]!)) found.push({ text: x[i++]!, in: 'a' });
    else found.push({ text: y[j++]!, in: 'b' });
  }
  return found;
}
