// The form of a job, read from the JSON Schema of job files: which input each key gets, its help and its default. The
// schema is generated from the server's documents, so a new key appears here automatically.
import file from '../../../cronflow/files/job-file.schema.json' with { type: 'json' };
import { isDoc, same, type Doc } from './document';
import type { Json } from './types';

export interface Node {
  $ref?: string;
  allOf?: Node[];
  anyOf?: Node[];
  type?: string;
  enum?: string[];
  const?: Json;
  items?: Node;
  properties?: Record<string, Node>;
  additionalProperties?: boolean | Node;
  required?: string[];
  description?: string;
  default?: Json;
}

const DEFINITIONS = file.definitions as unknown as Record<string, Node>;
const PREFIX = '#/definitions/';
export const JOB: Node = DEFINITIONS.JobInput!;

/** How keys are grouped. Keys that are in no other section are advanced. */
const GROUPED: { title: string; keys: string[] }[] = [
  { title: 'What to run', keys: ['name', 'description', 'run', 'success_exit_codes'] },
  { title: 'When', keys: ['schedule', 'misfire', 'enabled'] },
  { title: 'Retries and time limits', keys: ['retry', 'timeout', 'delivery', 'breaker', 'pause_after'] },
  { title: 'Overlap and limits', keys: ['overlap', 'concurrency', 'rate', 'priority'] },
  { title: 'Placement', keys: ['require', 'prefer', 'spread', 'apart_from', 'resources', 'run_on', 'shards'] },
  { title: 'Chains', keys: ['after', 'join'] },
  { title: 'Labels', keys: ['labels'] },
];

export interface Section {
  title: string;
  keys: string[];
}

export const SECTIONS: Section[] = (() => {
  const known = Object.keys(JOB.properties ?? {});
  const placed = new Set(GROUPED.flatMap((one) => one.keys));
  return [...GROUPED.map(({ title, keys }) => ({ title, keys: keys.filter((key) => known.includes(key)) })), { title: 'Advanced', keys: known.filter((key) => !placed.has(key)) }];
})();

/** The node that a reference stands for, with the description and default of the place that refers to it. */
export function resolve(node: Node): Node {
  const target = node.$ref ?? (node.allOf?.length === 1 ? node.allOf[0]!.$ref : undefined);
  if (target === undefined) return node;
  const { $ref: _, allOf: __, ...own } = node;
  return { ...resolve(DEFINITIONS[target.slice(PREFIX.length)]!), ...own };
}

function refName(node: Node): string | null {
  const target = node.$ref ?? node.allOf?.[0]?.$ref;
  return target === undefined ? null : target.slice(PREFIX.length).replace(/Input$/, '');
}

/** Keys whose words are no label. */
const NAMED: Record<string, string> = { tz: 'Time zone', dst: 'Clock changes', env: 'Environment', url: 'URL', http: 'HTTP', amqp: 'AMQP' };

