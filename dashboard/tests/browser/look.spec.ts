// What holds for every view: the zone of times, the time range, phones and paper; and the graph of chains and limits.
import { expect } from '@playwright/test';
import { live, test } from './fixtures';

const PHONE = { width: 390, height: 844 };
const clock = (page: import('@playwright/test').Page) => page.getByRole('table', { name: 'Runs' }).locator('[data-at]').nth(8);

/** The time of an instant in a zone, as the page writes it. */
function timeIn(at: string, timeZone: string): string {
  return new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' }).format(Date.parse(at));
}

test('times are shown in local time, UTC or job time; the choice is kept, and part of links', async ({ stage, user }) => {
  await user.goto(`${stage.url}/runs`);
  await live(user);
  const shownIn = async (zone: string) => expect.poll(async () => {
    const at = await clock(user).getAttribute('data-at');
    return (await clock(user).textContent())?.endsWith(timeIn(at!, zone));
  }).toBe(true);
  await shownIn('Europe/Berlin');
  await user.getByRole('button', { name: 'Time zone: Europe/Berlin' }).click();
  await user.getByRole('button', { name: /^UTC/ }).click();
  await shownIn('UTC');
  await user.keyboard.press('Escape');
  await expect(user).toHaveURL(/\/runs\?tz=utc$/);
  await user.getByRole('navigation').getByRole('link', { name: 'Nodes' }).click();
  await expect(user).toHaveURL(/\/nodes\?tz=utc$/);
  // Kept in this browser, also for an address without it.
  await user.goto(`${stage.url}/runs`);
  await live(user);
  await shownIn('UTC');
  await expect(user).toHaveURL(/tz=utc/);
  // A link shows what its sender saw; a key changes it.
  await user.goto(`${stage.url}/runs?tz=local`);
  await live(user);
  await shownIn('Europe/Berlin');
  await user.locator('body').press('u');
  await shownIn('UTC');
  await user.locator('body').press('u');
  await user.goto(`${stage.url}/jobs/mail-digest`);
  await live(user);
  await expect(user.getByRole('button', { name: 'Time zone: Asia/Tokyo' })).toBeVisible();
});

test('a time shows all zones under the pointer and with the keyboard', async ({ stage, user }) => {
  await user.goto(`${stage.url}/runs`);
  await live(user);
  const at = (await clock(user).getAttribute('data-at'))!;
  await clock(user).hover();
  const tip = user.getByRole('tooltip');
  await expect(tip).toContainText('Local');
  await user.keyboard.press('Escape');
  await expect(tip).toHaveCount(0);
  await user.locator(`[data-at="${at}"]`).first().focus();
  await expect(tip).toContainText(`${timeIn(at, 'Europe/Berlin')}Europe/Berlin, UTC+`);
  await expect(tip).toContainText(timeIn(at, 'UTC'));
  await expect(tip).toContainText(new Date(at).toISOString());
});

