// The views that this user may open in this cluster.
import { store } from './store.svelte';
import { roleFor } from './permissions';
import { NAV, type View } from './views';

export function visibleViews(): View[] {
  return NAV.filter((view) => (view.name !== 'chaos' || store.chaos) && (view.name !== 'audit' || store.may(roleFor('audit'))));
}
