import { describe, expect, it } from 'vitest';
import { inTurn } from '../../src/lib/lock';

function storage() {
  const stored = new Map<string, string>();
  return { stored, getItem: (key: string) => stored.get(key) ?? null, setItem: (key: string, value: string) => void stored.set(key, value), removeItem: (key: string) => void stored.delete(key) };
}

describe('tabs without browser locks', () => {
  it('take turns', async () => {
    const shared = storage();
    let inside = 0;
    let most = 0;
    const order: number[] = [];
    await Promise.all([1, 2, 3].map((tab) => inTurn('renewal', async () => {
      most = Math.max(most, ++inside);
      await new Promise((resolve) => setTimeout(resolve, 5));
      order.push(tab);
      inside -= 1;
    }, shared)));
    expect([most, order.sort()]).toEqual([1, [1, 2, 3]]);
    expect(shared.stored.size).toBe(0);
  });

  it('do not wait for a tab that was closed', async () => {
    const shared = storage();
    shared.setItem('renewal.lock', `gone ${Date.now() - 1}`);
    expect(await inTurn('renewal', async () => 'done', shared)).toBe('done');
  });

  it('release the lock after an error', async () => {
    const shared = storage();
    await expect(inTurn('renewal', () => Promise.reject(new Error('no')), shared)).rejects.toThrow('no');
    expect(shared.stored.size).toBe(0);
  });
});
