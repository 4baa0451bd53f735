import { expect } from '@playwright/test';
import { axe } from './axe';
import { live, test } from './fixtures';
import type { Stage } from './server';
import { LARGE, SHELL } from './world';

test('maintenance is started with a note and an end, shown on every page, and ended', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/nodes`);
  await live(user);
  await expect(user.getByRole('listitem').filter({ hasText: 'eu-west-2' })).toContainText('9 of 8');
  await user.getByRole('button', { name: 'Start maintenance' }).click();
  const dialog = user.getByRole('dialog');
  await expect(dialog.getByLabel('Note')).toBeFocused();
  await user.keyboard.type('database upgrade');
  await dialog.getByRole('combobox', { name: 'End' }).selectOption('at');
  await expect(dialog.getByRole('button', { name: 'Start maintenance' })).toBeDisabled();
  await dialog.getByLabel('Ends at').fill('2020-01-01T00:00');
  await expect(dialog.getByRole('alert')).toHaveText('This time has passed');
  await dialog.getByRole('combobox', { name: 'End' }).selectOption('4h');
  expect(await axe(user, 'dialog', { switches: false })).toEqual([]);
  await dialog.getByRole('button', { name: 'Start maintenance' }).click();
  const banner = user.getByRole('status').filter({ hasText: 'No new runs start; running jobs finish.' });
  await expect(banner).toContainText(/Maintenance since .* by ada, until .*left\): database upgrade\./);
  await expect(user.getByRole('button', { name: 'Start maintenance' })).toHaveCount(0);
  for (const view of ['Limits', 'Jobs']) {
    await user.getByRole('navigation').getByRole('link', { name: view }).click();
    await expect(banner).toBeVisible();
  }
  // A viewer sees it without the button.
  stage.world.role = 'viewer';
  await user.goto(`${stage.url}/?tv=1`);
  await expect(user.getByRole('heading', { name: 'Maintenance' })).toBeVisible();
  await user.goto(stage.url);
  await expect(banner).toBeVisible();
  await expect(banner.getByRole('button')).toHaveCount(0);
  stage.world.role = 'admin';
  await user.reload();
  await banner.getByRole('button', { name: 'End maintenance' }).click();
  await dialog.getByRole('button', { name: 'End maintenance' }).click();
  await expect(banner).toHaveCount(0);
});

test('sessions are revoked, the audit log is filtered, and single sign-on has a button and says why it failed', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/sessions`);
  await live(user);
  await user.getByRole('button', { name: 'Revoke the session 2c3d4e5f6071 of oidc:linus' }).click();
  await user.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await expect(user.getByRole('row').filter({ hasText: 'oidc:linus' })).toHaveCount(0);
  expect(stage.requests).toContain('DELETE /api/v1/sessions/2c3d4e5f6071');
  await expect(user).toHaveURL(/\/settings\/sessions$/);
  await user.getByRole('navigation', { name: 'Settings' }).getByRole('link', { name: 'Audit log' }).click();
  await expect(user.getByRole('row').filter({ hasText: 'job.change' })).toContainText('schedule: {"cron":"0 2 * * *"} → {"cron":"0 3 * * *"}');
  await user.getByLabel('Action').fill('login.refuse');
  await expect(user.getByRole('row')).toHaveCount(2);
  await expect(user).toHaveURL(/action=login\.refuse/);

  stage.world.role = 'viewer';
  stage.world.loginOptions = { password: false, single_sign_on: { name: 'Example ID', url: `${stage.url}/api/v1/auth/oidc/start` } };
  await user.goto(`${stage.url}/sessions`);
  await live(user);
  await expect(user.getByRole('link', { name: 'Roles' })).toBeVisible();
  await expect(user.getByRole('link', { name: 'Audit log' })).toHaveCount(0);

  // In a browser that is not logged in.
  const guest = await user.context().browser()!.newPage();
  await guest.goto(`${stage.url}/?sign_in=no_role`);
  await expect(guest.getByRole('alert')).toContainText('None of your groups has a role');
  await expect(guest.getByRole('link', { name: 'Sign in with Example ID' })).toBeVisible();
  await expect(guest.getByLabel('Password')).toHaveCount(0);
  expect(await axe(guest, 'single sign-on', { switches: false })).toEqual([]);
  await guest.getByRole('button', { name: 'Log in as admin' }).click();
  await expect(guest.getByLabel('Password')).toBeVisible();
  await guest.goto(`${stage.url}/jobs?state=paused`);
  await guest.getByRole('link', { name: 'Sign in with Example ID' }).click();
  await expect(guest).toHaveURL(`${stage.url}/api/v1/auth/oidc/start?next=%2Fjobs%3Fstate%3Dpaused`);
  // Back from the identity provider, with a session.
  await guest.goto(`${stage.url}/jobs#signed-in`);
  await live(guest);
  await expect(guest).toHaveURL(`${stage.url}/jobs`);
  await guest.close();
});

