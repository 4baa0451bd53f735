import { expect, test } from 'vitest';
import { BOX, draw, layersOf, relatedTo } from '../../src/lib/layers';
import type { JobGraph } from '../../src/lib/types';

function graph(...edges: [string, string, JobGraph['edges'][number]['on']?][]): JobGraph {
  const jobs = [...new Set(edges.flatMap(([upstream, job]) => [upstream, job]))].sort();
  return { jobs, edges: edges.map(([upstream, job, on = 'succeeded']) => ({ upstream, job, on, join: 'all' })) };
}

test('each job is to the right of all that it follows', () => {
  const layers = layersOf(graph(['import', 'left'], ['left', 'report'], ['import', 'report'], ['import', 'alarm', 'failed']));
  expect(Object.fromEntries(layers)).toEqual({ import: 0, left: 1, alarm: 1, report: 2 });
});

test('a cycle is drawn too', () => {
  const drawing = draw(graph(['a', 'b'], ['b', 'a'], ['b', 'c']));
  expect(drawing.boxes.map((box) => box.job)).toEqual(['a', 'b', 'c']);
  expect(drawing.lines).toHaveLength(3);
});

test('boxes do not overlap and fit into the drawing', () => {
  const drawing = draw(graph(['a', 'c'], ['b', 'c'], ['a', 'd'], ['b', 'd'], ['c', 'e'], ['d', 'e']));
  const places = drawing.boxes.map((box) => `${box.x} ${box.y}`);
  expect(new Set(places).size).toBe(drawing.boxes.length);
  for (const box of drawing.boxes) {
    expect(box.x + BOX.width).toBeLessThanOrEqual(drawing.width);
    expect(box.y + BOX.height).toBeLessThanOrEqual(drawing.height);
  }
});

test('a line names what counts unless it is a success', () => {
  const [failed, succeeded] = draw(graph(['a', 'b', 'failed'], ['a', 'c'])).lines;
  expect([failed?.label, succeeded?.label]).toEqual(['failed', '']);
});

test('without jobs the drawing is empty', () => {
  expect(draw({ jobs: [], edges: [] })).toEqual({ width: 0, height: 0, boxes: [], lines: [] });
});

test('a thousand jobs in a row are drawn', () => {
  const edges = Array.from({ length: 1000 }, (_, n): [string, string] => [`n${n}`, `n${n + 1}`]);
  expect(draw(graph(...edges)).boxes).toHaveLength(1001);
});

test('a job is related to what leads to it and to what follows it, but not to what else follows those', () => {
  const found = graph(['import', 'left'], ['import', 'right'], ['left', 'report'], ['right', 'index'], ['report', 'mail'], ['other', 'mail']);
  expect([...relatedTo(found, 'left')].sort()).toEqual(['import', 'left', 'mail', 'report']);
  expect([...relatedTo(graph(['a', 'b'], ['b', 'a']), 'a')].sort()).toEqual(['a', 'b']);
});
