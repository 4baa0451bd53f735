// Screenshots of every view, tab and dialog at three widths in both themes, on a cluster that runs the jobs of a company, after
// failures and a failover. SHOTS is the output folder; ONLY=jobs,runs limits them to some pictures, WIDTHS=390,1024 and
// THEMES=dark to some widths and themes; WARM_UP_MS is how long the cluster runs before.
import { test, type Page } from '@playwright/test';
import { SECTIONS } from '../../../src/lib/settings';
import type { Limit, Page as ListPage } from '../../../src/lib/types';
import { NAV } from '../../../src/lib/views';
import { ADMIN, Cluster, waitFor } from './cluster';
import { foundCompany, FIRST_JOBS } from './company';

interface Picture {
  name: string;
  path: string;
  /** Opens a dialog or selects something. */
  then?: (page: Page) => Promise<unknown>;
}

const OUT = process.env.SHOTS ?? '';
const listed = (name: string) => process.env[name]?.split(',');
const ONLY = listed('ONLY');
const HEIGHTS: Record<number, number> = { 390: 844, 1024: 768, 1600: 1000 };
const WIDTHS = (listed('WIDTHS') ?? Object.keys(HEIGHTS)).map(Number);
const THEMES = listed('THEMES') ?? ['dark', 'light'];
const WARM_UP_MS = Number(process.env.WARM_UP_MS ?? 90_000);

const press = (name: string) => (page: Page) => page.getByRole('main').getByRole('button', { name, exact: true }).first().click();

async function pictures(cluster: Cluster): Promise<Picture[]> {
  const run = async (query: string) => `/runs/${encodeURIComponent((await cluster.runs(query)).items[0]?.id ?? '')}`;
  const holding = async () => `/runs/${encodeURIComponent((await cluster.request<ListPage<Limit>>('GET', '/limits')).items.flatMap((limit) => limit.waiting)[0]?.run ?? '')}`;
  const [failed, retried, waiting, chain] = await Promise.all([
    run('job=courier-tracking&state=failed'), run('job=exchange-rates&state=succeeded'), holding(), run('job=check-orders&state=succeeded'),
  ]);
  const [one, other] = (await cluster.runs('job=exchange-rates&state=succeeded')).items.map(({ id }) => encodeURIComponent(id));
  const at = new Date(Date.now() - 60_000).toISOString();
  const tabs = (name: string, path: string, keys: string[]) => keys.map((key) => ({ name: `${name}-${key}`, path: `${path}?tab=${key}` }));
  return [
    ...NAV.map((view) => ({ name: view.name, path: view.href ?? '/' })),
    { name: 'overview-1h', path: '/?span=1h' },
    { name: 'overview-frozen', path: `/?at=${at}` },
    { name: 'jobs-search', path: '/jobs?q=backup' },
    { name: 'job-new', path: '/jobs/new' },
    { name: 'job-edit', path: '/jobs/backup-shop/edit' },
    { name: 'job', path: '/jobs/exchange-rates' },
    { name: 'job-paused', path: '/jobs/legacy-ftp' },
    { name: 'job-waiting', path: '/jobs/fraud-scores' },
    ...tabs('job', '/jobs/backup-shop', ['next', 'weeks', 'backfills', 'why', 'versions', 'definition']),
    { name: 'run-failed', path: failed },
    { name: 'run-waiting', path: waiting },
    { name: 'run-chain', path: chain },
    ...tabs('run', retried, ['log', 'why']),
    { name: 'compare', path: `/compare?a=${one}&b=${other}` },
    { name: 'node', path: `/nodes/${(await cluster.cluster()).nodes[0]?.name ?? ''}` },
    { name: 'runs-frozen', path: `/runs?at=${at}` },
    ...SECTIONS.filter(({ load }) => load !== null).map((section) => ({ name: `settings-${section.name}`, path: section.href })),
    { name: 'dead-open', path: '/dead-letters', then: (page) => page.locator('.why').first().click() },
    { name: 'load-job', path: '/load?job=backup-shop' },
    { name: 'load-hour', path: '/load', then: (page) => page.locator('main table button').nth(60).click() },
    { name: 'cron-filled', path: '/cron?cron=0+2+*+*+*&tz=Europe/Berlin' },
    { name: 'wall', path: '/?tv=1' },
    { name: 'dialog-backfill', path: '/jobs/backup-erp?tab=backfills', then: press('Backfill') },
    { name: 'dialog-pause', path: '/jobs/backup-erp', then: press('Pause') },
    { name: 'dialog-run', path: '/jobs/refund-customers', then: press('Run with arguments') },
    { name: 'calendar', path: '/settings/calendars?name=de-holidays' },
    { name: 'dialog-calendar', path: '/settings/calendars?name=de-holidays', then: press('Edit calendar') },
    { name: 'dialog-palette', path: '/', then: (page) => page.keyboard.press('Control+k') },
    { name: 'dialog-help', path: '/', then: (page) => page.keyboard.press('?') },
    { name: 'menu', path: '/', then: (page) => page.getByRole('button', { name: /^Account/ }).click() },
  ];
}

test('screenshots', async ({ browser }) => {
  const cluster = await Cluster.up(FIRST_JOBS);
  try {
    await foundCompany(cluster);
    await waitFor('dead letters', async () => (await cluster.runs('dead=true')).items.length >= 4, 60_000);
    await new Promise((resolve) => setTimeout(resolve, WARM_UP_MS));
    const all = (await pictures(cluster)).filter((one) => ONLY === undefined || ONLY.includes(one.name));
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(cluster.url);
    await page.screenshot({ path: `${OUT}/login.png` });
    await page.getByLabel('Username').fill(ADMIN.name);
    await page.getByLabel('Password').fill(ADMIN.password);
    await page.getByRole('button', { name: 'Log in' }).click();
    await settled(page);
    if (ONLY === undefined) {
      await cluster.killLeader();
      await page.getByText('Failover took').waitFor();
      await page.screenshot({ path: `${OUT}/failover.png` });
    }
    for (const width of WIDTHS) {
      for (const theme of THEMES) {
        await page.evaluate((name) => localStorage.setItem('cronflow.theme', name), theme);
        for (const { name, path, then } of all) await picture(page, `${name}-${width}-${theme}`, cluster.url + path, width, then);
      }
    }
  } finally {
    await cluster.down();
  }
});

/** One picture of the window and, if the view is longer, one of all of it. A picture that fails is reported and left out. */
async function picture(page: Page, name: string, url: string, width: number, then: Picture['then']) {
  const height = HEIGHTS[width] ?? 900;
  try {
    await page.setViewportSize({ width, height });
    await page.goto(url);
    await settled(page);
    await then?.(page);
    await page.waitForTimeout(900); // charts are drawn and animations have ended
    await page.screenshot({ path: `${OUT}/${name}.png` });
    const tall = await page.evaluate(() => (document.querySelector('main')?.scrollHeight ?? 0) + 120);
    if (then !== undefined || tall <= height + 80) return;
    await page.setViewportSize({ width, height: Math.min(tall, 6000) });
    await page.waitForTimeout(600);
    await page.screenshot({ path: `${OUT}/${name}-whole.png` });
  } catch (error) {
    console.error(`${name}: ${String(error).split('\n')[0]}`);
  }
}

async function settled(page: Page) {
  await page.locator('.pill', { hasText: /Live|Frozen/ }).or(page.locator('.wall')).first().waitFor({ timeout: 30_000 });
  await page.waitForFunction(() => document.querySelector('.skeleton') === null);
}