test('the time range is kept from view to view', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/logs`);
  await live(user);
  await user.getByRole('combobox', { name: 'Time' }).selectOption('1h');
  const nav = user.getByRole('navigation', { name: 'Views' });
  for (const [view, address] of [['Runs', '/runs?span=1h'], ['Nodes', '/nodes'], ['Timeline', '/timeline?span=1h'], ['Dead letters', '/dead-letters?span=1h'], ['Overview', '/?span=1h']] as const) {
    await nav.getByRole('listitem').filter({ hasText: view }).getByRole('link').click();
    await expect(user).toHaveURL(stage.url + address);
  }
  await expect(user.getByRole('button', { name: '1 h', exact: true })).toHaveAttribute('aria-pressed', 'true');
  // Both ends: history, which does not move.
  await nav.getByRole('listitem').filter({ hasText: 'Logs' }).getByRole('link').click();
  await user.getByRole('combobox', { name: 'Time' }).selectOption('fixed');
  await expect(user).toHaveURL(/from=\d+&to=\d+/);
  await expect(user.getByRole('main').getByRole('button', { name: 'Pause', exact: true })).toHaveCount(0);
  await user.getByLabel('To', { exact: true }).fill('2020-01-01T00:00');
  await user.getByLabel('To', { exact: true }).blur();
  await expect(user.getByRole('alert')).toHaveText('The end must be after the start');
  await user.getByRole('button', { name: 'Clear the time range' }).click();
  await expect(user).toHaveURL(`${stage.url}/logs`);
});

test('on a phone, log lines wrap, failures have their message, and what can be pressed is large enough', { tag: '@prove' }, async ({ stage, user }) => {
  test.setTimeout(120_000);
  await user.setViewportSize(PHONE);
  await user.goto(`${stage.url}/logs`);
  await live(user);
  const lines = user.locator('.line');
  await expect(lines.first()).toBeVisible();
  const cut = () => lines.evaluateAll((all) => all.filter((line) => line.scrollWidth > line.clientWidth || line.scrollHeight > line.clientHeight + 1).map((line) => line.textContent));
  expect(await cut()).toEqual([]);
  await user.getByRole('button', { name: 'Wrap' }).click();
  await expect(user.locator('.whole')).toHaveCount(0);
  await user.goto(`${stage.url}/runs?state=failed`);
  await live(user);
  const failed = stage.world.recent(800).find((run) => run.state === 'failed')!;
  await expect(user.getByRole('cell').filter({ hasText: failed.error!.split('\n')[0]!.slice(0, 20) }).first()).toBeVisible();
  const filter = user.getByRole('button', { name: 'Failed', exact: true });
  await expect(filter).toBeInViewport({ ratio: 0.9 });
  const small: string[] = [];
  for (const view of ['/', '/jobs', '/runs', '/logs', '/dead-letters', '/chains', '/nodes', '/limits', '/load', '/cron', '/audit', '/jobs/nightly-report', '/timeline']) {
    await user.goto(stage.url + view);
    await live(user);
    const found = await user.locator('button:visible, select:visible, summary:visible, input:visible').evaluateAll((all) => all.filter((one) => {
      const { width, height } = one.getBoundingClientRect();
      const label = one.closest('label')?.getBoundingClientRect();
      return Math.min(width, height) < 23.5 && (label === undefined || Math.min(label.width, label.height) < 23.5);
    }).map((one) => `${one.getAttribute('aria-label') ?? one.textContent} ${one.className}`));
    small.push(...found.map((text) => `${view}: ${text}`));
  }
  expect(small).toEqual([]);
});

test('on paper there are no controls, the colours are light, and lists have all rows', { tag: '@prove' }, async ({ stage, user }) => {
  await user.setViewportSize({ width: 1024, height: 500 });
  await user.goto(`${stage.url}/runs`);
  await live(user);
  const rows = user.getByRole('table', { name: 'Runs' }).getByRole('row');
  await expect.poll(() => rows.count()).toBeLessThan(40);
  await user.evaluate(() => localStorage.setItem('cronflow.theme', 'dark'));
  await user.reload();
  await live(user);
  await user.emulateMedia({ media: 'print' });
  await expect(user.getByRole('navigation', { name: 'Views' })).toBeHidden();
  await expect(user.locator('html')).toHaveAttribute('data-theme', 'light');
  await expect.poll(() => rows.count()).toBeGreaterThan(100);
  await expect(rows.nth(90)).toBeVisible();
  expect(await user.evaluate(() => getComputedStyle(document.querySelector('main')!).overflowY)).toBe('visible');
  await user.emulateMedia({ media: 'screen' });
  await expect(user.locator('html')).toHaveAttribute('data-theme', 'dark');
  await expect.poll(() => rows.count()).toBeLessThan(40);
});

test('the graph of chains is zoomed, shows last states, and highlights what belongs to a job', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/chains`);
  await live(user);
  const graph = user.getByRole('group', { name: /^Graph of/ });
  const box = graph.getByRole('link', { name: /^rebuild-search-index, last run / });
  await box.focus();
  // Not what else follows the jobs that it follows.
  await expect(graph.locator('a.on')).toHaveCount(3);
  await expect(graph.getByRole('link')).toHaveCount(5);
  const width = async () => Number(await graph.getAttribute('width'));
  const before = await width();
  await user.getByRole('button', { name: 'Zoom in' }).click();
  await expect.poll(width).toBeGreaterThan(before * 1.2);
  await user.getByRole('region', { name: /^Graph/ }).press('0');
  await expect.poll(width).toBe(before);
});

test('of a thousand runs that wait for a limit, all can be read', { tag: '@prove' }, async ({ stage, user }) => {
  const at = new Date(stage.world.now() - 3_600_000).toISOString();
  const waiting = Array.from({ length: 1000 }, (_, i) => ({ run: `recompute-prices@manual-${i}`, since: at }));
  const limits = stage.world.limits();
  stage.world.limits = () => limits.map((limit) => (limit.name === 'warehouse' ? { ...limit, waiting } : limit));
  await user.goto(`${stage.url}/limits`);
  await live(user);
  const warehouse = user.getByRole('listitem', { name: 'Limit warehouse' });
  await expect(warehouse.getByRole('heading', { name: /^Waiting/ })).toHaveText(/1,000 or more.*longest 1 h/);
  await warehouse.getByRole('button', { name: 'Show all 1,000' }).click();
  await expect(warehouse.getByRole('link', { name: 'recompute-prices@manual-999' })).toHaveCount(1);
  await warehouse.getByRole('button', { name: 'Show the first 5' }).click();
  await expect(warehouse.getByRole('link', { name: 'recompute-prices@manual-999' })).toHaveCount(0);
});
