// The URL is the state: it contains every view, filter and sort order, so a link shows the same thing to everybody.
class Router {
  path = $state(location.pathname);
  query = $state.raw(new URLSearchParams(location.search));

  constructor() {
    addEventListener('popstate', () => this.read());
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
    if (options.replace) history.replaceState(null, '', address);
    else history.pushState(null, '', address);
    this.read();
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

  get(name: string): string {
    return this.query.get(name) ?? '';
  }

  private read(): void {
    if (this.path !== location.pathname) this.path = location.pathname;
    this.query = new URLSearchParams(location.search);
  }
}

export const router = new Router();
