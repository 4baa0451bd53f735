// The fixtures of tests with a simulated cluster: each test has its own, and a page of a logged-in user.
import { expect, test as base, type Page } from '@playwright/test';
import { Stage } from './server';
import { SMALL, type Scale } from './world';

const EXPECTED_ERRORS = /status of (401|404|409|422|503)/; // logged by the browser for responses that tests provoke

export const test = base.extend<{ scale: Scale; stage: Stage; user: Page }>({
  scale: [SMALL, { option: true }],
  stage: async ({ scale }, use) => {
    const stage = await Stage.open(scale);
    await use(stage);
    await stage.close();
  },
  // A page of a logged-in user. Errors and warnings on its console fail the test.
  user: async ({ page }, use) => {
    const errors: string[] = [];
    page.on('console', (message) => {
      if ((message.type() === 'error' || message.type() === 'warning') && !EXPECTED_ERRORS.test(message.text()) && !message.text().includes('WebSocket')) errors.push(`${message.text()} ${message.location().url}`);
    });
    page.on('pageerror', (error) => errors.push(error.stack ?? String(error)));
    await page.addInitScript(() => {
      // Firefox runs this in its first, blank page too, which has no storage.
      if (location.protocol === 'http:') localStorage.setItem('cronflow.login', 'yes');
    });
    await use(page);
    expect(errors).toEqual([]);
  },
});

/** Waits until the page is connected and loaded. */
export async function live(page: Page) {
  await expect(page.locator('.pill')).toContainText('Live');
  await expect(page.locator('.skeleton')).toHaveCount(0);
}