/** `pause_after` as "Pause after". */
export function words(key: string): string {
  if (key in NAMED) return NAMED[key]!;
  const text = key.replace(/([a-z])([A-Z])/g, '$1 $2').replaceAll('_', ' ').toLowerCase();
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

export interface Choice {
  label: string;
  node: Node;
}

export type Field =
  | { kind: 'text' | 'number' | 'boolean' | 'map' | 'json' }
  | { kind: 'enum'; values: string[] }
  | { kind: 'group'; properties: Record<string, Node>; required: string[] }
  /** A list of simple values. */
  | { kind: 'list'; numbers: boolean }
  /** A list of mappings, or of alternatives. */
  | { kind: 'items'; item: Node }
  /** One of several alternatives; `optional`: or none. */
  | { kind: 'choices'; choices: Choice[]; optional: boolean };

const SCALARS = new Set(['string', 'number', 'integer']);
const isScalarNode = (node: Node) => node.enum === undefined && (node.const !== undefined || (node.type !== undefined && SCALARS.has(node.type)));

/** The input of a node. */
export function fieldOf(raw: Node): Field {
  const node = resolve(raw);
  if (node.anyOf !== undefined) return fieldOfAny(node.anyOf);
  if (node.enum !== undefined) return { kind: 'enum', values: node.enum };
  switch (node.type) {
    case 'boolean':
      return { kind: 'boolean' };
    case 'integer':
    case 'number':
      return { kind: 'number' };
    case 'array':
      return listOf(node.items ?? {});
    case 'object':
      if (node.properties !== undefined) return { kind: 'group', properties: node.properties, required: node.required ?? [] };
      return { kind: typeof node.additionalProperties === 'object' ? 'map' : 'json' };
    default:
      return { kind: 'text' };
  }
}

function listOf(item: Node): Field {
  const parts = resolve(item).anyOf?.map(resolve) ?? [resolve(item)];
  if (parts.every(isScalarNode)) return { kind: 'list', numbers: parts.some((one) => one.type !== 'string') };
  return { kind: 'items', item };
}

function fieldOfAny(alternatives: Node[]): Field {
  const optional = alternatives.some((one) => one.type === 'null');
  const others = alternatives.filter((one) => one.type !== 'null');
  const lists = others.filter((one) => resolve(one).type === 'array');
  // A list whose short form is a single entry is still a list.
  if (lists.length > 0) {
    const fields = lists.map((one) => listOf(resolve(one).items ?? {}));
    const found = fields.find((one) => one.kind === 'items');
    return found ?? { kind: 'list', numbers: fields.some((one) => one.kind === 'list' && one.numbers) };
  }
  if (others.every((one) => isScalarNode(resolve(one)))) {
    return { kind: others.every((one) => resolve(one).type !== 'string') ? 'number' : 'text' };
  }
  if (others.length === 1) {
    const only = fieldOf(others[0]!);
    if (only.kind !== 'group') return only;
  }
  return { kind: 'choices', choices: others.map((node) => ({ label: labelOf(node), node })), optional };
}

function labelOf(node: Node): string {
  const name = refName(node);
  if (name !== null) return name === 'Http' || name === 'Amqp' ? name.toUpperCase() : words(name);
  return 'Short form';
}

/** The choice that a value is one of: the one with the fewest unknown keys. -1: none. */
export function choiceOf(choices: readonly Choice[], value: Json | undefined): number {
  if (value === undefined || value === null) return -1;
  let best = -1;
  let fewest = Infinity;
  choices.forEach(({ node }, i) => {
    const { properties, required = [] } = resolve(node);
    if (isDoc(value) !== (properties !== undefined)) return;
    const unknown = properties === undefined || !isDoc(value) ? 0 : Object.keys(value).filter((key) => !(key in properties)).length + required.filter((key) => !(key in value)).length * 10;
    if (unknown < fewest) [best, fewest] = [i, unknown];
  });
  return best;
}

/** The initial value of a choice: its required keys, or the key that distinguishes it from the others, and the keys that it
 * shares with the old value. */
export function initial(choices: readonly Choice[], index: number, old: Json | undefined): Json {
  const node = resolve(choices[index]!.node);
  const { properties } = node;
  if (properties === undefined) return empty(node);
  const required = node.required ?? [];
  const others = choices.slice(0, index).flatMap((one) => Object.keys(resolve(one.node).properties ?? {}));
  const first = required.length > 0 ? required : index === 0 ? [] : Object.keys(properties).filter((key) => !others.includes(key)).slice(0, 1);
  const kept = isDoc(old) ? Object.entries(old).filter(([key]) => key in properties) : [];
  return { ...Object.fromEntries(first.map((key) => [key, empty(properties[key]!)])), ...Object.fromEntries(kept) };
}

/** The value that a new entry begins with. */
export function empty(raw: Node): Json {
  const node = resolve(raw);
  const field = fieldOf(node);
  switch (field.kind) {
    case 'enum':
      return field.values[0] ?? '';
    case 'number':
      return 0;
    case 'boolean':
      return false;
    case 'list':
    case 'items':
      return [];
    case 'map':
    case 'json':
      return {};
    case 'group':
      return Object.fromEntries(field.required.map((key) => [key, empty(field.properties[key]!)]));
    case 'choices':
      return empty(field.choices[0]!.node);
    case 'text':
      return '';
  }
}

/** The document without values that equal a default of the format. Values that default to a cluster setting stay. */
export function shorten(document: Doc): Doc {
  const short = shortened(document, JOB);
  const kept: Doc = { ...short, ...(isDoc(document.retry) ? { retry: withoutEmpty(document.retry) } : {}) };
  // Without it, the server would reject an instant that has passed.
  if (isDoc(document.schedule) && 'at' in document.schedule && document.misfire !== undefined) kept.misfire = document.misfire;
  return Object.fromEntries(Object.keys(document).flatMap((key) => (key in kept ? [[key, kept[key]!]] : [])));
}

function withoutEmpty(document: Doc): Doc {
  return Object.fromEntries(Object.entries(document).filter(([, value]) => value !== null && !(Array.isArray(value) && value.length === 0)));
}

function shortened(document: Doc, raw: Node): Doc {
  const node = resolve(raw);
  const short: Doc = {};
  for (const [key, value] of Object.entries(document)) {
    const property = node.properties?.[key];
    if (property === undefined) continue;
    const found = resolve(property);
    if (same(value, found.default) || (value === null && (found.default ?? null) === null)) continue;
    short[key] = inside(value, found);
  }
  return short;
}

function inside(value: Json, node: Node): Json {
  const field = fieldOf(node);
  if (Array.isArray(value)) return field.kind === 'items' ? value.map((one) => inside(one, field.item)) : value;
  if (!isDoc(value)) return value;
  if (field.kind === 'group') return shortened(value, node);
  if (field.kind !== 'choices') return value;
  const choice = field.choices[choiceOf(field.choices, value)];
  return choice === undefined ? value : shortened(value, choice.node);
}

/** The stored document of a job or a version, without its state in the cluster. */
export function definitionOf(job: object): Doc {
  return Object.fromEntries(Object.entries(job as Doc).filter(([key]) => key in (JOB.properties ?? {})));
}
