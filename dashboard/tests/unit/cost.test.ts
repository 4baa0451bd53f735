import { describe, expect, test } from 'vitest';
import { costOf, quantile, type TraceEvent } from '../browser/bench/cost';

const trace: TraceEvent[] = [{ name: 'thread_name', ph: 'M', pid: 1, tid: 1, ts: 0, args: { name: 'CrRendererMain' } }];

/** A task of the page, in milliseconds, with the events in it. */
function task(at: number, wall: number, thread: number, ...names: string[]): TraceEvent[] {
  const place = { pid: 1, tid: 1, args: {} };
  return [
    { ...place, name: 'ThreadControllerImpl::RunTask', ph: 'X', ts: at * 1000, dur: wall * 1000, tdur: thread * 1000 },
    ...names.map((name) => ({ ...place, name, ph: name === 'AnimationFrame::Render' ? 'b' : 'I', ts: at * 1000 + 1 })),
  ];
}

describe('the costs in a trace', () => {
  const tick = 'WebSocketReceive';
  const frame = 'AnimationFrame::Render';
  const cost = costOf([
    ...trace,
    ...task(0, 9, 9, frame), // before the first tick
    ...task(10, 4, 3, tick),
    ...task(20, 2, 2),
    ...task(30, 8, 5, frame),
    ...task(50, 1, 1, frame),
    ...task(60, 1, 1, frame),
    ...task(70, 0.5, 0.5).map((one) => ({ ...one, args: { src_file: 'cc/trees/proxy_impl.cc' } })),
    ...task(300, 3, 2, 'ResourceFinish'),
    ...task(310, 90, 60, frame),
    ...task(500, 1, 1),
    ...task(1010, 4, 4, tick),
    ...task(1020, 6, 6, frame),
    ...task(2010, 7, 7, tick), // ends the previous tick
  ]);

  test('a tick includes its message, its requests and the frames that show the result', () => {
    expect(cost.ticks).toEqual([3 + 2 + 5 + 2 + 60 + 1, 10]);
  });

  test('a frame without new data is an animation and counts only in the total', () => {
    expect(cost.frames).toEqual([1, 1]);
    expect(cost.spans).toEqual([75.5, 10]);
    expect(cost.walls).toEqual([1000, 1000]);
  });

  test('the longest task is measured in thread time and wall time, long tasks in thread time', () => {
    expect(cost.longest).toEqual({ thread: 60, wall: 90 });
    expect(cost.long).toBe(1);
  });

  test('nested tasks are not counted twice, and other threads are not counted', () => {
    const twice = costOf([...trace, ...task(0, 10, 10, tick), ...task(2, 5, 5), ...task(0, 50, 50).map((one) => ({ ...one, tid: 2 })), ...task(1000, 1, 1, tick)]);
    expect(twice.ticks).toEqual([10]);
  });

  test('a quantile is one of the values', () => {
    expect(quantile([4, 1, 3, 2], 0.5)).toBe(2);
    expect(quantile([4, 1, 3, 2], 0.95)).toBe(4);
    expect(quantile([], 0.5)).toBe(0);
  });
});
