// What comes down the one socket, named as in `cronflow/live`: a bounded snapshot, then a tick a second. Values in a
// patch are absolute, so a tick that was dropped on the way does no harm; only log lines are never dropped without a word.
import type { ClusterEvent, Instant, LogLine, NodeState } from './types';

export type { ClusterEvent };

export interface Node {
  name: string;
  id: string;
  leads: boolean;
  state: NodeState;
  cpu: number;
  memory: number;
  lag_s: number;
  slots: number;
  in_flight: number;
  queued: number;
  /** Runs a second. */
  rate: number;
  age_s: number;
}

export interface Quantiles {
  p50: number | null;
  p95: number | null;
  p99: number | null;
}

/** A server that answers says how fast; one that does not says why. */
export type Server = { ms: number } | { error: string };

export interface Values {
  at: Instant;
  namespace: string;
  leader: string | null;
  lease_left_s: number | null;
  /** How long a lease lasts when it is renewed. */
  lease_s: number;
  term: number;
  elected_at: Instant | null;
  /** At most two hundred; `nodes_more` counts the others. */
  nodes: Node[];
  nodes_more: number;
  queue: { queued: number; in_flight: number; slots: number; room: number; open: number | null };
  /** Runs that ended a second, `ended` altogether and by state; empty before the second tick. */
  rates: Partial<Record<string, number>>;
  /** Of the last five minutes; empty before anything ran. */
  latency: { lateness_ms?: Quantiles; duration_ms?: Quantiles };
  jobs: { total: number; active: number; paused: number; idle: number } | null;
  dead_letters: number | null;
  next: { job: string; at: Instant | null }[];
  breakers: { service: string; nodes: string[] }[];
  servers: { redis: Server; mongodb: Server };
}

type Column = (number | null)[];

/** Ten minutes, a row a second; of the nodes a row every five seconds. */
export interface SentSeries {
  cluster: {
    at: Instant[];
    ended: Column;
    failed: Column;
    queued: Column;
    in_flight: Column;
    lateness_p50_ms: Column;
    lateness_p95_ms: Column;
    lateness_p99_ms: Column;
    duration_p50_ms: Column;
    duration_p95_ms: Column;
    duration_p99_ms: Column;
  };
  nodes: { at: Instant[]; by_name: Record<string, { cpu: Column; memory: Column; lag_s: Column; in_flight: Column }> };
}

export interface SnapMessage {
  t: 'snap';
  /** The place in the stream, `<ms>-<n>`: what a later hello goes on from. */
  seq: string;
  doc: Values & { series: SentSeries };
}

export interface TickMessage {
  t: 'tick';
  seq: string;
  ts: Instant;
  patch: Partial<Values>;
  events: ClusterEvent[];
  /** `gap`: so many lines are missing before these; null: nobody knows how many. */
  logs: { topic: string; lines: LogLine[]; gap?: number | null }[];
  dropped: number;
}

export interface ErrorMessage {
  t: 'error';
  op: string;
  detail: string;
}

export type Message = SnapMessage | TickMessage;
