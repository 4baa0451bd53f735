// What has to be asked again when the stream says that something moved: at most every two seconds, never while the page
// is hidden or held still, and not at all in a cluster where nothing happens.
import { untrack } from 'svelte';
import { store } from './store.svelte';

const APART_MS = 2000;

/** An effect that calls `work` when a tick tells of runs that began or ended, `apart` milliseconds apart or more. */
export function pulse(work: () => unknown, apart = APART_MS): () => void {
  let last = 0;
  let moving = true;
  return () => {
    const values = store.values;
    if (values === null || document.hidden || store.held) return;
    untrack(() => {
      const now = Date.parse(values.at);
      const moves = (values.rates.ended ?? 0) > 0 || values.queue.in_flight > 0 || values.queue.queued > 0;
      // Once more after the last movement, for what ended with it.
      if ((!moves && !moving) || now - last < apart) return;
      moving = moves;
      last = now;
      work();
    });
  };
}
