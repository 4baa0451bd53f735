// The YAML of a job or a calendar, as text that a person edits. A change of the document changes only the lines that it concerns, so
// comments and the order of keys stay.
import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument, stringify, visit, type Document, type ParsedNode } from 'yaml';
import { isDoc, same, type Doc, type Path } from './document';
import type { Json } from './types';

const FORMAT = { indent: 2, lineWidth: 100 } as const;
/** Words such as `yes`, which other readers take for booleans, are quoted. */
const READ = { version: '1.2', merge: true, compat: 'yaml-1.1', prettyErrors: false } as const;

export interface SyntaxProblem {
  line: number;
  what: string;
}

export interface Parsed {
  document: Doc | null;
  problem: SyntaxProblem | null;
}

function read(text: string): { tree: Document.Parsed<ParsedNode>; lines: LineCounter } {
  const lines = new LineCounter();
  return { tree: parseDocument(text, { ...READ, lineCounter: lines }), lines };
}

export function parse(text: string): Parsed {
  const { tree, lines } = read(text);
  const error = tree.errors[0];
  if (error !== undefined) return { document: null, problem: { line: lines.linePos(error.pos[0]).line, what: error.message } };
  let value: Json;
  try {
    value = (tree.toJS() ?? {}) as Json;
  } catch (found) {
    return { document: null, problem: { line: 1, what: (found as Error).message } };
  }
  return isDoc(value) ? { document: value, problem: null } : { document: null, problem: { line: 1, what: 'expected keys with values, such as description: some text' } };
}

export function write(document: Doc): string {
  return Object.keys(document).length === 0 ? '' : stringify(document, { ...READ, ...FORMAT, aliasDuplicateObjects: false });
}

/** The text with another document. */
export function rewrite(text: string, document: Doc): string {
  const { tree } = read(text);
  let hasAlias = false;
  visit(tree, { Alias: () => ((hasAlias = true), visit.BREAK) });
  if (tree.errors.length > 0 || hasAlias || !isMap(tree.contents)) return write(document);
  change(tree, [], tree.toJS() as Json, document);
  const changed = tree.toString(FORMAT);
  return same(parse(changed).document ?? undefined, document) ? changed : write(document);
}

function change(tree: Document, path: Path, before: Json | undefined, after: Json): void {
  if (same(before, after)) return;
  if (!isDoc(before) || !isDoc(after) || Object.keys(after).length === 0) {
    const node = tree.getIn(path, true);
    // Keeps the comment at the end of the line.
    if (isScalar(node) && !isDoc(after) && !Array.isArray(after) && typeof node.value === typeof after) {
      node.value = after;
      if (before === '') node.type = 'PLAIN'; // empty text has quotes, which other text does not need
    }
    else tree.setIn(path, tree.createNode(after, { aliasDuplicateObjects: false }));
    return;
  }
  for (const key of Object.keys(before)) if (!(key in after)) tree.deleteIn([...path, key]);
  for (const [key, value] of Object.entries(after)) change(tree, [...path, key], before[key], value);
}

/** The line of a path, or of the nearest thing around it that exists. */
export function lineOf(text: string, path: Path): number {
  const { tree, lines } = read(text);
  let node: unknown = tree.contents;
  let line = 1;
  for (const part of path) {
    if (isAlias(node)) node = node.resolve(tree);
    if (isMap(node)) {
      const pair = node.items.find((one) => isScalar(one.key) && String(one.key.value) === String(part));
      if (pair === undefined) return line;
      line = lines.linePos((pair.key as ParsedNode).range[0]).line;
      node = pair.value;
    } else if (isSeq(node)) {
      const item = node.items[Number(part)] as ParsedNode | undefined;
      if (item?.range == null) return line;
      line = lines.linePos(item.range[0]).line;
      node = item;
    } else return line;
  }
  return line;
}
