// What a tick costs the main thread, at a hundred nodes and a thousand runs a second. From Chromium's own trace: every
// task of the main thread, summed up by the second between two ticks. SECONDS says for how long each view is watched.
import { test } from '@playwright/test';
import { Stage } from '../server';
import { LARGE } from '../world';

const SECONDS = Number(process.env.SECONDS ?? 20);
const SETTLES_MS = 3000;
const LONG_MS = 50;
const VIEWS = ['/', '/jobs', '/runs', '/timeline', '/logs', '/nodes', '/dead-letters'];

interface TraceEvent {
  name: string;
  ph: string;
  pid: number;
  tid: number;
  /** Microseconds, as are the durations: by the clock on the wall, and of the thread itself. */
  ts: number;
  dur?: number;
  tdur?: number;
  args: { name?: string };
}

interface Cost {
  /** Of the thread, in milliseconds, for each second. */
  work: number[];
  /** By the clock on the wall, in milliseconds. */
  tasks: number[];
}

test('what a tick costs', async ({ browser }) => {
  const stage = await Stage.open(LARGE);
  const context = await browser.newContext();
  await context.addInitScript(() => localStorage.setItem('cronflow.refresh', 'session.random'));
  const rows: string[][] = [['view', 'work a tick, p50', 'p95', 'most', 'longest task', `tasks over ${LONG_MS} ms`]];
  const all: Cost = { work: [], tasks: [] };
  try {
    for (const view of VIEWS) {
      const page = await context.newPage();
      await page.goto(stage.url + view);
      await page.locator('.pill', { hasText: 'Live' }).waitFor();
      await page.waitForTimeout(SETTLES_MS);
      await browser.startTracing(page, { categories: ['-*', '__metadata', 'disabled-by-default-devtools.timeline', 'toplevel'] });
      await page.waitForTimeout(SECONDS * 1000);
      const cost = costOf(JSON.parse((await browser.stopTracing()).toString()).traceEvents as TraceEvent[]);
      await page.close();
      all.work.push(...cost.work);
      all.tasks.push(...cost.tasks);
      rows.push(row(view, cost));
    }
    rows.push(row('all', all));
    const widths = rows[0]!.map((_, i) => Math.max(...rows.map((one) => one[i]!.length)));
    console.info(`${LARGE.nodes.length} nodes, ${1000 / LARGE.gap_ms} runs a second, ${SECONDS} ticks a view, Chromium ${browser.version()}`);
    for (const one of rows) console.info(one.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  '));
  } finally {
    await context.close();
    await stage.close();
  }
});

/** Of the busiest main thread in the trace: that of the page. */
function costOf(events: TraceEvent[]): Cost {
  const mains = new Set(events.filter((one) => one.name === 'thread_name' && one.args.name === 'CrRendererMain').map(threadOf));
  const threads = new Map<string, TraceEvent[]>();
  for (const one of events) {
    if (one.ph !== 'X' || one.name !== 'RunTask' || !mains.has(threadOf(one))) continue;
    threads.set(threadOf(one), [...(threads.get(threadOf(one)) ?? []), one]);
  }
  const busiest = [...threads.values()].sort((a, b) => sum(b.map(ofThread)) - sum(a.map(ofThread)))[0] ?? [];
  const begin = Math.min(...busiest.map((one) => one.ts));
  const work = new Array<number>(SECONDS).fill(0);
  for (const one of busiest) {
    const second = Math.floor((one.ts - begin) / 1e6);
    if (second < SECONDS) work[second]! += ofThread(one);
  }
  return { work, tasks: busiest.map((one) => (one.dur ?? 0) / 1000) };
}

const threadOf = (one: TraceEvent) => `${one.pid}/${one.tid}`;
const ofThread = (one: TraceEvent) => (one.tdur ?? one.dur ?? 0) / 1000;
const sum = (values: number[]) => values.reduce((all, one) => all + one, 0);

function row(name: string, { work, tasks }: Cost): string[] {
  const sorted = [...work].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? 0;
  const ms = (value: number) => `${value.toFixed(1)} ms`;
  return [name, ms(at(0.5)), ms(at(0.95)), ms(at(1)), ms(Math.max(0, ...tasks)), String(tasks.filter((one) => one > LONG_MS).length)];
}
