import { describe, expect, it } from 'vitest';
import { Cards, SEEN_TURNS, TURNS } from '../../src/lib/cards.svelte';
import type { Node } from '../../src/lib/stream';
import { LARGE, World } from '../browser/world';

describe('the cards of a hundred nodes', () => {
  const known = new World(LARGE).snapshot().doc.nodes;
  const second = (n: number): Node[] => known.map((node) => ({ ...node, in_flight: n }));
  const tell = (cards: Cards, n: number) => {
    const nodes = second(n);
    cards.tell(nodes, {}, null, n);
    return nodes.map((node) => cards.of(node));
  };

  it('are told a share with each tick where they are out of view, and all of them within the turns', () => {
    const cards = new Cards();
    tell(cards, 0);
    expect(tell(cards, 1).filter((card) => card.node.in_flight === 1)).toHaveLength(LARGE.nodes.length / TURNS);
    for (let n = 2; n <= TURNS; n++) tell(cards, n);
    expect(tell(cards, TURNS + 1).every((card) => card.node.in_flight > 1)).toBe(true);
  });
  it('are told within three ticks where they are in view', () => {
    const cards = new Cards();
    for (const card of tell(cards, 0).slice(0, 12)) card.seen = true;
    expect(tell(cards, 1).slice(0, 12).filter((card) => card.node.in_flight === 1)).toHaveLength(12 / SEEN_TURNS);
    tell(cards, 2);
    expect(tell(cards, 3).slice(0, 12).every((card) => card.node.in_flight > 0)).toBe(true);
  });
  it('say at once that a node is in another state', () => {
    const cards = new Cards();
    cards.tell(second(0), {}, null, 0);
    const lost = second(1).map((node) => ({ ...node, state: 'stale' as const }));
    cards.tell(lost, {}, null, 1);
    expect(lost.every((node) => cards.of(node).node.state === 'stale')).toBe(true);
  });
  it('draw what was only where they are in view', () => {
    const cards = new Cards();
    const [first, ...others] = tell(cards, 0);
    first!.seen = true;
    const past = Object.fromEntries(known.map((node) => [node.name, { cpu: [1], memory: [1], lag_s: [1], in_flight: [1] }]));
    for (let n = 1; n <= TURNS; n++) cards.tell(second(n), past, null, n);
    expect(first!.past).toBe(past[known[0]!.name]);
    expect(others.every((card) => card.past === undefined)).toBe(true);
  });
  it('say at once who leads, and forget nodes that left', () => {
    const cards = new Cards();
    const nodes = second(0);
    cards.tell(nodes, {}, nodes[99]!.name, 0);
    expect(cards.of(nodes[99]!).leads).toBe(true);
    const gone = cards.of(nodes[0]!);
    cards.tell(nodes.slice(1), {}, null, 1);
    expect(cards.of(nodes[0]!)).not.toBe(gone);
  });
});
