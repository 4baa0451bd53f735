import { test, type Page } from '@playwright/test';
import { Stage } from './server';

const OUT = process.env.SHOTS ?? 'test-results/shots';
const ONLY = process.env.ONLY?.split(',');
const SIZES = [[1440, 900], [1024, 768], [360, 740]] as const;
const VIEWS: [string, string][] = [
  ['overview', '/'], ['jobs', '/jobs'], ['job', '/jobs/rebuild-search-index'], ['job-why', '/jobs/nightly-report?tab=why'], ['job-next', '/jobs/nightly-report?tab=next'], ['runs', '/runs'], ['timeline', '/timeline'],
  ['logs', '/logs'], ['dead', '/dead-letters'], ['nodes', '/nodes'], ['cron', '/cron?cron=0+2+*+*+*&tz=Europe/Berlin'], ['run', 'FAILED'],
];

async function login(page: Page) {
  await page.addInitScript(() => localStorage.setItem('cronflow.refresh', 'session.random'));
}

for (const theme of ['dark', 'light'] as const) {
  for (const [width, height] of SIZES) {
    test(`${theme} ${width}`, async ({ browser }) => {
      const stage = await Stage.open();
      const context = await browser.newContext({ viewport: { width, height }, timezoneId: 'Europe/Berlin', colorScheme: theme });
      const page = await context.newPage();
      await page.goto(stage.url);
      await page.waitForTimeout(400);
      if (!ONLY || ONLY.includes('login')) await page.screenshot({ path: `${OUT}/${theme}-${width}-login.png` });
      await login(page);
      for (const [name, path] of VIEWS) {
        if (ONLY && !ONLY.includes(name)) continue;
        await page.goto(stage.url + (path === 'FAILED' ? `/runs/${encodeURIComponent(stage.world.dead()[1]!.id)}` : path));
        await page.waitForTimeout(1800);
        if (name === 'dead') await page.locator('.why').first().click();
        await page.waitForTimeout(300);
        await page.screenshot({ path: `${OUT}/${theme}-${width}-${name}.png` });
        if (name === 'overview' && width === 1440) {
          await page.setViewportSize({ width, height: 1750 });
          await page.waitForTimeout(700);
          await page.screenshot({ path: `${OUT}/${theme}-${width}-overview-full.png` });
          await page.setViewportSize({ width, height });
        }
      }
      if (!ONLY || ONLY.includes('extra')) {
        await page.goto(stage.url);
        await page.waitForTimeout(1200);
        await page.keyboard.press('Control+k');
        await page.waitForTimeout(300);
        await page.keyboard.type('report');
        await page.waitForTimeout(400);
        await page.screenshot({ path: `${OUT}/${theme}-${width}-palette.png` });
        await page.keyboard.press('Escape');
        stage.loseLeader();
        await page.waitForTimeout(2200);
        await page.screenshot({ path: `${OUT}/${theme}-${width}-leaderless.png` });
        stage.elect('us-east-2');
        await page.waitForTimeout(2800);
        await page.screenshot({ path: `${OUT}/${theme}-${width}-failover.png` });
        stage.redisAway = true;
        await page.waitForTimeout(16_500);
        await page.screenshot({ path: `${OUT}/${theme}-${width}-stale.png` });
      }
      await context.close();
      await stage.close();
    });
  }
}
