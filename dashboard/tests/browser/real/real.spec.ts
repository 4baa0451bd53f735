// The page on a real cluster: real servers, real processes, and some of them are killed. One story, told in order.
import { expect, test, type BrowserContext, type Page } from '@playwright/test';
import { axe } from '../axe';
import { ADMIN, Cluster, eventually, VIEWER } from './cluster';

const MANY = 100_000;
// What the browser itself says while nobody listens.
const AWAY = /ERR_CONNECTION_(REFUSED|RESET)|ERR_EMPTY_RESPONSE|WebSocket connection/;

test.describe.configure({ mode: 'serial' });

let cluster: Cluster;
let context: BrowserContext;
let page: Page;
let filled: Promise<void>;
let away = false;
const said: string[] = [];

function listen(one: Page): Page {
  one.on('console', (message) => {
    if (message.type() !== 'error' && message.type() !== 'warning') return;
    if (!(away && AWAY.test(message.text()))) said.push(`${message.text()} ${message.location().url}`);
  });
  one.on('pageerror', (error) => said.push(String(error)));
  return one;
}

async function login(one: Page, who: { name: string; password: string }) {
  await one.goto(cluster.url);
  await one.getByLabel('Name').fill(who.name);
  await one.getByLabel('Password').fill(who.password);
  await one.getByRole('button', { name: 'Log in' }).click();
  await live(one);
}

async function live(one: Page) {
  await expect(one.locator('.pill')).toContainText('Live', { timeout: 30_000 });
  await expect(one.locator('.skeleton')).toHaveCount(0);
}

test.beforeAll(async ({ browser }) => {
  test.setTimeout(180_000);
  cluster = await Cluster.up();
  filled = cluster.fill(MANY);
  // Whoever waits for it hears of an error; until then it is not to end the process.
  filled.catch(() => undefined);
  for (let i = 0; i < 3; i++) await cluster.run('delivery');
  context = await browser.newContext();
  page = listen(await context.newPage());
});

test.afterAll(async () => {
  test.setTimeout(90_000);
  await context?.close();
  await cluster?.down();
});

test('somebody logs in and sees the cluster tick', async () => {
  test.setTimeout(120_000);
  await login(page, ADMIN);
  const { leader, term } = await cluster.cluster();
  await expect(page.getByRole('group', { name: `The cluster: 3 nodes, ${leader} leads, term ${term}` })).toBeVisible();
  // A tick a second, and values that move with them.
  const seen = new Set<string>();
  await eventually('five different ticks', async () => seen.add((await page.locator('.fence').textContent()) ?? '').size >= 3 && seen);
  await expect(page.getByRole('region', { name: 'Jobs' })).toContainText('6 jobs');
  await expect(page.getByRole('region', { name: 'Upcoming fires' })).toContainText('nightly-backup');
  await page.getByRole('button', { name: '1 h', exact: true }).click();
  await expect(page).toHaveURL(/span=1h/);
  await expect(page.getByRole('img', { name: /^Ended a minute/ })).toBeVisible();
  await page.getByRole('button', { name: '10 min', exact: true }).click();
  await expect(page.getByRole('img', { name: /^Throughput/ })).toBeVisible();
});

test('jobs say their schedules in words, how they do, and when they fire next', async () => {
  await page.goto(`${cluster.url}/jobs`);
  await live(page);
  const row = (job: string) => page.getByRole('row').filter({ has: page.getByRole('link', { name: job, exact: true }) });
  await expect(row('nightly-backup')).toContainText('at 02:00 every day');
  await expect(row('talker')).toContainText('Only by hand');
  await expect(row('tick').getByRole('group', { name: /^The last \d+ runs, 0 failed or lost/ })).toBeVisible();
  // It goes on by itself: other runs, and another next fire.
  const first = await row('tick').locator('a.slot').last().getAttribute('href');
  await expect.poll(() => row('tick').locator('a.slot').last().getAttribute('href')).not.toBe(first);
  await expect(row('sales-report')).not.toContainText('due now');
});

test('a job is run by hand, and its log is followed while it is written', async () => {
  await page.goto(`${cluster.url}/jobs/talker`);
  await live(page);
  await page.getByRole('button', { name: 'Run now', exact: true }).click();
  await page.getByRole('link', { name: 'Open', exact: true }).click();
  await expect(page).toHaveURL(/\/runs\/talker/);
  const lines = page.locator('.line');
  await expect(page.getByText('line 1 of twelve')).toBeVisible();
  await expect(page.getByText('line 12 of twelve')).toBeVisible({ timeout: 20_000 });
  // Each line once, in order, whether it came as history or live.
  expect((await lines.allTextContents()).map((text) => /line (\d+) of twelve/.exec(text)?.[1]).filter(Boolean)).toEqual(Array.from({ length: 12 }, (_, i) => String(i + 1)));
  await expect(page.locator('.head-line')).toContainText('Succeeded');
});

