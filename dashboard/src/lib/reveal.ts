/** Scrolls rows of buttons and tabs sideways, where they do not fit, so that what is selected is in sight. */
export function revealSelected(): void {
  for (const row of document.querySelectorAll('.seg, .tabs, .settings > nav')) {
    const selected = row.querySelector('[aria-pressed="true"], [aria-current="page"]');
    if (selected === null || row.scrollWidth <= row.clientWidth) continue;
    const [outer, inner] = [row.getBoundingClientRect(), selected.getBoundingClientRect()];
    if (inner.left < outer.left || inner.right > outer.right) row.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
  }
}