test('limits, pauses, open breakers and backfills are shown and changed', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/limits`);
  await live(user);
  const warehouse = user.getByRole('listitem', { name: 'Limit warehouse' });
  await expect(warehouse).toContainText('8 of 8 permits in use');
  await expect(warehouse.getByRole('meter')).toHaveAttribute('aria-valuenow', '8');
  await expect(warehouse.getByRole('button', { name: 'Show all 23' })).toBeVisible();
  await expect(warehouse.locator('a[href^="/runs/"]')).toHaveCount(5);
  await warehouse.locator('a[href^="/jobs/recompute-prices?tab=why&instant="]').first().click();
  await expect(user.getByRole('region', { name: 'Why' })).toBeVisible();

  await user.goto(`${stage.url}/jobs?state=paused`);
  const row = user.getByRole('row').filter({ hasText: 'mail-digest' });
  await expect(row).toContainText(/the mail provider is down, see the incident channel, by ada, until /);
  await expect(row).toContainText(/resumes in 1 h \d+ m/);
  await user.goto(`${stage.url}/jobs?q=fraud`);
  await expect(user.getByRole('row').filter({ hasText: 'fraud-scores' })).toContainText('12/20 failed');
  await user.getByRole('link', { name: 'fraud-scores' }).click();
  const breaker = user.getByRole('group', { name: 'Circuit breaker' });
  await expect(breaker).toContainText('12 of 20 attempts failed');
  await breaker.getByRole('button', { name: 'Close breaker' }).click();
  await expect(breaker).toHaveCount(0);

  const pause = user.locator('.notice', { hasText: 'Paused' });
  await user.getByRole('button', { name: 'Pause', exact: true }).click();
  await user.getByRole('dialog').getByLabel('Note').fill('target is down');
  await user.keyboard.press('Enter');
  await expect(pause).toContainText(/since .* by ada: target is down/);

  await user.goto(`${stage.url}/jobs/rebuild-search-index?tab=backfills`);
  const backfills = user.getByRole('region', { name: 'Backfills' });
  await expect(backfills).toContainText('108 succeeded');
  await expect(backfills).toContainText(/173 to come of 288 runs.*Ends in about/s);
  await expect(backfills.getByRole('progressbar')).toHaveAttribute('aria-valuenow', '112');
  await expect(backfills.getByRole('button', { name: 'Backfill', exact: true })).toBeDisabled();
  await backfills.getByRole('button', { name: 'Cancel backfill' }).click();
  await user.getByLabel('Reason').fill('wrong range');
  await user.getByRole('dialog').getByRole('button', { name: 'Cancel backfill' }).click();
  await expect(backfills).toContainText('by ada: wrong range');
  await backfills.getByRole('button', { name: 'Backfill', exact: true }).click();
  const dialog = user.getByRole('dialog');
  await dialog.getByLabel('Rate limit').fill('10/m');
  await dialog.getByRole('button', { name: 'Show what would run' }).click();
  await expect(dialog.getByRole('status')).toContainText('144 runs');
  await expect(dialog.getByRole('status')).toContainText('takes at least 14 m 24 s');
  expect(await axe(user, 'backfill dialog', { switches: false })).toEqual([]);
  // Another range has another number.
  await dialog.getByLabel('Instants').selectOption('all');
  await expect(dialog.getByRole('status')).toHaveText('');
  await user.keyboard.press('Enter');
  await dialog.getByRole('button', { name: 'Show what would run' }).click();
  await dialog.getByRole('button', { name: 'Start 144 runs' }).click();
  await expect(backfills).toContainText('rebuild-search-index~b9');

  // The one that waits longest. There is not always one.
  const longest = () => stage.world.recent(300).filter((run) => run.state === 'retrying').sort((a, b) => (a.check_at! < b.check_at! ? 1 : -1))[0]?.id ?? '';
  await expect.poll(longest).not.toBe('');
  await user.goto(`${stage.url}/runs/${encodeURIComponent(longest())}`);
  await expect(user.getByRole('region', { name: 'Why it is waiting' })).toContainText('Attempt 2 waits: limit warehouse is full');
});

test('jobs that follow each other are drawn, and every box is a link for the keyboard', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/chains?job=nightly-report`);
  await live(user);
  const graph = user.getByRole('group', { name: 'Graph of 4 jobs' });
  await expect(graph.getByRole('link')).toHaveCount(4);
  await expect(graph.getByText('failed', { exact: true })).toBeVisible();
  await graph.getByRole('link', { name: 'rebuild-search-index' }).focus();
  await user.keyboard.press('Enter');
  await expect(user).toHaveURL(/\/jobs\/rebuild-search-index$/);
  const chain = user.getByRole('region', { name: 'Chain' });
  await expect(chain).toContainText('Follows nightly-report on ended');
  await chain.getByRole('link', { name: 'nightly-report' }).click();
  await expect(user.getByRole('region', { name: 'Chain' })).toContainText('Followers invoice-reminders');
});

