// Dark or light: the system's at first, then what was chosen, kept in this browser.
type Theme = 'dark' | 'light';

class Kept {
  value = $state<Theme>(document.documentElement.dataset.theme === 'light' ? 'light' : 'dark');

  constructor() {
    matchMedia('(prefers-color-scheme: light)').addEventListener('change', (event) => {
      if (localStorage.getItem('cronflow.theme') === null) this.show(event.matches ? 'light' : 'dark');
    });
  }

  toggle(): void {
    this.show(this.value === 'dark' ? 'light' : 'dark');
    localStorage.setItem('cronflow.theme', this.value);
  }

  private show(theme: Theme): void {
    this.value = theme;
    kept.clear();
    document.documentElement.dataset.theme = theme;
  }
}

const kept = new Map<string, string>();

/** A colour of the theme for a canvas. Asked of the browser once, since asking lays out what is not laid out yet. */
export function colour(name: string): string {
  let found = kept.get(name);
  if (found === undefined) {
    found = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    kept.set(name, found);
  }
  return found;
}

export const theme = new Kept();

export const reduced = matchMedia('(prefers-reduced-motion: reduce)');
