import { roleFor, type Action } from './permissions';
import { store } from './store.svelte';

/** Whether the user may do this, for all jobs or for one. */
export function may(action: Action, job: string | null = null): boolean {
  return store.may(roleFor(action), job);
}
