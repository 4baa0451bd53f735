// How far a backfill is, and when it will probably end.
import type { Backfill } from './types';

export interface Progress {
  succeeded: number;
  /** Ended without success. */
  others: number;
  open: number;
  /** Instants without a run yet; 0 once it is cancelled. */
  left: number;
  total: number;
  /** When the last run will probably end, in milliseconds since 1970; null while that is unknown. */
  end: number | null;
}

/** Fewer ended runs than this say nothing about the rest. */
const LEAST_ENDED = 3;

export function progressOf(backfill: Backfill, now: number): Progress {
  const { total, started, open, runs, state } = backfill;
  const succeeded = runs.succeeded ?? 0;
  const ended = started - open;
  const left = state === 'running' ? Math.max(0, total - started) : 0;
  return { succeeded, others: ended - succeeded, open, left, total, end: state === 'running' && backfill.waiting === null ? endOf(backfill, ended, left, now) : null };
}

/** As fast as until now, but not faster than its rate allows. */
function endOf(backfill: Backfill, ended: number, left: number, now: number): number | null {
  const { total, created_at, least_ms } = backfill;
  // The first instant starts at once, so a rate spaces the others.
  const spaced = least_ms === null || total < 2 ? null : now + left * (least_ms / (total - 1));
  const passed = now - Date.parse(created_at);
  if (ended < LEAST_ENDED || passed <= 0) return spaced;
  return Math.max(spaced ?? 0, now + (total - ended) * (passed / ended));
}
