import type { Page } from '@playwright/test';

/** Opens a view of a site. Only the first is loaded; from there, the others are reached as by a link. */
export async function visit(page: Page, site: string, view: string): Promise<void> {
  if (!page.url().startsWith(site)) {
    await page.goto(site + view);
    return;
  }
  await page.evaluate((address) => {
    history.pushState(null, '', address);
    dispatchEvent(new PopStateEvent('popstate'));
  }, view);
}
