import { describe, expect, it } from 'vitest';
import { Cards, VISIBLE_TURNS, TURNS } from '../../src/lib/nodeCards.svelte';
import type { Node } from '../../src/lib/stream';
import { LARGE, World } from '../browser/world';

describe('the cards of 100 nodes', () => {
  const known = new World(LARGE).snapshot().doc.nodes;
  const second = (n: number): Node[] => known.map((node) => ({ ...node, in_flight: n }));
  const update = (cards: Cards, n: number) => {
    const nodes = second(n);
    cards.update(nodes, {}, null, n);
    return nodes.map((node) => cards.of(node));
  };

  it('out of view are updated in turns, one share per tick', () => {
    const cards = new Cards();
    update(cards, 0);
    expect(update(cards, 1).filter((card) => card.node.in_flight === 1)).toHaveLength(LARGE.nodes.length / TURNS);
    for (let n = 2; n <= TURNS; n++) update(cards, n);
    expect(update(cards, TURNS + 1).every((card) => card.node.in_flight > 1)).toBe(true);
  });
  it('in view are updated within three ticks', () => {
    const cards = new Cards();
    for (const card of update(cards, 0).slice(0, 12)) card.visible = true;
    expect(update(cards, 1).slice(0, 12).filter((card) => card.node.in_flight === 1)).toHaveLength(12 / VISIBLE_TURNS);
    update(cards, 2);
    expect(update(cards, 3).slice(0, 12).every((card) => card.node.in_flight > 0)).toBe(true);
  });
  it('show a changed node state immediately', () => {
    const cards = new Cards();
    cards.update(second(0), {}, null, 0);
    const lost = second(1).map((node) => ({ ...node, state: 'stale' as const }));
    cards.update(lost, {}, null, 1);
    expect(lost.every((node) => cards.of(node).node.state === 'stale')).toBe(true);
  });
  it('have sparklines only while they are in view', () => {
    const cards = new Cards();
    const [first, ...others] = update(cards, 0);
    first!.visible = true;
    const history = Object.fromEntries(known.map((node) => [node.name, { cpu: [1], memory: [1], lag_s: [1], in_flight: [1] }]));
    for (let n = 1; n <= TURNS; n++) cards.update(second(n), history, null, n);
    expect(first!.history).toBe(history[known[0]!.name]);
    expect(others.every((card) => card.history === undefined)).toBe(true);
  });
  it('show the leader immediately and forget nodes that left', () => {
    const cards = new Cards();
    const nodes = second(0);
    cards.update(nodes, {}, nodes[99]!.name, 0);
    expect(cards.of(nodes[99]!).leads).toBe(true);
    const gone = cards.of(nodes[0]!);
    cards.update(nodes.slice(1), {}, null, 1);
    expect(cards.of(nodes[0]!)).not.toBe(gone);
  });
});