test('a run shows its chain with the reason of what was held back', async ({ stage, user }) => {
  const run = stage.world.recent(800).find((one) => one.job === 'nightly-report' && one.state === 'succeeded')!;
  // A tab that it does not have is its log.
  await user.goto(`${stage.url}/runs/${encodeURIComponent(run.id)}?tab=history`);
  await live(user);
  await expect(user.getByRole('region', { name: 'Log' })).toBeVisible();
  const items = user.getByRole('region', { name: 'Runs of the chain' }).getByRole('listitem');
  await expect(items).toHaveCount(5);
  await expect(items.first()).toHaveAttribute('aria-current', 'true');
  await expect(items.filter({ hasText: 'webhook-redelivery' })).toContainText(`${run.id} succeeded`);
});

test('the cron builder compares an expression with a job, whose page leads there', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/jobs/nightly-report`);
  await live(user);
  await user.getByTitle('Try another expression').click();
  const compared = user.getByRole('group', { name: 'Compared with nightly-report' });
  await expect(compared).toContainText('The job already has this schedule.');
  await expect(user.getByRole('combobox', { name: 'Time zone' })).toHaveValue('Europe/Berlin');
  await user.getByRole('textbox', { name: 'Expression' }).fill('30 4 * * *');
  await expect(compared).toContainText('+ 7 runs appear:');
  await expect(compared).toContainText('6 runs vanish: Wed 1 Jan 2031, 03:00:00; …');
  await user.getByLabel('Compare with job').fill('nobody');
  await user.getByLabel('Compare with job').blur();
  await expect(user.getByText("there is no job 'nobody'")).toBeVisible();
  await expect(user.getByRole('region', { name: 'Next runs' })).toBeVisible();
});

test('a failover shows a banner, the new leader and its duration', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(stage.url);
  await live(user);
  stage.loseLeader();
  await expect(user.getByText('No leader.')).toBeVisible();
  stage.elect('us-east-2');
  await expect(user.getByText('us-east-2 became leader').first()).toBeVisible();
  await expect(user.getByText('0 runs lost')).toBeVisible();
  await expect(user.getByRole('group', { name: /leader us-east-2, term 42/ })).toBeVisible();
});

test('an unresponsive leader is reported long before its lease expires', async ({ stage, user }) => {
  await user.goto(stage.url);
  await live(user);
  stage.silenceLeader();
  const banner = user.getByRole('status').filter({ hasText: 'No heartbeat from leader eu-central-1.' });
  await expect(banner).toContainText('new runs wait');
  stage.elect('us-east-2');
  await expect(user.getByText('us-east-2 became leader').first()).toBeVisible();
  await expect(banner).toHaveCount(0);
});

test('a recent failover is still shown after a reload', { tag: '@prove' }, async ({ stage, user }) => {
  stage.world.event('leader_elected', 'info', 'eu-central-1 is the leader, term 41', 3600e3, { node: 'eu-central-1', term: 41 });
  await user.goto(stage.url);
  await live(user);
  stage.loseLeader();
  await expect(user.getByText('No leader.')).toBeVisible();
  stage.elect('us-east-2');
  await expect(user.getByText('Failover took')).toBeVisible();
  await user.reload();
  await expect(user.getByText(/after eu-central-1\./)).toBeVisible();
});

test('a large result is loaded on request', { tag: '@prove' }, async ({ stage, user }) => {
  const run = stage.world.recent(900).find((one) => one.result_size !== null)!;
  await user.goto(`${stage.url}/runs/${encodeURIComponent(run.id)}`);
  await live(user);
  await expect(user.getByText('Large result')).toBeVisible();
  await user.getByRole('button', { name: 'Show result' }).click();
  await expect(user.getByText('all of them')).toBeVisible();
});

test('arguments can be edited only for jobs that take arguments', { tag: '@prove' }, async ({ stage, user }) => {
  const [without, some] = [stage.world.recent(3000).find((one) => one.job === SHELL && one.ended_at !== null)!, stage.world.dead()[0]!];
  for (const [run, n] of [[some, 1], [without, 0]] as const) {
    await user.goto(`${stage.url}/runs/${encodeURIComponent(run.id)}`);
    await live(user);
    await expect.poll(() => stage.requests.includes(`GET /api/v1/jobs/${run.job}`)).toBe(true);
    await expect(user.getByRole('button', { name: 'Replay', exact: true })).toBeVisible();
    await expect(user.getByRole('button', { name: 'Edit and replay' })).toHaveCount(n);
  }
});

test('the weeks of a job show the oldest run that is kept', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/jobs/nightly-report?tab=weeks`);
  await live(user);
  await expect(user.locator('.heat tbody td.day:not(.d0)')).toHaveCount(30);
  await expect(user.getByText('The oldest run is from')).toBeVisible();
});