test('dead letters are replayed, and what they waited for is done', async () => {
  await page.goto(`${cluster.url}/dead-letters`);
  await live(page);
  const group = page.locator('.group').filter({ hasText: 'delivery' });
  await expect(group.locator('.n')).toHaveText('3', { timeout: 30_000 });
  cluster.openTheRoad();
  await group.getByRole('button', { name: 'Replay all' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Replay' }).click();
  await expect(group).toHaveCount(0);
  await expect(page.getByText('No dead letters', { exact: true })).toBeVisible();
  await eventually('the replays have succeeded', async () => (await cluster.runs('job=delivery&state=succeeded')).items.filter((run) => run.kind === 'replay').length === 3);
});

test('a killed leader: the crown goes to another node, and a banner says how long it took and that nothing was lost', async () => {
  test.setTimeout(90_000);
  await page.goto(cluster.url);
  await live(page);
  const { old, leader, term } = await cluster.killLeader();
  expect(leader).not.toBe(old);
  const banner = page.getByRole('status').filter({ hasText: `${leader} leads` });
  await expect(banner).toContainText('0 runs lost');
  const took = /Failover took ([\d.]+) s/.exec((await banner.textContent()) ?? '');
  // From the last sign of life: a lease of three seconds ran out before anybody could follow.
  expect(Number(took?.[1])).toBeGreaterThanOrEqual(2);
  await expect(page.getByRole('group', { name: new RegExp(`${leader} leads, term ${term}$`) })).toBeVisible();
  await expect(page.locator('.cluster .chip')).toContainText(leader);
  await expect(page.locator('.pill')).toContainText('Live');
  await page.getByRole('button', { name: 'Watch again' }).click();
  await expect(page.getByRole('group', { name: new RegExp(`${old} leads`) })).toBeVisible();
  await expect(page.getByRole('group', { name: new RegExp(`${leader} leads`) })).toBeVisible();
});

test('the API is killed: the page says that it hears nothing, and goes on where it was when the API is back', async () => {
  test.setTimeout(90_000);
  const missed = cluster.run('tick');
  await missed;
  away = true;
  await cluster.killApi();
  await expect(page.locator('.pill')).not.toContainText('Live');
  await expect(page.locator('.pill')).toContainText(/Reconnecting|Stale/);
  await expect(page.getByText(/^\s*Caught up \d+ events?$/)).toBeVisible({ timeout: 45_000 });
  await live(page);
  away = false;
});

test('a hundred thousand runs are scrolled with fewer than sixty rows in the document', async () => {
  test.setTimeout(180_000);
  await filled;
  await page.goto(`${cluster.url}/runs?job=archived`);
  await live(page);
  const box = page.locator('.scroll');
  const rows = page.locator('[role=row]');
  for (let i = 0; i < 8; i++) {
    const before = await box.evaluate((one) => one.scrollHeight);
    await box.evaluate((one) => (one.scrollTop = one.scrollHeight));
    await expect.poll(() => box.evaluate((one) => one.scrollHeight)).toBeGreaterThan(before);
    expect(await rows.count()).toBeLessThan(60);
  }
  expect(Number(await rows.last().getAttribute('aria-rowindex'))).toBeGreaterThan(1500);
  expect(await page.evaluate(() => document.querySelectorAll('*').length)).toBeLessThan(2500);
  await page.goto(`${cluster.url}/runs`);
  await live(page);
  await expect(rows.nth(5)).toBeVisible();
});

test('axe finds nothing on what a real cluster fills the views with', async () => {
  test.setTimeout(120_000);
  const [failed] = (await cluster.runs('job=delivery&state=failed&limit=1')).items;
  const found: string[] = [];
  await page.emulateMedia({ reducedMotion: 'reduce' });
  for (const view of ['/?span=1h', '/jobs', '/logs', `/runs/${encodeURIComponent(failed?.id ?? '')}?tab=why`]) {
    await page.goto(cluster.url + view);
    await live(page);
    found.push(...(await axe(page, view)));
  }
  expect(found).toEqual([]);
});

test('a viewer sees everything and no button that would be refused', async ({ browser }) => {
  test.setTimeout(90_000);
  const other = await browser.newContext();
  const viewer = listen(await other.newPage());
  const refused: string[] = [];
  viewer.on('response', (answer) => {
    if (answer.status() >= 400) refused.push(`${answer.status()} ${answer.url()}`);
  });
  await login(viewer, VIEWER);
  const [failed] = (await cluster.runs('job=delivery&state=failed&limit=1')).items;
  await cluster.run('talker');
  for (const view of ['/', '/jobs', '/jobs/talker', '/runs', '/nodes', '/dead-letters', `/runs/${encodeURIComponent(failed?.id ?? '')}`]) {
    await viewer.goto(cluster.url + view);
    await live(viewer);
    await expect(viewer.getByRole('button', { name: /^(Run now|Run .* now|Pause\b|Resume|Replay|Edit and replay|Acknowledge|Cancel\b|Drain|Undrain|Step down)/ }), view).toHaveCount(0);
  }
  expect(refused).toEqual([]);
  await other.close();
});

test('nothing was said on the console in all that time', () => {
  expect(said).toEqual([]);
});
