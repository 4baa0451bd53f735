// When to load data again: while runs start or end, at most every two seconds, or when dead letters change. An idle cluster,
// a hidden page and a paused view cause no requests.
import { untrack } from 'svelte';
import { store } from './store.svelte';

const INTERVAL_MS = 2000;

/** An effect that calls `work` when a tick shows activity, at most every `interval` milliseconds, and `extra` more times
 *  after the last run has ended.
 */
export function onActivity(work: () => unknown, { interval = INTERVAL_MS, extra = 1 } = {}): () => void {
  let last = 0;
  let left = extra;
  return () => {
    const values = store.values;
    if (values === null || document.hidden || store.paused) return;
    untrack(() => {
      const now = Date.parse(values.at);
      const active = (values.rates.ended ?? 0) > 0 || values.queue.in_flight > 0 || values.queue.queued > 0;
      if (active) left = extra;
      if ((!active && left === 0) || now - last < interval) return;
      if (!active) left -= 1;
      last = now;
      work();
    });
  };
}

/** An effect that calls `work` at first, when the number of dead letters changes, and after a new snapshot: by then others may
 *  be dead although their number is the same.
 */
export function onDeadLetters(work: () => unknown): () => void {
  let last = '';
  return () => {
    const now = `${store.values?.dead_letters} ${store.state.snapshots}`;
    if (now === last) return;
    last = now;
    untrack(work);
  };
}
