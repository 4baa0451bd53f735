// What the cards of nodes show. Each is told what it shows when it is its turn, and those in view have theirs more often,
// so that a tick touches a third of those in view and a few of the others.
import type { Series } from './state';
import type { Node } from './stream';

/** Out of view a card is up to date within so many seconds. */
export const TURNS = 10;
/** In view it is within so many, and at once when its node is in another state. */
export const SEEN_TURNS = 3;
/** What was is drawn anew within so many, in view alone: it is for the eye, and so long is about a point of it. */
export const PAST_TURNS = 10;

type Past = Series['nodes'][string];

export class Card {
  node = $state.raw() as Node;
  past = $state.raw<Past | undefined>();
  leads = $state(false);
  seen = false;
  readonly watched: (box: Element) => () => void;

  constructor(node: Node, watched: (box: Element, card: Card) => () => void) {
    this.node = node;
    this.watched = (box) => watched(box, this);
  }
}

export class Cards {
  private readonly cards = new Map<string, Card>();
  private readonly boxes = new Map<Element, Card>();
  private watch: IntersectionObserver | null = null;
  private told: () => void = () => {};

  /** The card of a node, which stays the same. */
  of(node: Node): Card {
    let card = this.cards.get(node.id);
    if (card === undefined) this.cards.set(node.id, (card = new Card(node, (box, one) => this.watched(box, one))));
    return card;
  }

  /** Tells the cards whose turn it is at `second`. */
  tell(nodes: readonly Node[], past: Series['nodes'], leader: string | null, second: number): void {
    const left = new Set(this.cards.keys());
    const fresh = (node: Node, place: number, always: boolean) => {
      const card = this.of(node);
      card.leads = node.name === leader;
      if (always || node.state !== card.node.state || (second + place) % (card.seen ? SEEN_TURNS : TURNS) === 0) card.node = node;
      // In turn: they all have another point with the same tick.
      if (always || (card.seen && (second + place) % PAST_TURNS === 0)) card.past = past[node.name];
    };
    nodes.forEach((node, place) => {
      left.delete(node.id);
      fresh(node, place, false);
    });
    for (const id of left) this.cards.delete(id);
    this.told = () => nodes.forEach((node, place) => this.cards.get(node.id)?.seen && fresh(node, place, true));
  }

  /** One observer for all of them: each costs in every frame. */
  private watched(box: Element, card: Card): () => void {
    this.watch ??= new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const one = this.boxes.get(entry.target);
        if (one !== undefined) one.seen = entry.isIntersecting;
      }
      // What came into view is as old as its turn.
      this.told();
    });
    this.boxes.set(box, card);
    this.watch.observe(box);
    return () => {
      this.watch?.unobserve(box);
      this.boxes.delete(box);
    };
  }
}
