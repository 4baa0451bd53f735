// Facts about a node: its events, what it can run, and whether other nodes have the same Apps.
import type { IconName } from '../ui/icons';
import type { ClusterEvent, NodeDetail, NodeWithRuns } from './types';

interface Mark {
  icon: IconName;
  tone: string;
}

const MARKS: Record<string, Mark> = {
  node_joined: { icon: 'play', tone: 'ok' },
  node_left: { icon: 'stop', tone: 'skip' },
  node_lost: { icon: 'lost', tone: 'bad' },
  node_draining: { icon: 'drain', tone: 'retry' },
  node_drained: { icon: 'drain', tone: 'skip' },
  node_undrained: { icon: 'check', tone: 'ok' },
  drain_deadline_passed: { icon: 'clock', tone: 'retry' },
  leader_elected: { icon: 'crown', tone: 'crown' },
  leader_stepped_down: { icon: 'crown', tone: 'skip' },
};
const TONES = { info: 'faint', warn: 'retry', error: 'bad' } as const;

/** The icon and colour of an event in the history of a node. */
export function markOf(event: ClusterEvent): Mark {
  return MARKS[event.kind] ?? { icon: event.severity === 'info' ? 'chevron' : 'warn', tone: TONES[event.severity] };
}

/** The events about a node, newest first: those that were loaded, and newer ones from the stream. */
export function eventsOf(node: string, live: readonly ClusterEvent[], loaded: readonly ClusterEvent[]): ClusterEvent[] {
  const known = new Set(loaded.map((event) => event.id));
  return [...live.filter((event) => event.fields.node === node && !known.has(event.id)), ...loaded];
}

/** What a node can run and what it cannot, each as a short text. */
export function abilities(can: NodeWithRuns['capabilities']): { text: string; able: boolean }[] {
  if (can === null) return [];
  return [
    { text: 'Shell commands', able: can.shell },
    { text: 'Secrets', able: can.secrets },
    { text: 'RabbitMQ', able: can.amqp },
  ];
}

/** By App: the other nodes that have it with the same jobs, and those that have it with other jobs. */
export function appsBeside(node: Pick<NodeDetail, 'name' | 'apps'>, all: readonly Pick<NodeDetail, 'name' | 'apps'>[]): { name: string; fingerprint: string; same: string[]; other: string[] }[] {
  const others = all.filter((one) => one.name !== node.name);
  return Object.entries(node.apps).map(([name, fingerprint]) => {
    const having = others.filter((one) => one.apps[name] !== undefined);
    const [same, other] = [true, false].map((wanted) => having.filter((one) => (one.apps[name] === fingerprint) === wanted).map((one) => one.name));
    return { name, fingerprint, same: same ?? [], other: other ?? [] };
  });
}
