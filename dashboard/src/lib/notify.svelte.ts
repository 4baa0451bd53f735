// Browser notifications about failed runs and failovers while the page is hidden. Off by default, per browser.
import { runHref } from './links';
import { router } from './router.svelte';
import type { ClusterEvent } from './stream';
import { ui } from './ui.svelte';

const STORAGE_KEY = 'cronflow.notify';
/** Older events, replayed after a reconnect, are not notified. */
const MAX_AGE_MS = 60_000;
const TITLES: Readonly<Record<string, string>> = {
  runs_failed: 'Failed', runs_lost: 'Lost', leader_elected: 'New leader',
};

class Notify {
  on = $state(false);

  constructor() {
    this.on = localStorage.getItem(STORAGE_KEY) === 'on' && permission() === 'granted';
  }

  async toggle(): Promise<void> {
    if (this.on) {
      this.save(false);
      return;
    }
    if (!isSecureContext) {
      ui.toast('Browsers show notifications only for pages over HTTPS or on localhost', { tone: 'bad' });
      return;
    }
    if (permission() === 'default') await Notification.requestPermission();
    if (permission() !== 'granted') {
      ui.toast(
        permission() === null
          ? 'This browser does not support notifications'
          : 'Notifications are blocked. Allow them for this page in the browser settings, then try again.',
        { tone: 'bad' },
      );
      return;
    }
    if (notification('CronFlow', 'You will be notified of failed runs and failovers while the page is hidden.', 'on', '/')) this.save(true);
    else ui.toast('This browser cannot show notifications from web pages', { tone: 'bad' });
  }

  show(events: readonly ClusterEvent[], now: number): void {
    if (!this.on || !document.hidden) return;
    for (const event of events) {
      const title = TITLES[event.kind];
      if (title === undefined || now - Date.parse(event.at) > MAX_AGE_MS) continue;
      const { job, run } = event.fields;
      // The tag makes a notification replace the previous one of the same job, so a burst of failures shows only one.
      notification(typeof job === 'string' ? `${title}: ${job}` : title, event.text, `${event.kind} ${String(job ?? '')}`, typeof run === 'string' ? runHref(run) : '/');
    }
  }

  private save(on: boolean): void {
    this.on = on;
    localStorage.setItem(STORAGE_KEY, on ? 'on' : 'off');
  }
}

/** Null if this browser does not support notifications. */
function permission(): NotificationPermission | null {
  return 'Notification' in window ? Notification.permission : null;
}

/** Returns false where the permission exists but the constructor does not, for example on Android. */
function notification(title: string, body: string, tag: string, href: string): boolean {
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