test('a tick does not recreate a chart, so its zoom stays', async ({ stage, user }) => {
  await user.goto(stage.url);
  await live(user);
  const chart = user.getByRole('region', { name: 'Throughput' });
  const box = (await chart.locator('.u-over').boundingBox())!;
  await user.mouse.move(box.x + 80, box.y + 40);
  await user.mouse.down();
  await user.mouse.move(box.x + 220, box.y + 40, { steps: 4 });
  await user.mouse.up();
  await expect(chart.getByRole('button', { name: 'Reset zoom' })).toBeVisible();
  await chart.locator('.uplot').evaluate((one) => one.setAttribute('data-mark', 'same'));
  const { seq } = stage.world;
  await expect.poll(() => stage.world.seq).toBeGreaterThan(seq + 2);
  await expect(chart.locator('[data-mark]')).toHaveCount(1);
});

test('an unavailable Redis is reported', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(stage.url);
  await live(user);
  stage.redisDown = true;
  await expect(user.getByText('Redis is unavailable.')).toBeVisible({ timeout: 30_000 });
  stage.redisDown = false;
  await live(user);
});

test('filters are kept in the URL', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/jobs`);
  await live(user);
  await user.getByRole('button', { name: 'Paused' }).click();
  await expect(user).toHaveURL(/state=paused/);
  await expect(user.getByRole('row')).toHaveCount(3);
  await user.reload();
  await expect(user.getByRole('row')).toHaveCount(3);
});

test('the keyboard reaches everything', async ({ stage, user }) => {
  await user.goto(stage.url);
  await live(user);
  await user.keyboard.press('g');
  await user.keyboard.press('j');
  await expect(user).toHaveURL(/\/jobs$/);
  await live(user);
  await user.keyboard.press('j');
  await user.keyboard.press('Enter');
  await expect(user).toHaveURL(/\/jobs\/backup-postgres$/);
  await user.keyboard.press('Control+k');
  await user.getByRole('combobox').fill('nodes');
  await user.keyboard.press('Enter');
  await expect(user).toHaveURL(/\/nodes$/);
  await user.keyboard.press('?');
  await expect(user.getByRole('dialog', { name: 'Keyboard shortcuts' })).toBeVisible();
});

test('empty states', async ({ stage, user }) => {
  stage.world.empty = true;
  for (const [view, text] of [['/', 'No nodes are running'], ['/jobs', 'No jobs yet'], ['/runs', 'No runs match'], ['/dead-letters', 'No dead letters']] as const) {
    await user.goto(stage.url + view);
    await expect(user.getByText(text, { exact: true })).toBeVisible();
  }
});

test('a REST error is shown with a retry button', async ({ stage, user }) => {
  stage.failWith = 503;
  await user.goto(`${stage.url}/runs`);
  await expect(user.getByText('Redis is unavailable')).toBeVisible();
  stage.failWith = null;
  await user.getByRole('button', { name: 'Try again' }).click();
  await live(user);
  await expect(user.getByRole('row').nth(3)).toBeVisible();
});

/** Waits for `n` ticks. */
async function ticks(stage: Stage, n: number) {
  const { seq } = stage.world;
  await expect.poll(() => stage.world.seq, { timeout: 30_000 }).toBeGreaterThanOrEqual(seq + n);
}

/** The REST requests since the last call, without the host and without instants. */
function requested(stage: Stage): string[] {
  stage.sent = 0;
  return stage.requests.splice(0).map((request) => request.replace('/api/v1', '').replace(/since=[^&]*/, 'since=…'));
}

test('a view of an idle cluster requests nothing', { tag: '@prove' }, async ({ stage, context }) => {
  stage.world.idle = true;
  await context.addInitScript(() => localStorage.setItem('cronflow.login', 'yes'));
  for (const view of ['/', '/jobs', '/runs', '/timeline', '/dead-letters', '/nodes', '/logs', '/?tv=1']) {
    const page = await context.newPage();
    await page.goto(stage.url + view);
    await expect(page.locator('.pill').first()).toContainText('Live');
  }
  // What a view requests after the last run has ended is over.
  await ticks(stage, 8);
  expect(requested(stage)).not.toEqual([]);
  await ticks(stage, 5);
  expect(stage.requests).toEqual([]);
  expect(stage.sent).toBe(0);
});

test('of dead letters only the new ones are requested, and resolved ones disappear', { tag: '@prove' }, async ({ stage, user }) => {
  stage.world.idle = true;
  await user.goto(`${stage.url}/dead-letters`);
  await live(user);
  await expect(user.locator('.head-line')).toContainText('64 open');
  await ticks(stage, 2);
  requested(stage);
  const added = stage.world.addDead(3);
  await expect(user.locator('.head-line')).toContainText('67 open');
  await expect(user.getByRole('region', { name: 'OSError: disk full' })).toBeVisible();
  const ids = added.map((run) => `id=${encodeURIComponent(run.id)}`).join('&');
  const { sent } = stage;
  expect(requested(stage).sort()).toEqual([`GET /runs/dead-letters?limit=2000`, 'GET /runs/report?since=…', `GET /runs?${ids}&dead=true&brief=true&limit=100`]);
  expect(sent).toBeLessThan(10_000);
  // Another user acknowledges one.
  stage.world.resolve(added[0]!.id);
  await expect(user.locator('.head-line')).toContainText('66 open');
  expect(requested(stage).sort()).toEqual([`GET /runs/dead-letters?limit=2000`, 'GET /runs/report?since=…']);
});

test('the overview requests as many failures as it shows', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/`);
  await live(user);
  await expect(user.getByRole('region', { name: 'Recent failures' }).locator('li')).toHaveCount(7);
  expect(requested(stage).filter((request) => request.startsWith('GET /runs?'))[0]).toBe('GET /runs?dead=true&brief=true&limit=7');
});

