// The views that this person may see in this cluster.
import { store } from './store.svelte';
import { NAV, type View } from './views';

export function offered(): View[] {
  return NAV.filter((view) => view.name !== 'chaos' || store.chaos);
}
