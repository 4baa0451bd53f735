// The word, glyph and colour of every state: one table, so that a state looks the same wherever it stands.
import type { IconName } from '../ui/icons';
import type { JobState, NodeState, RunState } from './types';
import type { Schedule } from './types';

export interface Look {
  word: string;
  icon: IconName;
  /** A CSS variable without its dashes. */
  tone: string;
}

export const RUN: Record<RunState, Look> = {
  dispatched: { word: 'Dispatched', icon: 'send', tone: 'wait' },
  running: { word: 'Running', icon: 'play', tone: 'run' },
  retrying: { word: 'Retrying', icon: 'retry', tone: 'retry' },
  succeeded: { word: 'Succeeded', icon: 'check', tone: 'ok' },
  failed: { word: 'Failed', icon: 'cross', tone: 'bad' },
  cancelled: { word: 'Cancelled', icon: 'stop', tone: 'cancel' },
  skipped: { word: 'Skipped', icon: 'skip', tone: 'skip' },
  lost: { word: 'Lost', icon: 'lost', tone: 'lost' },
};

export const RUN_STATES = Object.keys(RUN) as RunState[];
export const OPEN: ReadonlySet<RunState> = new Set<RunState>(['dispatched', 'running', 'retrying']);

export const JOB: Record<JobState, Look> = {
  active: { word: 'Active', icon: 'clock', tone: 'muted' },
  paused: { word: 'Paused', icon: 'pause', tone: 'retry' },
  disabled: { word: 'Disabled', icon: 'stop', tone: 'skip' },
  done: { word: 'Done', icon: 'check', tone: 'skip' },
  by_hand: { word: 'By hand', icon: 'hand', tone: 'muted' },
};

export const NODE: Record<NodeState, Look> = {
  up: { word: 'Up', icon: 'check', tone: 'ok' },
  draining: { word: 'Draining', icon: 'drain', tone: 'retry' },
  stale: { word: 'Stale', icon: 'warn', tone: 'bad' },
};

/** The expression itself; its words are the server's business. */
export function expression(schedule: Schedule | null): string {
  if (schedule === null) return 'by hand';
  if (schedule.cron !== undefined) return schedule.cron;
  if (schedule.every !== undefined) {
    const every = typeof schedule.every === 'number' ? `${schedule.every}s` : schedule.every;
    return schedule.time ? `every ${every} at ${schedule.time}` : `every ${every}`;
  }
  return schedule.at === undefined ? '' : `once at ${schedule.at.replace('T', ' ').replace('Z', ' UTC')}`;
}

/** Which share of its slots a node uses. */
export function loadOf(node: { slots: number; in_flight: number }): number {
  return node.slots > 0 ? node.in_flight / node.slots : 0;
}

export function toneOf(load: number): string {
  return load > 0.9 ? 'bad' : load > 0.7 ? 'retry' : 'ok';
}
