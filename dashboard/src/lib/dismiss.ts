/** An effect that calls `close` on Escape and on a click outside the element that matches `selector`. */
export function onDismiss(selector: string, close: () => void): () => void {
  const listen = (event: Event) => {
    if (event instanceof KeyboardEvent ? event.key === 'Escape' : !(event.target as Element).closest(selector)) close();
  };
  addEventListener('click', listen);
  addEventListener('keydown', listen);
  return () => {
    removeEventListener('click', listen);
    removeEventListener('keydown', listen);
  };
}
