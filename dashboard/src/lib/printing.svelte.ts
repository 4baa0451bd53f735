// Whether the page is being printed: then lists show all of their loaded rows, not only those in view.
import { flushSync } from 'svelte';

/** How many rows of a list are printed at most. */
export const MOST_PRINTED = 1000;

const paper = matchMedia('print');

class Printing {
  on = $state(paper.matches);

  constructor() {
    // Synchronously, because the browser lays out the printed page right after the event.
    paper.addEventListener('change', (event) => flushSync(() => (this.on = event.matches)));
  }
}

export const printing = new Printing();
