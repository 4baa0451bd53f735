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
    document.documentElement.dataset.theme = theme;
  }
}

export const theme = new Kept();

export const reduced = matchMedia('(prefers-reduced-motion: reduce)');
