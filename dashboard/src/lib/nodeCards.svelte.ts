// The state of the node cards. Cards are updated in turns, visible ones more often, so that each tick touches a third of
// the visible cards and a few of the others.
import type { Series } from './state';
import type { Node } from './stream';

/** A card out of view is updated within this many seconds. */
export const TURNS = 10;
/** A visible card is updated within this many seconds, and immediately when its node changes state. */
export const VISIBLE_TURNS = 3;
/** The sparklines of a visible card are redrawn within this many seconds, which is about one point of them. */
export const HISTORY_TURNS = 10;

type History = Series['nodes'][string];

export class Card {
  node = $state.raw() as Node;
  history = $state.raw<History | undefined>();
  leads = $state(false);
  visible = false;
  readonly observe: (box: Element) => () => void;

  constructor(node: Node, observe: (box: Element, card: Card) => () => void) {
    this.node = node;
    this.observe = (box) => observe(box, this);
  }
}

export class Cards {
  private readonly cards = new Map<string, Card>();
  private readonly boxes = new Map<Element, Card>();
  private observer: IntersectionObserver | null = null;
  private refreshVisible: () => void = () => {};

  /** The card of a node; always the same object. */
  of(node: Node): Card {
    let card = this.cards.get(node.id);
    if (card === undefined) this.cards.set(node.id, (card = new Card(node, (box, one) => this.observe(box, one))));
    return card;
  }

  /** Updates the cards whose turn it is at `second`. */
  update(nodes: readonly Node[], history: Series['nodes'], leader: string | null, second: number): void {
    const left = new Set(this.cards.keys());
    const refresh = (node: Node, place: number, always: boolean) => {
      const card = this.of(node);
      card.leads = node.name === leader;
      if (always || node.state !== card.node.state || (second + place) % (card.visible ? VISIBLE_TURNS : TURNS) === 0) card.node = node;
      // All cards get a new point in the same tick, so they redraw in turns.
      if (always || (card.visible && (second + place) % HISTORY_TURNS === 0)) card.history = history[node.name];
    };
    nodes.forEach((node, place) => {
      left.delete(node.id);
      refresh(node, place, false);
    });
    for (const id of left) this.cards.delete(id);
    this.refreshVisible = () => nodes.forEach((node, place) => this.cards.get(node.id)?.visible && refresh(node, place, true));
  }

  /** One shared observer, because every observer costs time in every frame. */
  private observe(box: Element, card: Card): () => void {
    this.observer ??= new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const one = this.boxes.get(entry.target);
        if (one !== undefined) one.visible = entry.isIntersecting;
      }
      // Cards that came into view may be outdated.
      this.refreshVisible();
    });
    this.boxes.set(box, card);
    this.observer.observe(box);
    return () => {
      this.observer?.unobserve(box);
      this.boxes.delete(box);
    };
  }
}
