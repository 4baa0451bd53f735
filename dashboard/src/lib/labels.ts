// The label, icon and colour of every state, so that a state looks the same everywhere.
import type { IconName } from '../ui/icons';
import type { JobHealth, JobState, NodeState, RunState, Schedule } from './types';

export interface Look {
  label: string;
  icon: IconName;
  /** A CSS variable without its dashes. */
  tone: string;
}

export const RUN: Record<RunState, Look> = {
  dispatched: { label: 'Dispatched', icon: 'send', tone: 'wait' },
  running: { label: 'Running', icon: 'play', tone: 'run' },
  retrying: { label: 'Retrying', icon: 'retry', tone: 'retry' },
  succeeded: { label: 'Succeeded', icon: 'check', tone: 'ok' },
  failed: { label: 'Failed', icon: 'cross', tone: 'bad' },
  cancelled: { label: 'Cancelled', icon: 'stop', tone: 'cancel' },
  skipped: { label: 'Skipped', icon: 'skip', tone: 'skip' },
  lost: { label: 'Lost', icon: 'lost', tone: 'lost' },
};

export const RUN_STATES = Object.keys(RUN) as RunState[];
/** What went wrong first, then what is open. */
export const BY_URGENCY: readonly RunState[] = ['failed', 'lost', 'retrying', 'running', 'dispatched', 'succeeded', 'cancelled', 'skipped'];
export const OPEN: ReadonlySet<RunState> = new Set<RunState>(['dispatched', 'running', 'retrying']);

export const JOB: Record<JobState, Look> = {
  active: { label: 'Active', icon: 'clock', tone: 'muted' },
  paused: { label: 'Paused', icon: 'pause', tone: 'retry' },
  disabled: { label: 'Disabled', icon: 'stop', tone: 'skip' },
  done: { label: 'Done', icon: 'check', tone: 'skip' },
  shadow: { label: 'Shadow', icon: 'copy', tone: 'muted' },
  by_hand: { label: 'Manual', icon: 'hand', tone: 'muted' },
};

/** The conditions of a job that need attention, the most urgent first. */
export const HEALTH: Record<JobHealth, Look> = {
  stuck: { label: 'Stuck', icon: 'warn', tone: 'bad' },
  overdue: { label: 'Overdue', icon: 'clock', tone: 'retry' },
  failing: { label: 'Failing', icon: 'cross', tone: 'bad' },
  paused: { label: 'Paused', icon: 'pause', tone: 'retry' },
  never_ran: { label: 'Never ran', icon: 'hand', tone: 'muted' },
};

export const NODE: Record<NodeState, Look> = {
  up: { label: 'Up', icon: 'check', tone: 'ok' },
  draining: { label: 'Draining', icon: 'drain', tone: 'retry' },
  stale: { label: 'Stale', icon: 'warn', tone: 'bad' },
};

/** The schedule as it was written; the server describes it in words. */
export function expression(schedule: Schedule | null): string {
  if (schedule === null) return 'manual';
  if (schedule.cron !== undefined) return schedule.cron;
  if (schedule.every !== undefined) {
    const every = typeof schedule.every === 'number' ? `${schedule.every}s` : schedule.every;
    return schedule.time ? `every ${every} at ${schedule.time}` : `every ${every}`;
  }
  return schedule.at === undefined ? '' : `once at ${schedule.at.replace('T', ' ').replace('Z', ' UTC')}`;
}

/** The share of a node's slots in use. */
export function loadOf(node: { slots: number; in_flight: number }): number {
  return node.slots > 0 ? node.in_flight / node.slots : 0;
}

export function toneOf(load: number): string {
  return load > 0.9 ? 'bad' : load > 0.7 ? 'retry' : 'ok';
}
