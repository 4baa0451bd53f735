// What the server finds for a search, asked a moment after the last key; nothing while nothing is searched for.
import { Resource } from './resource.svelte';
import type { LogLine } from './types';

const AFTER_MS = 250;

/** To be called while a component is made. `wanted` says what is searched for, null: nothing; lines come oldest first. */
export function searched(wanted: () => string | null, load: () => Promise<LogLine[]>): () => readonly LogLine[] {
  const found = new Resource<LogLine[]>(load);
  const asked = $derived(wanted());
  $effect(() => {
    if (asked === null) return;
    const timer = setTimeout(() => void found.refresh({ clear: true }), AFTER_MS);
    return () => clearTimeout(timer);
  });
  return () => (asked === null ? [] : (found.value ?? []));
}
