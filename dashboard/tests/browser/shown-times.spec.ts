// Times and charts: dates that are not today, countdowns, gaps, and a log that follows or not.
import { expect } from '@playwright/test';
import { live, test } from './fixtures';

test('countdowns never read as clock times, and tiles name their window', async ({ stage, user }) => {
  await user.goto(stage.url);
  await live(user);
  const upcoming = user.getByRole('region', { name: 'Upcoming runs' });
  await expect(upcoming.getByRole('listitem').first()).toContainText(/^(now|in \d+ s)/);
  for (const text of await upcoming.locator('.left').allInnerTexts()) expect(text).toMatch(/^(now|in \d)/);
  for (const name of ['Throughput (now)', 'Lateness p99 (5 min)', 'Success (10 min)', 'Running (now)', 'Queued (now)', 'Dead letters (all)']) await expect(user.getByText(name, { exact: true })).toBeVisible();
});

test('a log that was scrolled up follows again with f, and only then pauses', async ({ stage, user }) => {
  await user.goto(`${stage.url}/logs`);
  await live(user);
  const log = user.getByRole('region', { name: 'Log', exact: true });
  const lines = user.getByRole('log', { name: 'Log lines' });
  await expect(log.getByRole('button', { name: 'Pause' })).toBeVisible();
  await lines.hover();
  const follow = log.getByRole('button', { name: /^Follow/ });
  // A busy browser may drop a turn of the wheel.
  await expect(async () => {
    await user.mouse.wheel(0, -1500);
    await expect(follow).toBeVisible({ timeout: 2000 });
  }).toPass();
  await expect(follow).toHaveText(/Follow \(\d+ new\)/);
  const atEnd = () => lines.evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 50);
  expect(await atEnd()).toBe(false);
  await user.keyboard.press('f');
  await expect(log.getByRole('button', { name: 'Pause' })).toBeVisible();
  await expect.poll(atEnd).toBe(true);
  // Paused, the lines stay in view and none is added.
  await user.keyboard.press('f');
  await expect(follow).toBeVisible();
  const last = await lines.locator('p').last().innerText();
  await expect(follow).toHaveText(/Follow \(\d+ new\)/);
  await expect(lines.locator('p').last()).toHaveText(last);
  expect(await lines.locator('p').count()).toBeGreaterThan(5);
  await follow.click();
  await expect.poll(() => lines.locator('p').last().innerText()).not.toBe(last);
});

test('a run of another year is shown with the year everywhere', { tag: '@prove' }, async ({ stage, user }) => {
  const run = stage.world.ended(900);
  const year = new Date().getUTCFullYear() - 1;
  const old = JSON.parse(JSON.stringify(run).replaceAll(String(year + 1) + '-', `${year}-`)) as typeof run;
  stage.world.find = () => ({ ...old, id: run.id });
  await user.goto(`${stage.url}/runs/${encodeURIComponent(run.id)}`);
  await live(user);
  const history = user.locator('.steps time');
  await expect(history.first()).toContainText(String(year));
  for (const text of await history.allInnerTexts()) expect(text).toContain(String(year));
  const instants = await history.evaluateAll((found) => found.map((one) => one.getAttribute('datetime') ?? ''));
  expect(instants).toEqual([...instants].sort((a, b) => Date.parse(a) - Date.parse(b)));
});
