// The views that this user may open in this cluster.
import { store } from './store.svelte';
import { NAV, type View } from './views';

export function visibleViews(): View[] {
  return NAV.filter((view) => view.name !== 'chaos' || store.chaos);
}
