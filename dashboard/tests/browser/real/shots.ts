// Screenshots of every view at three widths in both themes, after failures, retries and a failover. ONLY=jobs,runs limits
// them to some views; SHOTS is the output folder.
import { test, type Page } from '@playwright/test';
import { ADMIN, Cluster, waitFor } from './cluster';

const OUT = process.env.SHOTS ?? '';
const ONLY = process.env.ONLY?.split(',');
const SIZES = [[1440, 900], [1024, 768], [360, 740]] as const;
/** How long the cluster runs before the screenshots are taken. */
const WARM_UP_MS = Number(process.env.WARM_UP_MS ?? 45_000);

test('screenshots', async ({ browser }) => {
  const cluster = await Cluster.up();
  try {
    for (let i = 0; i < 4; i++) await cluster.run('delivery');
    await waitFor('four dead letters', async () => (await cluster.runs('dead=true')).items.length === 4);
    await new Promise((resolve) => setTimeout(resolve, WARM_UP_MS));
    const dead = (await cluster.runs('dead=true')).items[0]?.id ?? '';
    const retried = (await cluster.runs('job=flaky-import&state=succeeded')).items[0]?.id ?? '';
    const views: [string, string][] = [
      ['overview', '/'], ['overview-1h', '/?span=1h'], ['jobs', '/jobs'], ['job', '/jobs/flaky-import'],
      ['job-next', '/jobs/nightly-backup?tab=next'], ['job-weeks', '/jobs/flaky-import?tab=weeks'], ['load', '/load?job=nightly-backup'], ['job-versions', '/jobs/tick?tab=versions'], ['runs', '/runs'],
      ['run-failed', `/runs/${encodeURIComponent(dead)}`], ['run-retried', `/runs/${encodeURIComponent(retried)}`],
      ['run-why', `/runs/${encodeURIComponent(retried)}?tab=why`], ['timeline', '/timeline'], ['logs', '/logs'],
      ['dead', '/dead-letters'], ['nodes', '/nodes'], ['cron', '/cron?cron=0+2+*+*+*&tz=Europe/Berlin'], ['chaos', '/chaos'], ['wall', '/?tv=1'],
    ];
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(cluster.url);
    await page.screenshot({ path: `${OUT}/login.png` });
    await page.getByLabel('Username').fill(ADMIN.name);
    await page.getByLabel('Password').fill(ADMIN.password);
    await page.getByRole('button', { name: 'Log in' }).click();
    await settled(page);
    await cluster.killLeader();
    await page.getByText('Failover took').waitFor();
    await page.waitForTimeout(1500);
    await page.screenshot({ path: `${OUT}/failover.png` });
    for (const [width, height] of SIZES) {
      await page.setViewportSize({ width, height });
      for (const theme of ['dark', 'light'] as const) {
        await page.evaluate((name) => localStorage.setItem('cronflow.theme', name), theme);
        for (const [name, path] of views) {
          if (ONLY !== undefined && !ONLY.includes(name)) continue;
          await page.goto(cluster.url + path);
          await settled(page);
          if (name === 'dead') await page.locator('.why').first().click();
          await page.waitForTimeout(1500);
          await page.screenshot({ path: `${OUT}/${name}-${width}-${theme}.png` });
          if (name !== 'overview') continue;
          const tall = await page.evaluate(() => (document.querySelector('main')?.scrollHeight ?? 0) + 120);
          await page.setViewportSize({ width, height: tall });
          await page.waitForTimeout(800);
          await page.screenshot({ path: `${OUT}/${name}-whole-${width}-${theme}.png` });
          await page.setViewportSize({ width, height });
        }
      }
    }
  } finally {
    await cluster.down();
  }
});

async function settled(page: Page) {
  await page.locator('.pill', { hasText: 'Live' }).waitFor({ timeout: 30_000 });
  await page.waitForFunction(() => document.querySelector('.skeleton') === null);
}
