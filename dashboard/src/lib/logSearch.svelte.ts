// Searches the logs on the server, a moment after the last keystroke.
import { Resource } from './resource.svelte';
import type { LogLine } from './types';

const DEBOUNCE_MS = 250;

/** Call this during component initialization. `query` returns null if there is no search; `load` returns the oldest line first. */
export function searchLogs(query: () => string | null, load: () => Promise<LogLine[]>): () => readonly LogLine[] {
  const found = new Resource<LogLine[]>(load);
  const current = $derived(query());
  $effect(() => {
    if (current === null) return;
    const timer = setTimeout(() => void found.refresh({ clear: true }), DEBOUNCE_MS);
    return () => clearTimeout(timer);
  });
  return () => (current === null ? [] : (found.value ?? []));
}
