// What the page shows while MongoDB hangs, Redis is stopped or the API fails, and that it recovers by itself.
import { expect } from '@playwright/test';
import { axe } from './axe';
import { live, test } from './fixtures';

test('while MongoDB hangs the page opens with its frame and the reason, and continues by itself', { tag: '@prove' }, async ({ stage, user }) => {
  stage.hangMongo();
  await user.goto(`${stage.url}/jobs`);
  await expect(user.getByRole('navigation')).toBeVisible();
  await expect(user.locator('main')).toContainText('MongoDB is unavailable');
  await expect(user.locator('main')).toContainText('You stay logged in');
  await expect(user.getByRole('status').filter({ hasText: 'No new runs are planned until it is back' })).toBeVisible();
  await expect(user.getByLabel('Password')).toHaveCount(0);
  expect(await axe(user, 'starting')).toEqual([]);
  stage.resumeMongo();
  await live(user);
  await expect(user.getByRole('link', { name: 'backup-postgres', exact: true })).toBeVisible();
  await expect(user.getByText('MongoDB is unavailable')).toHaveCount(0);
});

test('when MongoDB hangs an open page says so and keeps its live values', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(stage.url);
  await live(user);
  stage.hangMongo();
  const banner = user.getByRole('status').filter({ hasText: 'MongoDB is unavailable' });
  await expect(banner).toContainText('Running jobs continue, and nodes keep finished results on disk.');
  await expect(user.locator('.pill')).toContainText('Live');
  stage.resumeMongo();
  await expect(user.getByText('MongoDB is unavailable')).toHaveCount(0);
});

test('without Redis the page opens, says what still works, and becomes live by itself', { tag: '@prove' }, async ({ stage, user }) => {
  stage.redisDown = true;
  await user.goto(stage.url);
  const banner = user.getByRole('status').filter({ hasText: 'Redis is unavailable' });
  await expect(banner).toContainText('jobs, runs and logs can still be read here');
  const main = user.locator('main');
  await expect(main).toContainText('No live values');
  expect(await axe(user, 'no values')).toEqual([]);
  await main.getByRole('link', { name: 'Jobs', exact: true }).click();
  await expect(user.getByRole('link', { name: 'backup-postgres', exact: true })).toBeVisible();
  stage.redisDown = false;
  await live(user);
  await expect(user.getByText('Redis is unavailable')).toHaveCount(0);
});

test('without Redis the wallboard says so', { tag: '@prove' }, async ({ stage, user }) => {
  stage.redisDown = true;
  await user.goto(`${stage.url}/?tv=1`);
  await expect(user.getByRole('heading', { level: 1 })).toContainText('Redis is unavailable');
  stage.redisDown = false;
  await expect(user.getByRole('region', { name: 'Key figures' })).toBeVisible();
});

const [FIRST, ...OTHERS] = ['/', '/jobs', '/jobs/nightly-report', '/jobs/nightly-report?tab=next', '/runs', '/dead-letters', '/chains', '/limits', '/sessions', '/audit', '/load'] as const;
for (const view of [FIRST, ...OTHERS]) {
  test(`${view} shows an error with a retry, and loads by itself when the server is back`, { tag: view === FIRST ? [] : '@prove' }, async ({ stage, user }) => {
    await user.goto(stage.url);
    await live(user);
    stage.failWith = 503;
    await user.goto(stage.url + view);
    const failed = user.getByRole('alert').filter({ hasText: 'Try again' }).first();
    await expect(failed).toContainText('This page retries automatically');
    stage.failWith = null;
    await expect(failed).toHaveCount(0);
    await live(user);
  });
}
