// The URL is the state: it contains every view, filter and sort order, so a link shows the same thing to everybody.
import { carried, rangeIn } from './timeRange';
import { zone, type ZoneChoice } from './zone.svelte';

class Router {
  path = $state(location.pathname);
  query = $state.raw(new URLSearchParams(location.search));
  /** The time range of the last view that has one. */
  private range: [string, string][] = rangeIn(location.pathname, new URLSearchParams(location.search)) ?? [];
  /** Asks whether to leave a view with unsaved changes; null: nothing is unsaved. */
  guard: (() => Promise<boolean>) | null = null;

  constructor() {
    if (zone.choice !== 'local') this.showTimesIn(zone.choice, { keep: false });
    addEventListener('popstate', () => {
      if (this.guard === null || location.pathname === this.path) return this.read();
      // The browser has gone back already: return, and go back again if the user agrees.
      history.pushState(null, '', this.with({}));
      void this.leave(() => history.back());
    });
    document.addEventListener('click', (event) => {
      if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
      const link = (event.target as Element | null)?.closest?.('a');
      if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
      if (link.hash !== '' && link.pathname === location.pathname) return;
      event.preventDefault();
      this.go(link.pathname + link.search);
    });
  }

  go(address: string, options: { replace?: boolean } = {}): void {
    if (this.guard !== null && address.split('?')[0] !== this.path) return void this.leave(() => this.go(address, options));
    if (options.replace) history.replaceState(null, '', address);
    else history.pushState(null, '', this.carry(address));
    this.read();
  }

  /** A link to another view that keeps the instant at which the page is frozen, the time range and the zone. */
  carry(address: string): string {
    const url = new URL(address, location.origin);
    if (this.query.has('at') && !url.searchParams.has('at')) url.searchParams.set('at', this.get('at'));
    return carried(url.pathname + url.search, url.pathname === this.path ? [] : this.range, zone.choice === 'local' ? null : zone.choice);
  }

  /** The URL with some parameters changed; empty ones are removed. */
  with(changes: Record<string, string | null>): string {
    const next = new URLSearchParams(this.query);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === '') next.delete(name);
      else next.set(name, value);
    }
    const text = next.toString();
    return text === '' ? this.path : `${this.path}?${text}`;
  }

  /** Changes parameters without a new history entry. */
  set(changes: Record<string, string | null>): void {
    this.go(this.with(changes), { replace: true });
  }

  /** Chooses a zone; a link to this view then shows the same. The cron builder has a `tz` of its own. */
  showTimesIn(choice: ZoneChoice, { keep = true } = {}): void {
    if (keep) zone.choose(choice);
    if (this.path !== '/cron') this.set({ tz: choice === 'local' ? null : choice });
  }

  get(name: string): string {
    return this.query.get(name) ?? '';
  }

  private async leave(go: () => void): Promise<void> {
    if (!(await this.guard?.())) return;
    this.guard = null;
    go();
  }

  private read(): void {
    if (this.path !== location.pathname) this.path = location.pathname;
    this.query = new URLSearchParams(location.search);
    this.range = rangeIn(this.path, this.query) ?? this.range;
    zone.read();
  }
}

export const router = new Router();