test('dead letters are loaded again after a new snapshot, because their number may be the same', { tag: '@prove' }, async ({ stage, user }) => {
  stage.world.idle = true;
  await user.goto(`${stage.url}/dead-letters`);
  await live(user);
  await ticks(stage, 2);
  requested(stage);
  stage.forget();
  await expect.poll(() => requested(stage).filter((request) => request === 'GET /runs/dead-letters?limit=2000').length).toBe(1);
});

test.describe('100 nodes, 1,000 runs per second', () => {
  // Endless animations must not cost much here.
  test.use({ scale: LARGE, contextOptions: { reducedMotion: 'no-preference' } });

  test('the ring has one path per colour and few particles, which ticks do not recreate', { tag: '@prove' }, async ({ stage, user }) => {
    await user.goto(stage.url);
    await live(user);
    const rays = user.locator('.sectors path');
    await expect(rays.first()).toBeAttached();
    expect(await rays.count()).toBeLessThanOrEqual(5);
    await expect(user.locator('.board .node')).toHaveCount(0);
    // The ray at the top belongs to the first node; hovering shows its details.
    const { x, y, width } = (await user.locator('.board').boundingBox())!;
    await user.mouse.move(x + width / 2, y + width * 0.16);
    await expect(user.locator('.focused.shown')).toContainText('ap-south-1');
    await user.mouse.move(0, 0);
    const particles = user.locator('.particle');
    await expect.poll(() => particles.count()).toBeGreaterThan(0);
    expect(await particles.count()).toBeLessThanOrEqual(12);
    await user.evaluate(() => {
      const counter = window as unknown as { added: number };
      counter.added = 0;
      new MutationObserver((records) => (counter.added += records.reduce((sum, one) => sum + one.addedNodes.length, 0))).observe(document.querySelector('.board')!, { childList: true });
    });
    await ticks(stage, 3);
    expect(await user.evaluate(() => (window as unknown as { added: number }).added)).toBe(0);
    // Endless animations use only properties that the compositor animates.
    const animated = await user.evaluate(() => document.getAnimations().filter((one) => one.effect?.getComputedTiming().iterations === Infinity).flatMap((one) => (one.effect as KeyframeEffect).getKeyframes().flatMap((frame) => Object.keys(frame))));
    expect(new Set(animated.filter((key) => !['offset', 'computedOffset', 'easing', 'composite'].includes(key)))).toEqual(new Set(['opacity', 'transform']));
  });

  for (const view of ['/', '/nodes', '/logs', '/jobs']) {
    test(`text that ticks change on ${view} is laid out on its own`, { tag: '@prove' }, async ({ stage, user }) => {
      await user.goto(stage.url + view);
      await live(user);
      await user.evaluate(() => {
        const page = window as unknown as { written: Set<Node> };
        page.written = new Set();
        new MutationObserver((records) => records.forEach((one) => page.written.add(one.target))).observe(document.body, { characterData: true, subtree: true });
      });
      await ticks(stage, 4);
      // A layout boundary is an SVG or a box with strict containment that is not a flex or grid item.
      const found = await user.evaluate(() => {
        const alone = (box: Element | null): boolean => {
          if (box === null) return false;
          const item = box.parentElement === null || /flex|grid/.test(getComputedStyle(box.parentElement).display);
          return box.tagName === 'svg' || (getComputedStyle(box).contain === 'strict' && !item) || alone(box.parentElement);
        };
        const written = [...(window as unknown as { written: Set<Node> }).written].filter((one) => one.isConnected);
        return { written: written.length, others: written.filter((one) => !alone(one.parentElement)).map((one) => `${one.parentElement?.className}: ${one.nodeValue}`) };
      });
      expect(found.written).toBeGreaterThan(0);
      expect(found.others).toEqual([]);
    });
  }

  test('new runs do not move the rows of a scrolled table', async ({ stage, user }) => {
    await user.goto(`${stage.url}/runs`);
    await live(user);
    const rows = user.getByRole('rowgroup', { name: 'Runs, rows' });
    await rows.evaluate((box) => box.scrollTo({ top: 1500 }));
    const read = () => rows.evaluate((box) => {
      const top = box.getBoundingClientRect().top;
      const row = [...box.querySelectorAll('.tr')].find((one) => one.getBoundingClientRect().top >= top);
      return [box.scrollTop, row?.querySelector('a')?.getAttribute('href')];
    });
    await expect.poll(async () => (await read())[1]).toContain('/runs/');
    const before = await read();
    const more = user.getByRole('button', { name: /new runs/ });
    await expect(more).toBeVisible();
    expect(await read()).toEqual(before);
    await more.click();
    await expect(more).toBeHidden();
    expect((await read())[0]).toBe(0);
    expect((await read())[1]).not.toBe(before[1]);
  });

  test('the canvases of the timeline are at most as tall as the window and show the scrolled part', { tag: '@prove' }, async ({ stage, user }) => {
    await user.goto(`${stage.url}/timeline`);
    await live(user);
    const main = user.locator('main');
    await expect.poll(() => main.evaluate((one) => one.scrollHeight > 4 * one.clientHeight)).toBe(true);
    const tall = () => user.locator('.pane canvas').evaluateAll((all) => all.map((one) => one.clientHeight));
    const height = await main.evaluate((one) => one.clientHeight);
    for (const one of await tall()) expect(one).toBeLessThanOrEqual(height);
    expect(await tall()).toHaveLength(3);
    for (const share of [0.5, 1]) {
      await main.evaluate((one, share) => (one.scrollTop = share * one.scrollHeight), share);
      await expect.poll(() => user.locator('.pane').evaluate((one) => Math.round(one.getBoundingClientRect().bottom - one.closest('main')!.getBoundingClientRect().bottom))).toBeLessThanOrEqual(0);
      // Bars are painted in the visible part.
      await expect.poll(() => user.locator('.pane canvas').last().evaluate((one: HTMLCanvasElement) => {
        const copy = new OffscreenCanvas(one.width, one.height).getContext('2d', { willReadFrequently: true })!;
        copy.drawImage(one, 0, 0);
        return copy.getImageData(0, 30, one.width, one.height - 30).data.some((value) => value > 0);
      })).toBe(true);
    }
  });

  test('a hidden page requests no animation frames and paints when it is visible again', { tag: '@prove' }, async ({ stage, user }) => {
    await user.addInitScript(() => {
      const counter = window as unknown as { frames: number };
      counter.frames = 0;
      const request = requestAnimationFrame.bind(window);
      window.requestAnimationFrame = (work) => {
        counter.frames += 1;
        return request(work);
      };
    });
    const frames = () => user.evaluate(() => (window as unknown as { frames: number }).frames);
    const hide = (hidden: boolean) => user.evaluate((hidden) => {
      Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
    for (const view of ['/', '/timeline']) {
      await user.goto(stage.url + view);
      await live(user);
      await hide(true);
      // Lets requests from before finish.
      await ticks(stage, 1);
      const before = await frames();
      await ticks(stage, 3);
      expect(await frames(), view).toBe(before);
      await hide(false);
      await expect.poll(frames).toBeGreaterThan(before);
    }
  });

  test('new rows reuse the elements of rows that are gone', { tag: '@prove' }, async ({ stage, user }) => {
    await user.goto(`${stage.url}/runs`);
    await live(user);
    const row = user.locator('.scroll [role=row]').first();
    await expect(row).toBeVisible();
    await user.locator('.scroll [role=row]').evaluateAll((all) => all.forEach((one) => one.setAttribute('data-mark', 'kept')));
    const first = await row.innerText();
    await expect.poll(() => row.innerText()).not.toBe(first);
    await ticks(stage, 3);
    const [all, kept] = [await user.locator('.scroll [role=row]').count(), await user.locator('.scroll [data-mark]').count()];
    expect(kept).toBe(all);
  });
});

test('the wallboard shows the state of the cluster without navigation and closes with a key', async ({ stage, user }) => {
  await user.goto(`${stage.url}/?tv=1`);
  await live(user);
  await expect(user.getByRole('navigation')).toHaveCount(0);
  const verdict = user.getByRole('heading', { level: 1 });
  await expect(verdict).toContainText('1 circuit breaker open');
  stage.silenceLeader();
  await expect(verdict).toContainText('No heartbeat from leader eu-central-1');
  stage.loseLeader();
  await expect(verdict).toContainText('No leader');
  await user.reload();
  await live(user);
  await expect(verdict).toContainText('No leader');
  await user.keyboard.press('Escape');
  await expect(user.getByRole('navigation')).toBeVisible();
});

test('notifications report failures while the page is hidden, and blocked ones are explained', { tag: '@prove' }, async ({ stage, user }) => {
  await user.addInitScript(() => {
    class FakeNotification {
      static permission = sessionStorage.getItem('permission') ?? 'denied';
      static requestPermission = () => Promise.resolve(FakeNotification.permission);
      constructor(title: string, options: { body: string }) {
        const all = JSON.parse(sessionStorage.getItem('shown') ?? '[]') as string[];
        sessionStorage.setItem('shown', JSON.stringify([...all, `${title}: ${options.body}`]));
      }
    }
    Object.assign(window, { Notification: FakeNotification });
    let hidden = false;
    Object.defineProperty(document, 'hidden', { get: () => hidden });
    Object.assign(window, { hide: () => (hidden = true) });
  });
  const shown = () => user.evaluate(() => JSON.parse(sessionStorage.getItem('shown') ?? '[]') as string[]);
  const turnOn = async () => {
    await user.getByRole('button', { name: 'Account: ada, admin' }).click();
    await user.getByRole('button', { name: /^Notifications/ }).click();
  };
  await user.goto(stage.url);
  await live(user);
  await turnOn();
  await expect(user.getByText('Notifications are blocked')).toBeVisible();
  await user.evaluate(() => sessionStorage.setItem('permission', 'granted'));
  await user.reload();
  await live(user);
  await turnOn();
  await expect(user.getByRole('button', { name: 'Notifications on' })).toBeVisible();
  expect(await shown()).toHaveLength(1);
  // The setting is kept, and a visible page shows no notifications.
  await user.reload();
  await live(user);
  const fail = (job: string) => stage.emit(stage.world.event('runs_failed', 'error', `1 run of ${job} failed`, 0, { job, run: `${job}@1`, count: 1 }));
  fail('seen');
  await expect(user.getByText('1 run of seen failed')).toBeVisible();
  await user.evaluate(() => (window as unknown as { hide: () => void }).hide());
  fail('unseen');
  stage.emit(stage.world.event('job_paused', 'info', 'mail-digest paused'));
  await expect.poll(shown).toEqual([expect.stringContaining('CronFlow'), 'Failed: unseen: 1 run of unseen failed']);
});

test('the schedule load names the jobs of each hour and minute, by mouse and by keyboard', async ({ stage, user }) => {
  await user.goto(`${stage.url}/load`);
  await live(user);
  const map = user.getByRole('table', { name: /Starts in the busiest minute of each hour/ });
  await expect(map.getByRole('button')).toHaveCount(168);
  await expect(user.getByText('3 left out')).toBeVisible();
  // 02:00 in UTC is 03:00 in Berlin. The tab key reaches the busiest hour.
  const entry = map.locator('button[tabindex="0"]');
  await expect(entry).toHaveCount(1);
  await expect(entry).toHaveAccessibleName(/ 0[34]:00: 46 starts in the busiest minute, .* and 41 more/);
  await expect(entry).toHaveClass(/d5/);
  await entry.focus();
  await user.keyboard.press('ArrowRight');
  await user.keyboard.press('Enter');
  await expect(user).toHaveURL(/hour=2026|hour=20/);
  await user.keyboard.press('ArrowLeft');
  await user.keyboard.press('Enter');
  const hour = user.getByRole('region', { name: 'Selected hour' });
  await expect(hour.getByRole('row').nth(1)).toContainText('46');
  await expect(hour.getByRole('link').first()).toHaveAttribute('href', /^\/jobs\//);
  await expect(hour.getByRole('row').nth(1).getByRole('link')).toHaveCount(3);
  await hour.getByRole('button', { name: / more jobs of / }).first().click();
  await expect(hour.getByRole('row').nth(1).getByRole('link')).toHaveCount(10);
  await expect(hour.getByRole('row').nth(1)).toContainText('and 36 more');
  await hour.getByRole('button', { name: 'Show all 8 minutes' }).click();
  await expect(hour.getByRole('row')).toHaveCount(9);
  await hour.getByRole('button', { name: 'Close the hour' }).click();
  await expect(user).not.toHaveURL(/hour=/);
  await user.getByRole('region', { name: 'Busiest minutes' }).getByRole('button').first().click();
  await expect(hour.getByRole('row').nth(1)).toContainText('46');
  await user.getByRole('checkbox', { name: /more often than every 5 minutes/ }).check();
  await expect(user).toHaveURL(/frequent=true/);
  await expect(entry).toHaveAccessibleName(/50 starts/);
  await user.setViewportSize({ width: 390, height: 844 });
  await expect(map.getByRole('columnheader')).toHaveText(['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']);
  await expect(map.getByRole('button')).toHaveCount(168);
});

test('jobs that start together are spread in one change, which can be undone', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/load`);
  await live(user);
  const card = user.getByRole('region', { name: 'Spread jobs' });
  await card.getByLabel('Label').selectOption('team=billing');
  await card.getByRole('button', { name: 'Propose' }).click();
  await expect(card.locator('.big')).toContainText(/46\s*→\s*to\s*3\s*starts in the busiest minute/);
  await expect(card.getByRole('row')).toHaveCount(9);
  await card.getByRole('button', { name: 'Show all 12' }).click();
  await expect(card.getByRole('row')).toHaveCount(13);
  await card.getByText('11 of 14 jobs stay in place').click();
  await expect(card.getByText('because runs start in several minutes of an hour')).toBeVisible();
  expect(await axe(user, 'a plan', { switches: true })).toEqual([]);
  // A plan belongs to the label that it was made for.
  await card.getByLabel('Label').selectOption('');
  await expect(card.locator('.big')).toHaveCount(0);
  await card.getByLabel('Label').selectOption('team=billing');
  await card.getByRole('button', { name: 'Move 12 jobs' }).click();
  await user.getByRole('dialog').getByRole('button', { name: 'Move 12 jobs' }).click();
  await expect(user.getByText('12 jobs moved')).toBeVisible();
  await expect(card.getByText('No job needs to move')).toBeVisible();
  await expect(user.locator('.head-line')).not.toContainText('46');
  await user.getByRole('button', { name: 'Undo' }).click();
  await expect(user.locator('.head-line')).toContainText('46');
  expect(stage.requests.filter((one) => one === 'POST /api/v1/jobs/spread/apply')).toHaveLength(2);
});

test('a spread that somebody else was faster than moves nothing and says so', { tag: '@prove' }, async ({ stage, page }) => {
  await page.addInitScript(() => localStorage.setItem('cronflow.login', 'yes'));
  stage.world.changed = true;
  await page.goto(`${stage.url}/load`);
  await live(page);
  const card = page.getByRole('region', { name: 'Spread jobs' });
  await card.getByRole('button', { name: 'Propose' }).click();
  await card.getByRole('button', { name: 'Move 12 jobs' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Move 12 jobs' }).click();
  await expect(page.getByText('nightly-report changed since the plan was made; nothing was moved')).toBeVisible();
  await expect(card.getByRole('button', { name: 'Move 12 jobs' })).toBeVisible();
});

test('a viewer sees the schedule load without spreading', { tag: '@prove' }, async ({ stage, user }) => {
  stage.world.role = 'viewer';
  await user.goto(`${stage.url}/load`);
  await live(user);
  await expect(user.getByRole('region', { name: 'Busiest minutes' })).toBeVisible();
  await expect(user.getByRole('region', { name: 'Spread jobs' })).toHaveCount(0);
});
