// Dark or light: the system's preference until a theme is chosen in this browser; light on paper.
import { flushSync } from 'svelte';

type Theme = 'dark' | 'light';

const colours = new Map<string, string>();

class ThemeSetting {
  value = $state<Theme>(document.documentElement.dataset.theme === 'light' ? 'light' : 'dark');

  /** On paper, canvases need light colours too. */
  private readonly paper = matchMedia('print');
  private before: Theme | null = null;

  constructor() {
    const follow = () => {
      if (this.paper.matches) this.before ??= this.value;
      const next = this.paper.matches ? 'light' : (this.before ?? this.value);
      if (!this.paper.matches) this.before = null;
      flushSync(() => this.show(next));
    };
    this.paper.addEventListener('change', follow);
    if (this.paper.matches) follow();
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
