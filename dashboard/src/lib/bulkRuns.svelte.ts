// Actions on all runs that match a filter: count them, ask for confirmation, and act page by page; the server bounds each
// call. Repeating a call is safe, so an action that was interrupted can be started again.
import { count, plural } from './format';
import { bulkFilterOf, describe, outcomeText, type RunFilter } from './runFilter';
import { store } from './store.svelte';
import type { RunState } from './types';
import { ui } from './ui.svelte';

export type BulkAction = 'retry' | 'ack' | 'cancel';

const DEAD: readonly RunState[] = ['failed', 'lost'];
const OPEN: readonly RunState[] = ['dispatched', 'running', 'retrying'];
/** How many runs are counted at most. */
const MOST_COUNTED = 10_000;
const COUNTED_AT_ONCE = 500;
const CHANGED_AT_ONCE = 100;

/** For each action: the states that it can change, and its words. */
export const BULK = {
  retry: { states: DEAD, noun: 'dead letter', verb: 'Replay', done: 'replayed', doing: 'Replaying', danger: false, body: 'Each one starts as a new run with the same arguments and is removed from the dead letters.' },
  ack: { states: DEAD, noun: 'dead letter', verb: 'Acknowledge', done: 'acknowledged', doing: 'Acknowledging', danger: false, body: 'They stay in the history and no longer count as open.' },
  cancel: { states: OPEN, noun: 'open run', verb: 'Cancel', done: 'cancelled', doing: 'Cancelling', danger: true, body: 'Running attempts are stopped, and there are no retries.' },
} as const;

type Filter = NonNullable<ReturnType<typeof bulkFilterOf>>;
interface Result {
  count: number;
  changed: number;
  skipped: { why: string }[];
  next: string | null;
}

async function call(action: BulkAction, filter: Filter, cursor: string | null, reason: string | null): Promise<Result> {
  const base = { filter, ...(cursor === null ? {} : { cursor }), ...(reason === null ? { dry_run: true, limit: COUNTED_AT_ONCE } : { limit: CHANGED_AT_ONCE }) };
  if (action === 'cancel') {
    const { items, count, next_cursor } = await store.api.post('/runs/cancel', { body: { ...base, reason: reason ?? '' } });
    return { count, changed: items.length, skipped: [], next: next_cursor };
  }
  const body = { ...base, note: reason ?? '' };
  if (action === 'ack') {
    const { items, count, next_cursor } = await store.api.post('/runs/ack', { body });
    return { count, changed: items.length, skipped: [], next: next_cursor };
  }
  const { items, skipped, count, next_cursor } = await store.api.post('/runs/retry', { body });
  return { count, changed: items.length, skipped, next: next_cursor };
}

class BulkRuns {
  /** What is under way, in words; '' if nothing is. */
  progress = $state('');
  private stopped = false;

  /** Stops after the current call. */
  stop(): void {
    this.stopped = true;
  }

  /** Returns whether anything was changed. */
  async act(action: BulkAction, wanted: RunFilter): Promise<boolean> {
    const words = BULK[action];
    const now = store.time();
    const filter = bulkFilterOf(wanted, words.states, now);
    if (filter === null || this.progress !== '') return false;
    this.stopped = false;
    try {
      const found = await ui.attempt(() => this.count(action, filter));
      if (found === null || this.stopped) return false;
      if (found.count === 0) {
        ui.toast(`No ${words.noun}s match`, { tone: 'info' });
        return false;
      }
      const number = found.more ? `more than ${count(found.count)} ${words.noun}s` : plural(found.count, words.noun);
      this.progress = '';
      const answer = await ui.confirm({
        title: `${words.verb} ${number}?`, confirm: words.verb === 'Cancel' ? 'Cancel runs' : words.verb, danger: words.danger, reason: true,
        body: `All matching runs: ${describe({ ...wanted, states: filter.state ?? [] }, now)}. ${words.body}`,
      });
      return answer !== null && (await this.change(action, filter, answer.reason, found.more ? null : found.count));
    } finally {
      this.progress = '';
    }
  }

  private async count(action: BulkAction, filter: Filter): Promise<{ count: number; more: boolean }> {
    let found = 0;
    let cursor: string | null = null;
    do {
      this.progress = found === 0 ? 'Counting' : `Counting: ${count(found)}`;
      const part: Result = await call(action, filter, cursor, null);
      found += part.count;
      cursor = part.next;
    } while (cursor !== null && found < MOST_COUNTED && !this.stopped);
    return { count: found, more: cursor !== null };
  }

  private async change(action: BulkAction, filter: Filter, reason: string, total: number | null): Promise<boolean> {
    const words = BULK[action];
    let looked = 0;
    let changed = 0;
    const skipped: { why: string }[] = [];
    let cursor: string | null = null;
    const report = (tone: 'ok' | 'info') => ui.toast(outcomeText(action === 'cancel' ? 'cancelled or being stopped' : words.done, changed, skipped), { tone });
    do {
      this.progress = `${words.doing}: ${count(looked)}${total === null ? '' : ` of ${count(total)}`}`;
      const part: Result | null = await ui.attempt(() => call(action, filter, cursor, reason));
      if (part === null) break;
      looked += part.count;
      changed += part.changed;
      skipped.push(...part.skipped);
      cursor = part.next;
    } while (cursor !== null && !this.stopped);
    if (changed > 0 || skipped.length > 0) report(skipped.length > 0 ? 'info' : 'ok');
    return changed > 0;
  }
}

export const bulkRuns = new BulkRuns();
