// Keyboard shortcuts: `g` and a letter opens a view; the help lists the others. They are inactive while a field has the
// focus. A view registers its own for as long as it is mounted.
import { visibleViews } from './navigation';
import { router } from './router.svelte';
import { store } from './store.svelte';
import { theme } from './theme.svelte';
import { ui } from './ui.svelte';
import { localZone, zone } from './zone.svelte';

type Handler = () => void;
const handlers = new Map<string, Handler>();

/** Registers shortcuts; the returned function removes them. */
export function keys(bindings: Record<string, Handler>): () => void {
  for (const [key, handler] of Object.entries(bindings)) handlers.set(key, handler);
  return () => {
    for (const [key, handler] of Object.entries(bindings)) if (handlers.get(key) === handler) handlers.delete(key);
  };
}

export function listen(): () => void {
  let after = '';
  let timer: ReturnType<typeof setTimeout> | undefined;
  const down = (event: KeyboardEvent) => {
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === 'k') {
      event.preventDefault();
      if (store.me !== null) ui.palette = !ui.palette;
      return;
    }
    if (event.metaKey || event.ctrlKey || event.altKey || store.me === null) return;
    if (ui.palette || ui.help || ui.question !== null) return;
    const target = event.target as HTMLElement;
    if (target.closest('input, textarea, select, [contenteditable]')) return;
    if (after === 'g') {
      after = '';
      const view = visibleViews().find((found) => found.key === event.key);
      if (view?.href) {
        event.preventDefault();
        router.go(view.href);
      }
      return;
    }
    if (event.key === 'g') {
      after = 'g';
      clearTimeout(timer);
      timer = setTimeout(() => (after = ''), 1200);
      return;
    }
    const always: Record<string, Handler> = {
      '?': () => (ui.help = true),
      t: () => theme.toggle(),
      u: () => {
        router.showTimesIn(zone.next());
        ui.toast(`Showing ${zone.choice === 'local' ? `local time, ${localZone()}` : zone.choice === 'utc' ? 'UTC' : 'job time'}`, { tone: 'info' });
      },
      z: () => store.pauseView(!store.paused),
      '/': () => {
        const field = document.querySelector<HTMLInputElement>('main input[type=search]');
        if (field === null) ui.palette = true;
        else field.select();
      },
    };
    const handler = handlers.get(event.key) ?? always[event.key];
    if (handler === undefined) return;
    event.preventDefault();
    handler();
  };
  addEventListener('keydown', down);
  return () => removeEventListener('keydown', down);
}

export const help = (): { title: string; keys: [string, string][] }[] => [
  {
    title: 'Everywhere',
    keys: [
      ['Ctrl K', 'Find anything, run any action'],
      ['/', 'Search this view'],
      ['z', 'Pause or resume the view'],
      ['t', 'Switch theme'],
      ['u', 'Switch between local time, UTC and job time'],
      ['?', 'Show this help'],
    ],
  },
  { title: 'Go to', keys: visibleViews().map((view) => [`g ${view.key}`, view.title]) },
  {
    title: 'Lists',
    keys: [
      ['j  k', 'Next, previous row'],
      ['Enter', 'Open'],
      ['x', 'Select'],
    ],
  },
  {
    title: 'Jobs and runs',
    keys: [
      ['r', 'Run the job, replay the run'],
      ['p', 'Pause or resume the job'],
      ['c', 'Cancel the run'],
      ['f', 'Follow the log'],
    ],
  },
];
