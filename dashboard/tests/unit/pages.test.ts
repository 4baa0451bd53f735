import { expect, it } from 'vitest';
import { Pages } from '../../src/lib/resource.svelte';

it('a list that is reloaded while it is loading has every row once, and neither call waits for the other', async () => {
  const waiting: (() => void)[] = [];
  const pages = new Pages<number>((cursor) => new Promise((resolve) => waiting.push(() => resolve(cursor === null ? { items: [1], next_cursor: 'b' } : { items: [2], next_cursor: null }))));
  const more = pages.more.bind(pages);
  let calls = 0;
  pages.more = () => {
    if (++calls > 100) throw new Error('the calls wait for each other');
    return more();
  };
  const first = pages.all(10);
  const second = pages.all(10);
  waiting[0]?.();
  await first;
  waiting[1]?.();
  while (waiting.length < 3) await new Promise((resolve) => setTimeout(resolve));
  waiting[2]?.();
  await second;
  expect(pages.rows).toEqual([1, 2]);
});

it('a list whose view is left asks for no further page', async () => {
  const cursors: (string | null)[] = [];
  const pages = new Pages<number>(async (cursor) => {
    cursors.push(cursor);
    if (cursors.length === 2) pages.stop();
    return { items: [cursors.length], next_cursor: String(cursors.length) };
  });
  await pages.all(10);
  expect(cursors).toEqual([null, '1']);
  expect(pages.rows).toEqual([1]);
});
