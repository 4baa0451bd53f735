// How the parts of a run's lateness are shown: their names, colours and positions on the axis. Pure.
import type { Schemas } from './types';

export type LateStart = Schemas['LateStartSchema'];
export type LatePart = Schemas['LatePartSchema'];

export const DELAY: Record<LatePart['delay'], { label: string; tone: string }> = {
  no_leader: { label: 'No leader', tone: 'bad' },
  maintenance: { label: 'Maintenance', tone: 'retry' },
  waiting: { label: 'Waiting', tone: 'retry' },
  planning: { label: 'Planning', tone: 'accent' },
  placement: { label: 'Queue', tone: 'accent' },
  earlier_node: { label: 'Previous node', tone: 'lost' },
  lock: { label: 'Job lock', tone: 'cancel' },
  sent: { label: 'Sent to node', tone: 'wait' },
  slot: { label: 'No free slot', tone: 'run' },
  loop: { label: 'Event loop', tone: 'lost' },
  start: { label: 'Start', tone: 'ok' },
  node: { label: 'On the node', tone: 'wait' },
};

/** Every part gets at least this share of the axis, so that a short one between long ones stays visible. */
const LEAST = 0.012;

export interface Placed {
  part: LatePart;
  /** Shares of the axis, from 0 to 1. */
  left: number;
  width: number;
}

/** The parts on an axis of length 1. The shortest are widened, and the others shrink in proportion. */
export function placed(late: LateStart): Placed[] {
  const whole = late.parts.reduce((sum, part) => sum + part.ms, 0);
  if (whole === 0) return [];
  const widths = late.parts.map((part) => Math.max(LEAST, part.ms / whole));
  const total = widths.reduce((sum, width) => sum + width, 0);
  let left = 0;
  return late.parts.map((part, i) => {
    const width = widths[i]! / total;
    const found = { part, left, width };
    left += width;
    return found;
  });
}
