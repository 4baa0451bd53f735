// What a tick costs the main thread, at a hundred nodes and a thousand runs a second. SECONDS says for how long each
// view is watched, VIEWS which ones, PASSES how often, TRACES a folder that keeps what Chromium recorded. Three things are
// told apart: the work of a tick (its message, what that made the page ask for, and the frames that show it), the frames
// between two ticks, and everything together. What else the machine does can only add to a time, also to that of a
// thread, which waits where it shares its core: so the pass with the lowest p95 is told, and the p95 of each.
import { writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { test } from '@playwright/test';
import { Stage } from '../server';
import { LARGE } from '../world';
import { CATEGORIES, costOf, LONG_MS, quantile, type Cost, type TraceEvent } from './cost';

const SECONDS = Number(process.env.SECONDS ?? 20);
const SETTLES_MS = 3000;
const PASSES = Number(process.env.PASSES ?? 3);
const VIEWS = (process.env.VIEWS ?? '/,/jobs,/runs,/timeline,/logs,/nodes,/dead-letters').split(',');

const ms = (value: number) => value.toFixed(1);
const p95 = (cost: Cost) => quantile(cost.ticks, 0.95);
const sum = (values: readonly number[]) => values.reduce((all, one) => all + one, 0);

const COLUMNS: [string, (cost: Cost) => string][] = [
  ['tick p50', (cost) => ms(quantile(cost.ticks, 0.5))],
  ['p95', (cost) => ms(p95(cost))],
  ['most', (cost) => ms(quantile(cost.ticks, 1))],
  ['longest task', (cost) => ms(cost.longest.thread)],
  ['on the wall', (cost) => ms(cost.longest.wall)],
  [`over ${LONG_MS}`, (cost) => String(cost.long)],
  ['frames/s', (cost) => ms(cost.frames.length / (sum(cost.walls) / 1000))],
  ['frame p50', (cost) => ms(quantile(cost.frames, 0.5))],
  ['p95', (cost) => ms(quantile(cost.frames, 0.95))],
  ['all p95', (cost) => ms(quantile(cost.spans, 0.95))],
  ['share', (cost) => `${((sum(cost.spans) / sum(cost.walls)) * 100).toFixed(1)} %`],
];

test('what a tick costs', async ({ browser }) => {
  const stage = await Stage.open(LARGE);
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  await context.addInitScript(() => localStorage.setItem('cronflow.refresh', 'session.random'));
  const rows: string[][] = [['view', ...COLUMNS.map(([title]) => title), 'p95 of each pass']];
  const load = [loadavg()[0]!];
  try {
    for (const view of VIEWS) {
      const passes: Cost[] = [];
      for (let pass = 0; pass < PASSES; pass++) {
        const page = await context.newPage();
        await page.goto(stage.url + view);
        await page.locator('.pill', { hasText: 'Live' }).waitFor();
        await page.waitForTimeout(SETTLES_MS);
        await browser.startTracing(page, { categories: CATEGORIES });
        // One more: the last tick only ends the one before.
        await page.waitForTimeout((SECONDS + 1) * 1000);
        const trace = await browser.stopTracing();
        await page.close();
        if (process.env.TRACES !== undefined) writeFileSync(join(process.env.TRACES, `trace${view.replaceAll('/', '_')}.json`), trace);
        passes.push(costOf(JSON.parse(trace.toString()).traceEvents as TraceEvent[]));
        load.push(loadavg()[0]!);
      }
      const calmest = passes.reduce((a, b) => (p95(b) < p95(a) ? b : a));
      rows.push([view, ...COLUMNS.map(([, cell]) => cell(calmest)), passes.map((one) => ms(p95(one))).join(' ')]);
    }
    const widths = rows[0]!.map((_, i) => Math.max(...rows.map((one) => one[i]!.length)));
    console.info(`${LARGE.nodes.length} nodes, ${1000 / LARGE.gap_ms} runs a second, ${SECONDS} ticks a pass, Chromium ${browser.version()}; milliseconds of the main thread`);
    for (const one of rows) console.info(one.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  '));
    console.info(`load of the machine from ${Math.min(...load).toFixed(1)} to ${Math.max(...load).toFixed(1)}`);
  } finally {
    await context.close();
    await stage.close();
  }
});
