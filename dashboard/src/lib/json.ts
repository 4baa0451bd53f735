// JSON that a person edits: the value, or what is wrong and where.
import type { Json } from './types';

export type ReadJson = { value: Json; problem: null } | { value: null; problem: { line: number; what: string } };

export function readJson(text: string): ReadJson {
  try {
    return { value: JSON.parse(text) as Json, problem: null };
  } catch (error) {
    const { message } = error as Error;
    return { value: null, problem: { line: lineOfError(message, text), what: plain(message) } };
  }
}

/** Engines give the position in different ways, and none for a text that ends too early. */
function lineOfError(message: string, text: string): number {
  const line = /line (\d+)/.exec(message);
  if (line !== null) return Number(line[1]);
  const position = /position (\d+)/.exec(message);
  return text.slice(0, position === null ? undefined : Number(position[1])).split('\n').length;
}

function plain(message: string): string {
  return message.replace(/^JSON\.parse: /, '').replace(/ in JSON at position .*$/s, '').replace(/ at line \d+ column \d+.*$/s, '').replace(/, (\.\.\.)?".*$/s, '');
}
