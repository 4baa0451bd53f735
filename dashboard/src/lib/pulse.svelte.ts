// What has to be asked again when the stream says that something moved: at most every two seconds, never while the page
// is hidden or held still, and not at all in a cluster where nothing happens.
import { untrack } from 'svelte';
import { store } from './store.svelte';

const APART_MS = 2000;

/** An effect that calls `work` when a tick tells of runs that began or ended, `apart` milliseconds apart or more, and
 *  `after` times more when the last has ended, for what ended with it.
 */
export function pulse(work: () => unknown, { apart = APART_MS, after = 1 } = {}): () => void {
  let last = 0;
  let left = after;
  return () => {
    const values = store.values;
    if (values === null || document.hidden || store.held) return;
    untrack(() => {
      const now = Date.parse(values.at);
      const moves = (values.rates.ended ?? 0) > 0 || values.queue.in_flight > 0 || values.queue.queued > 0;
      if (moves) left = after;
      if ((!moves && left === 0) || now - last < apart) return;
      if (!moves) left -= 1;
      last = now;
      work();
    });
  };
}
