// The messages of the websocket, named as in `cronflow/live`: a bounded snapshot, then a tick every second. A patch has
// absolute values, so a dropped tick does no harm. Dropped log lines are always marked.
import type { ClusterEvent, HealthCounts, Instant, LogLine, Maintenance, NodeState } from './types';

export type { ClusterEvent };

export const severityOf = (event: ClusterEvent) => event.severity;

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
  /** Runs per second. */
  rate: number;
  age_s: number;
}

export interface Quantiles {
  p50: number | null;
  p95: number | null;
  p99: number | null;
}

/** The latency of a server, or why it is unavailable. */
export type Server = { ms: number } | { error: string };

export interface Values {
  at: Instant;
  namespace: string;
  leader: string | null;
  lease_left_s: number | null;
  /** The duration of a freshly renewed lease. */
  lease_s: number;
  term: number;
  elected_at: Instant | null;
  /** At most 200; `nodes_more` counts the rest. */
  nodes: Node[];
  nodes_more: number;
  queue: { queued: number; in_flight: number; slots: number; capacity: number; open: number | null };
  /** Finished runs per second, in total (`ended`) and by state; empty before the second tick. */
  rates: Partial<Record<string, number>>;
  /** Over the last five minutes; empty before the first run. */
  latency: { lateness_ms?: Quantiles; duration_ms?: Quantiles };
  jobs: { total: number; active: number; paused: number; idle: number } | null;
  dead_letters: number | null;
  /** Jobs that need attention; null until they were counted. An API of 0.12 does not send it. */
  health?: HealthCounts | null;
  next: { job: string; at: Instant | null }[];
  breakers: { service: string; nodes: string[] }[];
  servers: { redis: Server; mongodb: Server };
  /** Null until it was read; an API of 0.9 does not send it. */
  maintenance?: Maintenance | null;
}

type Column = (number | null)[];

/** Ten minutes: one row per second for the cluster, one row every five seconds for each node. */
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
  /** The stream position, `<ms>-<n>`, from which a later connection resumes. */
  seq: string;
  doc: Values & { series: SentSeries };
}

export interface TickMessage {
  t: 'tick';
  seq: string;
  ts: Instant;
  patch: Partial<Values>;
  events: ClusterEvent[];
  /** `gap` is the number of lines missing before these; null means unknown. */
  logs: { topic: string; lines: LogLine[]; gap?: number | null }[];
  dropped: number;
}

export interface ErrorMessage {
  t: 'error';
  op: string;
  detail: string;
}

export type Message = SnapMessage | TickMessage;
