// The page over plain http on a host that is not localhost, where browsers withhold a number of their interfaces.
import { expect, type Page } from '@playwright/test';
import { live, test } from './fixtures';
import type { Stage } from './server';

async function open(page: Page, stage: Stage, path: string) {
  await page.goto(stage.url.replace('127.0.0.1', 'cronflow.test') + path);
  await live(page);
  expect(await page.evaluate(() => isSecureContext)).toBe(false);
}

test('a job runs, and pressing twice requests two runs', async ({ user, stage }) => {
  await open(user, stage, '/jobs/nightly-report');
  const keys: string[] = [];
  user.on('request', (request) => {
    if (request.url().endsWith('/run')) keys.push(request.headers()['idempotency-key'] ?? '');
  });
  for (let i = 1; i <= 2; i++) {
    await user.getByRole('button', { name: 'Run now' }).click();
    await expect(user.getByText('Run of nightly-report requested')).toHaveCount(i);
  }
  expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
  expect(new Set(keys).size).toBe(2);
});

test('an error is copied', { tag: '@prove' }, async ({ user, stage }) => {
  const failed = stage.world.dead()[0]!;
  await open(user, stage, `/runs/${encodeURIComponent(failed.id)}`);
  await user.getByRole('button', { name: 'Copy the error' }).click();
  await expect(user.getByText('Error copied')).toBeVisible();
  await open(user, stage, '/jobs');
  await user.getByRole('searchbox').first().focus();
  await user.keyboard.press('Control+V');
  // In a field of one line Chromium pastes a space for each line break, and Firefox nothing.
  const words = (text: string) => text.replace(/\s/g, '');
  await expect.poll(async () => words(await user.getByRole('searchbox').first().inputValue())).toBe(words(failed.error ?? ''));
});

test('notifications and the screen lock are explained', { tag: '@prove' }, async ({ user, stage }) => {
  await open(user, stage, '/');
  await user.getByRole('button', { name: /^Account/ }).click();
  await user.getByRole('button', { name: /^Notifications/ }).click();
  await expect(user.getByText('Browsers show notifications only for pages over HTTPS or on localhost')).toBeVisible();
  await user.goto(new URL('/?tv=1', user.url()).href);
  await expect(user.getByText(/^This screen may turn off/)).toBeVisible();
});

const FAILURES = [
  { what: 'a network error', fail: 'network', text: 'The server is not responding' },
  { what: 'a 502 without a body', fail: { status: 502 }, text: 'The proxy cannot reach the API (HTTP 502)' },
  { what: 'a page of a proxy', fail: { status: 504, contentType: 'text/html', body: '<h1>nginx</h1>' }, text: 'The API did not respond in time (HTTP 504)' },
  { what: 'a 403 without a body', fail: { status: 403, contentType: 'application/json' }, text: 'Access was denied (HTTP 403)' },
  { what: 'a problem', fail: { status: 409, json: { title: 'Conflict', detail: 'nightly-report was deleted' } }, text: 'nightly-report was deleted' },
  { what: 'an answer that is not JSON', fail: { status: 202, contentType: 'application/json', body: 'O' }, text: 'The server sent a response that this page cannot read' },
] as const;

// A page whose console is not checked: browsers log failed requests.
test('every failed action shows a toast with the reason', async ({ page, stage }) => {
  await page.addInitScript(() => localStorage.setItem('cronflow.login', 'yes'));
  await open(page, stage, '/jobs/nightly-report');
  for (const { what, fail, text } of FAILURES) {
    await page.route('**/run', (route) => (fail === 'network' ? route.abort() : route.fulfill(fail)), { times: 1 });
    await page.getByRole('button', { name: 'Run now' }).click();
    const toast = page.locator('.toast');
    await expect(toast, what).toContainText(text);
    await toast.getByRole('button', { name: 'Dismiss' }).click();
    await expect(toast).toHaveCount(0);
  }
});
