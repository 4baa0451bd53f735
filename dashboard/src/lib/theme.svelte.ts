// Dark or light: the system's preference until a theme is chosen in this browser.
type Theme = 'dark' | 'light';

class ThemeSetting {
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
    colours.clear();
    document.documentElement.dataset.theme = theme;
  }
}

const colours = new Map<string, string>();

/** A colour of the theme for a canvas. Cached, because reading a computed style forces a layout. */
export function colour(name: string): string {
  let found = colours.get(name);
  if (found === undefined) {
    found = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    colours.set(name, found);
  }
  return found;
}

export const theme = new ThemeSetting();

export const reduced = matchMedia('(prefers-reduced-motion: reduce)');
