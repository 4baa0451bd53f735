// The address is the state: every view, filter and sort is in it, so a link shows another person the same thing.
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

  /** The address with some of the parameters changed; empty ones leave it. */
  with(changes: Record<string, string | null>): string {
    const next = new URLSearchParams(this.query);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === '') next.delete(name);
      else next.set(name, value);
    }
    const text = next.toString();
    return text === '' ? this.path : `${this.path}?${text}`;
  }

  /** Goes there without another entry in the history. */
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
