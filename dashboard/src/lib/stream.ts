// What comes down the one socket: a bounded snapshot, then a tick a second. Values in a patch are absolute, so a tick
// that was dropped on the way does no harm; only log lines are never dropped without a word.
import type { Instant, LogLine, NodeState, RunState } from './types';

export interface Node {
  name: string;
  id: string;
  roles: string[];
  state: NodeState;
  cpu: number;
  memory: number;
  slots: number;
  in_flight: number;
  queued: number;
  lag_ms: number | null;
  heartbeat_age_s: number;
  labels: Record<string, string>;
  version: string;
  host: string;
  pid: number;
  started_at: Instant | null;
}

export interface Percentiles {
  p50: number | null;
  p95: number | null;
  p99: number | null;
}

/** A service that answers says how fast; one that does not says why. */
export interface Service {
  ms: number | null;
  error: string | null;
}

export interface Queue {
  queued: number;
  in_flight: number;
  slots: number;
  room: number;
}

/** Runs a second, by what became of them. */
export interface Rates {
  dispatched: number;
  succeeded: number;
  failed: number;
  retried: number;
  skipped: number;
}

/** A run as a list shows it. */
export interface RunBrief {
  id: string;
  job: string;
  state: RunState;
  node: string | null;
  attempt: number;
  max_attempts: number;
  fire_at: Instant;
  dispatched_at: Instant | null;
  started_at: Instant | null;
  ended_at: Instant | null;
  lateness_ms: number | null;
  duration_ms: number | null;
  error: string | null;
}

export interface Upcoming {
  job: string;
  at: Instant;
}

export interface JobStats {
  recent: { id: string; state: RunState; duration_ms: number | null }[];
  success: number | null;
  p95_ms: number | null;
}

export interface Breaker {
  target: string;
  node: string | null;
  state: 'open' | 'half_open';
  until: Instant | null;
}

export interface Values {
  namespace: string;
  term: number;
  leader: string | null;
  fence: number | null;
  lease_left_s: number | null;
  lease_ttl_s: number;
  elected_at: Instant | null;
  maintenance: boolean;
  nodes: Node[];
  queue: Queue;
  rates: Rates;
  latency: { lateness_ms: Percentiles; duration_ms: Percentiles };
  services: { redis: Service; mongo: Service };
  jobs: { total: number; active: number; paused: number; disabled: number };
  dead: number;
  success_15m: number | null;
  breakers: Breaker[];
  upcoming: Upcoming[];
  failures: RunBrief[];
}

/** Columns of equal length, oldest first, a row a second; `at` in seconds since 1970. */
export interface Series {
  at: number[];
  dispatched: (number | null)[];
  succeeded: (number | null)[];
  failed: (number | null)[];
  retried: (number | null)[];
  late_p50: (number | null)[];
  late_p95: (number | null)[];
  late_p99: (number | null)[];
  run_p50: (number | null)[];
  run_p95: (number | null)[];
  run_p99: (number | null)[];
  queued: (number | null)[];
  in_flight: (number | null)[];
  nodes: Record<string, { cpu: (number | null)[]; memory: (number | null)[]; lag_ms: (number | null)[]; in_flight: (number | null)[] }>;
}

export interface ClusterEvent {
  id: string;
  at: Instant;
  kind: string;
  gravity: 'info' | 'warn' | 'error';
  source: string;
  text: string;
  [field: string]: unknown;
}

export interface Snapshot extends Values {
  series: Series;
  events: ClusterEvent[];
  runs: RunBrief[];
}

export interface SnapMessage {
  op: 'snap';
  seq: number;
  cursor: string;
  ts: Instant;
  doc: Snapshot;
}

export interface TickMessage {
  op: 'tick';
  seq: number;
  cursor: string;
  ts: Instant;
  patch: Partial<Values>;
  runs: RunBrief[];
  events: ClusterEvent[];
  logs: { topic: string; lines: LogLine[]; dropped: number }[];
  dropped: number;
}

export type Message = SnapMessage | TickMessage;
