// The shapes that the API answers, named as in `cronflow/shapes`. A field is there for every object of its kind and is
// null where there is no value; instants are ISO 8601 in UTC, lengths say their unit in their name.

export type Instant = string;
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export type RunState =
  | 'dispatched' | 'running' | 'retrying'
  | 'succeeded' | 'failed' | 'cancelled' | 'skipped' | 'lost';
export type RunKind = 'cron' | 'interval' | 'once' | 'manual' | 'after' | 'backfill' | 'replay';
export type Outcome =
  | 'ok' | 'error' | 'permanent' | 'timeout' | 'cancelled' | 'skipped'
  | 'interrupted' | 'lost' | 'poison' | 'deferred' | 'declined' | 'drained';
export type JobState = 'active' | 'paused' | 'disabled' | 'done' | 'by_hand';
export type NodeState = 'up' | 'draining' | 'stale';
export type Role = 'viewer' | 'operator' | 'admin';
export type Level = 'debug' | 'info' | 'success' | 'warn' | 'error';

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

export interface Schedule {
  cron?: string;
  every?: string | number;
  at?: Instant;
  tz?: string;
  anchor?: Instant | null;
  time?: string | null;
  start?: Instant | null;
  end?: Instant | null;
}

export interface JobDocument {
  name: string;
  description: string;
  schedule: Schedule | null;
  run: { [key: string]: Json };
  retry: { [key: string]: Json };
  timeout: string | number;
  overlap: 'forbid' | 'queue' | 'allow' | 'replace';
  misfire: { policy: string; late_after: string | number; grace: string | number | null; max_catch_up: number };
  delivery: 'at_least_once' | 'at_most_once';
  start_guard: 'redis' | 'mongo';
  priority: number;
  require: Record<string, string>;
  labels: Record<string, string>;
  enabled: boolean;
}

export interface Covers {
  first: Instant;
  last: Instant;
  count: number;
}

export interface Job extends JobDocument {
  state: JobState;
  paused: boolean;
  next_fire: Instant | null;
  due_at: Instant | null;
  version: number;
  revision: number;
  term: number;
  created_at: Instant;
  updated_at: Instant;
}

export interface Version {
  version: number;
  at: Instant;
  by: string | null;
  state: 'active' | 'paused' | 'disabled' | 'deleted';
  since: Instant | null;
  job: JobDocument;
}

export interface Attempt {
  n: number;
  fence: number;
  node: string | null;
  started_at: Instant | null;
  ended_at: Instant;
  duration_ms: number | null;
  outcome: Outcome;
  error: string | null;
}

export interface Placement {
  node: string;
  rank: number | null;
  others: { node: string; reason?: string; rank?: number }[];
  more: number;
}

export interface Resolution {
  how: string;
  at: Instant;
  by: string | null;
  note: string | null;
  run: string | null;
}

export interface Run {
  id: string;
  job: string;
  fire_at: Instant;
  kind: RunKind;
  state: RunState;
  attempt: number;
  max_attempts: number;
  fence: number;
  term: number;
  node: string | null;
  created_at: Instant;
  dispatched_at: Instant | null;
  started_at: Instant | null;
  ended_at: Instant | null;
  check_at: Instant | null;
  lateness_ms: number | null;
  duration_ms: number | null;
  outcome: Outcome | null;
  reason: string | null;
  cancel_requested: boolean;
  cancel_reason: string | null;
  cancel_by: string | null;
  result: Json;
  error: string | null;
  args: { [key: string]: Json } | null;
  attempts: Attempt[];
  covers: Covers | null;
  placement: Placement | null;
  blocked_by: string | null;
  replay_of: string | null;
  dead: boolean;
  resolution: Resolution | null;
}

/** An outcome that came too late: its attempt had been fenced out. */
export interface Late {
  at: Instant;
  node: string;
  fence: number;
  outcome: Outcome;
  result: Json;
  error: string | null;
}

export interface RunDetail extends Run {
  late: Late[];
}

export interface LogLine {
  run: string;
  job: string;
  attempt: number;
  fence: number;
  n: number;
  at: Instant;
  level: Level;
  text: string;
}

export interface Failure {
  reason: string;
  count: number;
  open: number;
  first: Instant;
  last: Instant;
  jobs: Record<string, number>;
  example: string;
}

export interface Report {
  since: Instant;
  job: string | null;
  dead: number;
  failures: Failure[];
  more: boolean;
}

export interface Why {
  job: string;
  at: Instant;
  run: string | null;
  chain: ({ step: string } & { [key: string]: Json })[];
}

export interface Preview {
  words: string;
  fires: Instant[];
  notes: string[];
}

export interface Problem {
  type?: string;
  title: string;
  status: number;
  detail?: string;
  errors?: { field?: string; where?: string; problem?: string; what?: string; remedy?: string | null }[];
}

export interface Tokens {
  access_token: string;
  refresh_token: string;
  expires_in: number;
}
