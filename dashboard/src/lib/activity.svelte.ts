// Reloads data while runs start or end, at most every two seconds. An idle cluster, a hidden page and a paused view cause no
// requests.
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
