// Documents of jobs as plain JSON: paths in them, what differs, and a merge of two edits of the same document.
import type { Json } from './types';

export type Doc = { [key: string]: Json };
export type Path = readonly (string | number)[];

export function isDoc(value: Json | undefined): value is Doc {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function same(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((one, i) => same(one, b[i]));
  if (!isDoc(a) || !isDoc(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => key in b && same(a[key], b[key]));
}

export function getAt(value: Json | undefined, path: Path): Json | undefined {
  let found = value;
  for (const part of path) {
    if (found === null || typeof found !== 'object') return undefined;
    found = (found as { [key: string | number]: Json })[part];
  }
  return found;
}

/** A copy with another value at the path; undefined removes the key, or the entry of a list. */
export function setAt(value: Json | undefined, path: Path, next: Json | undefined): Json {
  const [part, ...rest] = path;
  if (part === undefined) return next ?? null;
  if (typeof part === 'number') {
    const list = Array.isArray(value) ? [...value] : [];
    if (rest.length > 0) list[part] = setAt(list[part], rest, next);
    else if (next === undefined) list.splice(part, 1);
    else list[part] = next;
    return list;
  }
  const doc: Doc = isDoc(value) ? { ...value } : {};
  if (rest.length > 0) doc[part] = setAt(doc[part], rest, next);
  else if (next === undefined) delete doc[part];
  else doc[part] = next;
  return doc;
}

/** A path as the server writes it, such as `after[0].job`. */
export function placeOf(path: Path): string {
  return path.map((part, i) => (typeof part === 'number' ? `[${part}]` : i === 0 ? part : `.${part}`)).join('');
}

/** Whether a place is at this one or inside of it. */
export function isWithin(place: string, outer: string): boolean {
  return place === outer || place.startsWith(`${outer}.`) || place.startsWith(`${outer}[`);
}

/** The path of a place. Keys of the document may have dots, so the longest key that exists wins. */
export function pathOf(document: Json, place: string): Path {
  const path: (string | number)[] = [];
  let value: Json | undefined = document;
  let rest = place;
  while (rest !== '') {
    const index = /^\[(\d+)\]\.?/.exec(rest);
    if (index !== null) {
      path.push(Number(index[1]));
      rest = rest.slice(index[0].length);
    } else {
      const keys = isDoc(value) ? Object.keys(value).filter((key) => isWithin(rest, key)) : [];
      const key = keys.sort((a, b) => b.length - a.length)[0] ?? /^[^.[]*/.exec(rest)![0];
      path.push(key);
      rest = rest.slice(key.length).replace(/^\./, '');
      if (key === '') break;
    }
    value = getAt(value, path.slice(-1));
  }
  return path;
}

export interface Merged {
  document: Doc;
  /** The places that both changed in different ways; the document has ours. */
  conflicts: string[];
}

/** Applies our changes of `base` to theirs, key by key. Lists are values. */
export function merge(base: Doc, ours: Doc, theirs: Doc, path: Path = []): Merged {
  const document: Doc = {};
  const conflicts: string[] = [];
  for (const key of [...new Set([...Object.keys(theirs), ...Object.keys(ours)])]) {
    const [before, mine, other] = [base[key], ours[key], theirs[key]];
    let value: Json | undefined;
    if (same(mine, before)) value = other;
    else if (same(other, before) || same(mine, other)) value = mine;
    else if (isDoc(mine) && isDoc(other)) {
      const inside = merge(isDoc(before) ? before : {}, mine, other, [...path, key]);
      value = inside.document;
      conflicts.push(...inside.conflicts);
    } else {
      value = mine;
      conflicts.push(placeOf([...path, key]));
    }
    if (value !== undefined) document[key] = value;
  }
  return { document, conflicts };
}

/** The type of an argument, which a form keeps while its value changes. */
export type Kind = 'text' | 'number' | 'boolean' | 'json';

export function kindOfValue(value: Json): Kind {
  if (typeof value === 'string') return 'text';
  if (typeof value === 'number') return 'number';
  return typeof value === 'boolean' ? 'boolean' : 'json';
}
