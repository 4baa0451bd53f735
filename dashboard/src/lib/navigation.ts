// The views that this user may open in this cluster.
import { store } from './store.svelte';
import { roleFor } from './permissions';
import { SECTIONS, type Section } from './settings';
import { NAV, type View } from './views';

export function visibleViews(): View[] {
  return NAV.filter((view) => view.name !== 'chaos' || store.chaos);
}

/** The sections of the settings that this user may see. */
export function visibleSections(): Section[] {
  return SECTIONS.filter(({ needs }) => needs === null || store.may(roleFor(needs)));
}
