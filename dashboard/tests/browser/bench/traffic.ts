// The bytes that each view exchanges with a real API. URL and PASSWORD are those of the API, SECONDS the duration per view,
// TABS how many views are open at the same time, VIEWS the views, ROWS a file for the figures in JSON. The first column is
// what a tab receives in the first 20 s, or until it has all jobs, with the files of the page in the cache of the browser;
// the others are per minute from then on. `socket` and `REST` are received, headers included; `sent` is an estimate, because
// the browser does not report the bytes of a request. With fewer than 60 ticks the machine was too busy, and the other
// columns are too low as well.
import { writeFileSync } from 'node:fs';
import { type BrowserContext, type CDPSession, test } from '@playwright/test';

const URL_OF_API = process.env.URL ?? '';
const SECONDS = Number(process.env.SECONDS ?? 60);
const TABS = Number(process.env.TABS ?? 4);
const VIEWS = (process.env.VIEWS ?? '/,/jobs,/runs,/timeline,/dead-letters,/logs,/nodes,/load,/jobs/steady-007,/?tv=1,/runs?state=failed,/timeline?span=1h').split(',');
const FIRST_S = 20;
// The list of jobs loads page by page; on a busy machine that takes longer.
const QUIET_S = 5;
const MOST_FIRST_S = 90;

interface Count {
  ticks: number;
  socket: number;
  received: number;
  sent: number;
  requests: number;
  /** Bytes received by path. */
  paths: Map<string, number>;
}

const KIB = 1024;
const kib = (bytes: number) => (bytes / KIB).toFixed(1);
const mib = (bytes: number) => (bytes / KIB / KIB).toFixed(3);
const perMinute = (value: number) => (value * 60) / SECONDS;

class Traffic {
  private count: Count = zero();
  /** The paths of the open requests. */
  private readonly requests = new Map<string, string>();
  /** When a page of jobs arrived last. */
  jobsAt = 0;

  constructor(session: CDPSession) {
    session.on('Network.requestWillBeSent', ({ requestId, request }) => {
      const { pathname, search } = new URL(request.url);
      this.requests.set(requestId, pathname.startsWith('/assets') ? '/assets' : pathname);
      this.count.requests += 1;
      this.count.sent += request.method.length + pathname.length + search.length + (request.postData?.length ?? 0);
    });
    session.on('Network.requestWillBeSentExtraInfo', ({ headers }) => {
      for (const [name, value] of Object.entries(headers)) this.count.sent += name.length + value.length + 4;
    });
    session.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
      const path = this.requests.get(requestId) ?? '';
      this.requests.delete(requestId);
      if (path === '/api/v1/jobs') this.jobsAt = Date.now();
      this.count.received += encodedDataLength;
      this.count.paths.set(path, (this.count.paths.get(path) ?? 0) + encodedDataLength);
    });
    session.on('Network.webSocketFrameReceived', ({ response }) => {
      this.count.ticks += 1;
      this.count.socket += sizeOf(response) + 4;
    });
    session.on('Network.webSocketFrameSent', ({ response }) => (this.count.sent += Buffer.byteLength(response.payloadData) + 8));
  }

  /** The counts since the last call. */
  take(): Count {
    const { count } = this;
    this.count = zero();
    return count;
  }
}

/** The payload of a frame; binary ones are reported in base64. */
function sizeOf({ opcode, payloadData }: { opcode: number; payloadData: string }): number {
  return Buffer.byteLength(payloadData, opcode === 2 ? 'base64' : 'utf8');
}

function zero(): Count {
  return { ticks: 0, socket: 0, received: 0, sent: 0, requests: 0, paths: new Map() };
}

/** The figures of a view, for ROWS. */
interface Row {
  view: string;
  first_kib: number;
  mib_a_minute: number;
  ticks: number;
}
const figures: Row[] = [];

async function measured(context: BrowserContext, view: string): Promise<string[]> {
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send('Network.enable');
  const traffic = new Traffic(session);
  await page.goto(URL_OF_API + view);
  await page.locator(view.includes('tv=1') ? '.wall' : '.pill').first().waitFor();
  await page.waitForTimeout(FIRST_S * 1000);
  const latest = Date.now() + (MOST_FIRST_S - FIRST_S) * 1000;
  while (Date.now() < Math.min(latest, traffic.jobsAt + QUIET_S * 1000)) await page.waitForTimeout(500);
  const first = traffic.take();
  await page.waitForTimeout(SECONDS * 1000);
  const then = traffic.take();
  await page.close();
  figures.push({ view, first_kib: (first.received + first.socket) / KIB, mib_a_minute: perMinute(then.socket + then.received) / KIB / KIB, ticks: perMinute(then.ticks) });
  const paths = [...then.paths].sort((a, b) => b[1] - a[1]).slice(0, 3).map(([path, bytes]) => `${path.replace('/api/v1', '')} ${kib(perMinute(bytes))}`);
  return [
    view, kib(first.received + first.socket), mib(perMinute(then.socket + then.received)), mib(perMinute(then.socket)), mib(perMinute(then.received)),
    perMinute(then.ticks).toFixed(0), perMinute(then.requests).toFixed(0), mib(perMinute(then.sent)), paths.join(', '),
  ];
}

test('traffic', async ({ browser }) => {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  await page.goto(URL_OF_API);
  await page.getByLabel('Username').fill('admin');
  await page.getByLabel('Password').fill(process.env.PASSWORD ?? '');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.locator('.pill', { hasText: 'Live' }).waitFor();
  // The cluster has just started: wait until its rates are those of the benchmark.
  await page.waitForTimeout(15_000);
  const rate = await page.locator('.tile .value').first().innerText();
  await page.goto('about:blank');
  const rows = [['view', 'first, KiB', 'MiB/min', 'socket', 'REST', 'ticks', 'requests', 'sent', 'largest, KiB/min']];
  const left = [...VIEWS];
  while (left.length > 0) rows.push(...(await Promise.all(left.splice(0, TABS).map((view) => measured(context, view)))));
  const widths = rows[0]!.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  console.info(`${rate.replace('\n', ' ')}, ${SECONDS} s per view, Chromium ${browser.version()}`);
  for (const row of rows) console.info(row.map((cell, i) => (i === 0 || i === 8 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  '));
  if (process.env.ROWS) writeFileSync(process.env.ROWS, JSON.stringify(figures));
  await context.close();
});
