// Every view: no axe violations, and nothing wider than the window. A short run looks at the first views, in one theme and at
// two widths; PROVE=1 at all, in both themes and at four widths.
import { expect, type Page } from '@playwright/test';
import { axe } from './axe';
import { test } from './fixtures';
import type { Stage } from './server';
import { someTroubles } from './troubles';
import { visit } from './visit';

const PROVE = process.env.PROVE !== undefined;
const WIDTHS = PROVE ? [1440, 1024, 390, 360] : [1024, 360];
const BATCH = 9;
const DAY_MS = 86_400_000;
/** The first batch has those that people open most. */
const VIEWS = [
  '/',
  '/jobs',
  '/jobs/rebuild-search-index?tab=why',
  '/jobs/nightly-report/edit',
  '/runs',
  'RUN',
  '/timeline',
  '/dead-letters',
  '/nodes',
  '/jobs/rebuild-search-index',
  '/jobs/nightly-report?tab=next',
  '/runs?q=task&state=failed,lost&kind=schedule&from=2025-01-01T00:00:00Z',
  '/incident',
  '/logs',
  '/chains',
  '/?span=24h',
  '/timeline?as=table',
  '/nodes/us-west-1',
  '/nodes/us-south-9',
  '/limits',
  '/settings/users',
  '/settings/keys',
  '/settings/roles',
  '/settings/sessions',
  '/settings/secrets',
  '/settings/alerts?name=billing',
  '/settings/calendars?name=holidays',
  '/settings/audit',
  '/settings/configuration',
  '/jobs/rebuild-search-index?tab=backfills',
  '/jobs/fraud-scores?tab=definition',
  '/cron',
  '/cron?job=nightly-report',
  '/load?job=nightly-report',
  '/load?hour=TOMORROWT02:00:00Z',
  '/jobs/nightly-report?tab=weeks',
  '/jobs/new',
  '/jobs/invoice-reminders?tab=versions',
  '/chaos',
  '/?tv=1',
  '/?at=BEFORE',
  '/jobs?at=BEFORE',
  '/logs?from=1800000000000&to=1800000900000',
  '/load',
];
/** With jobs that are stuck, overdue or failing. */
const TROUBLED = ['/', '/jobs', '/jobs/recompute-prices', '/?tv=1'];

/** The address of a view; the names of tests have no instants. */
function addressOf(stage: Stage, view: string): string {
  if (view === 'RUN') return `/runs/${encodeURIComponent(stage.world.dead()[0]!.id)}`;
  const at = (ms: number) => new Date(Date.now() + ms).toISOString();
  return view.replace('TOMORROW', at(DAY_MS).slice(0, 10)).replace('BEFORE', at(-100e3)); // the load is that of the coming week
}

async function open(stage: Stage, page: Page, view: string) {
  await visit(page, stage.url, addressOf(stage, view));
  await expect(page.locator('.pill')).toContainText(/Live|Frozen/);
  await expect(page.locator('.skeleton')).toHaveCount(0);
}

async function check(stage: Stage, page: Page, views: readonly string[]) {
  const found: string[] = [];
  for (const view of views) {
    await page.setViewportSize({ width: 1440, height: 900 });
    await open(stage, page, view);
    if (view === '/dead-letters') await page.locator('.why').first().click();
    found.push(...(await axe(page, view, { switches: PROVE })));
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 800 });
      const wide = () => page.evaluate(() => {
        const main = document.querySelector('main') as HTMLElement;
        // A table cuts off what does not fit into its rows.
        const rows = [...main.querySelectorAll('.tr')].map((row) => row.scrollWidth - row.clientWidth);
        return Math.max(main.scrollWidth - main.clientWidth, document.documentElement.scrollWidth - innerWidth, ...rows);
      });
      // Charts and tables adapt a moment after the window is resized.
      await expect.poll(wide, `${view} at ${width} px`).toBeLessThanOrEqual(0);
    }
  }
  expect(found).toEqual([]);
}

for (let i = 0; i < VIEWS.length; i += BATCH) {
  const views = VIEWS.slice(i, i + BATCH);
  test(`accessible and not too wide: ${views.join(' ')}`, { tag: i === 0 ? [] : '@prove' }, async ({ stage, user }) => {
    test.setTimeout(240_000);
    // Half of the batches begin in the light theme.
    await user.emulateMedia({ colorScheme: (i / BATCH) % 2 === 0 ? 'dark' : 'light' });
    await check(stage, user, views);
  });
}

test(`accessible and not too wide, with troubled jobs: ${TROUBLED.join(' ')}`, { tag: '@prove' }, async ({ stage, user }) => {
  test.setTimeout(120_000);
  stage.world.troubles = someTroubles();
  await check(stage, user, TROUBLED);
});

test('the menu of zones is accessible', async ({ stage, user }) => {
  await open(stage, user, '/logs');
  await user.getByRole('button', { name: /^Time zone/ }).click();
  expect(await axe(user, 'zones', { switches: false })).toEqual([]);
});
