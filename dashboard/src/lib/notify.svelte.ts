// Tells of failed runs and of failovers while nobody looks at the page. Off until somebody asks for it in this browser.
import { runHref } from './actions';
import { router } from './router.svelte';
import type { ClusterEvent } from './stream';
import { ui } from './ui.svelte';

const KEPT = 'cronflow.notify';
/** What a page that was away is told at once is no news any more. */
const NEWS_MS = 60_000;
const TITLES: Readonly<Record<string, string>> = {
  runs_failed: 'Failed', runs_lost: 'Lost', leader_elected: 'Another node leads',
};

class Notify {
  on = $state(false);

  constructor() {
    this.on = localStorage.getItem(KEPT) === 'on' && permission() === 'granted';
  }

  async toggle(): Promise<void> {
    if (this.on) {
      this.keep(false);
      return;
    }
    if (permission() === 'default') await Notification.requestPermission();
    if (permission() !== 'granted') {
      ui.toast(
        permission() === null
          ? 'This browser has no notifications for pages such as this one'
          : 'This browser does not allow it: allow notifications in its settings for this page, then try again',
        { tone: 'bad' },
      );
      return;
    }
    if (show('CronFlow', 'Failed runs and failovers are told here while the page is hidden', 'on', '/')) this.keep(true);
    else ui.toast('This browser shows no notifications of pages', { tone: 'bad' });
  }

  tell(events: readonly ClusterEvent[], now: number): void {
    if (!this.on || !document.hidden) return;
    for (const event of events) {
      const title = TITLES[event.kind];
      if (title === undefined || now - Date.parse(event.at) > NEWS_MS) continue;
      const { job, run } = event.fields;
      // One of a job takes the place of the one before it: a storm of failures is no storm of notifications.
      show(typeof job === 'string' ? `${title}: ${job}` : title, event.text, `${event.kind} ${String(job ?? '')}`, typeof run === 'string' ? runHref(run) : '/');
    }
  }

  private keep(on: boolean): void {
    this.on = on;
    localStorage.setItem(KEPT, on ? 'on' : 'off');
  }
}

/** Null where there is no such thing: not every browser has them, and none for a page that came without encryption. */
function permission(): NotificationPermission | null {
  return 'Notification' in window ? Notification.permission : null;
}

/** False where pages may have the permission but not the means, as on Android. */
function show(title: string, body: string, tag: string, href: string): boolean {
  try {
    const shown = new Notification(title, { body, tag, icon: '/favicon.svg' });
    shown.onclick = () => {
      window.focus();
      router.go(href);
      shown.close();
    };
    return true;
  } catch (error) {
    if (error instanceof TypeError) return false;
    throw error;
  }
}

export const notify = new Notify();
