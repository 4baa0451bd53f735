// The instant at which the page is frozen, from `?at=`. While it is frozen, no live updates arrive and nothing can be changed.
import { router } from './router.svelte';

class Frozen {
  readonly text = $derived(router.get('at'));
  /** Null: the page is live, or the text is no instant. */
  readonly at = $derived.by<number | null>(() => {
    if (this.text === '') return null;
    const ms = Date.parse(this.text);
    return Number.isNaN(ms) ? null : ms;
  });

  /** The address of this view, or another one, at an instant. */
  href(at: string | number, path = router.path): string {
    return `${path}?at=${encodeURIComponent(new Date(at).toISOString())}`;
  }

  move(ms: number): void {
    if (this.at !== null) router.set({ at: new Date(this.at + ms).toISOString() });
  }

  thaw(): void {
    router.set({ at: null });
  }
}

export const frozen = new Frozen();
