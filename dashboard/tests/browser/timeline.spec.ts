// The timeline, why a run was late, and the runs that a failover moved, with a simulated cluster.
import { expect, type Page } from '@playwright/test';
import { axe } from './axe';
import { live, test } from './fixtures';

const encoded = encodeURIComponent;

async function open(page: Page, url: string) {
  await page.goto(url);
  await live(page);
}

test.describe('why a run was late', () => {
  test('its parts are on one axis with their lengths and words', async ({ stage, user }) => {
    const late = Array.from({ length: 40 }, (_, i) => stage.world.run(i + 20)).find((run) => run.id.endsWith('7') && run.started_at !== null)!.id;
    await open(user, `${stage.url}/runs/${encoded(late)}?tab=why`);
    await user.emulateMedia({ reducedMotion: 'reduce' });
    const axis = user.getByRole('region', { name: 'Why it started late' });
    await expect(axis.getByRole('img', { name: /No leader 17 s, Planning 300 ms, Waiting 4.1 s/ })).toBeVisible();
    await expect(axis.getByRole('listitem')).toHaveCount(6);
    await expect(axis).toContainText('24 s late');
    await expect(axis.getByRole('listitem').last()).toContainText('not recorded');
    await expect(axis.getByRole('listitem').nth(2).getByRole('link')).toHaveAttribute('href', /\/runs\//);
    expect(await axe(user, 'late')).toEqual([]);
  });
});

test.describe('a failover', () => {
  test('lists the runs that it moved when it is replayed', { tag: '@prove' }, async ({ stage, user }) => {
    await open(user, stage.url);
    stage.loseLeader();
    await expect(user.getByText('No leader.')).toBeVisible();
    stage.elect('us-east-2');
    await expect(user.getByText('us-east-2 became leader')).toBeVisible();
    const moves = 'nightly-report@20261121T010000Z eu-central-1 us-east-1\nsync-tokens@20261121T115930Z eu-central-1 eu-west-2';
    stage.emit(stage.world.event('runs_reassigned', 'warn', '3 runs of lost workers were reassigned', 0, { count: 3, run: 'x', moves, term: stage.world.term }));
    await expect(user.getByRole('button', { name: '3 reassigned runs' })).toBeVisible();
    await user.getByRole('button', { name: 'Replay failover' }).click();
    await expect(user.getByRole('group', { name: /leader eu-central-1/ })).toBeVisible();
    const moved = user.getByRole('region', { name: 'Runs reassigned by the failover' });
    await expect(moved.getByRole('listitem')).toHaveCount(2);
    await expect(moved.getByRole('listitem').first()).toHaveText(/nightly-report@20261121T010000Z\s+from eu-central-1\s+→to\s+us-east-1/);
    await expect(moved).toContainText('Showing 2 of 3 runs');
    await expect(moved.getByRole('link').first()).toHaveAttribute('href', '/runs/nightly-report%4020261121T010000Z');
    await user.getByRole('button', { name: '3 reassigned runs' }).click();
    await expect(moved).toHaveCount(0);
  });
});

test.describe('the timeline', () => {
  test('names what is not loaded, and filters by job, label and node', { tag: '@prove' }, async ({ stage, user }) => {
    await open(user, `${stage.url}/timeline?span=1h`);
    await expect(user.getByRole('status').filter({ hasText: 'narrow the range' })).toHaveText(/Showing 2,000 of 14,210 runs; narrow the range/);
    await user.getByRole('combobox', { name: 'Job' }).fill('tokens');
    await user.keyboard.press('Tab');
    await expect(user.getByText(/match the filters/)).toBeVisible();
    await user.getByRole('combobox', { name: 'Job' }).fill('sync-tokens');
    await user.keyboard.press('Tab');
    await expect.poll(() => stage.requests.some((one) => one.includes('/runs?') && one.includes('job=sync-tokens'))).toBe(true);
    await user.getByLabel('Node', { exact: true }).selectOption('us-east-1');
    await expect(user).toHaveURL(/node=us-east-1/);
    await expect.poll(() => stage.requests.some((one) => one.includes('/timeline?') && one.includes('node=us-east-1'))).toBe(true);
  });

  test('has marks with their words, and the next fires in its table', { tag: '@prove' }, async ({ stage, user }) => {
    await open(user, `${stage.url}/timeline`);
    const mark = user.getByRole('button', { name: /us-east-2 is the leader, term 41/ });
    await mark.focus();
    await expect(user.locator('.tip')).toContainText('us-east-2 is the leader, term 41');
    await user.getByRole('button', { name: 'Table' }).click();
    await expect(user.getByRole('region', { name: 'Changes in this time range' }).getByRole('row')).toHaveCount(4);
    await expect(user.getByRole('region', { name: 'Due next' })).toContainText('usage-rollup');
  });

  test('opens the job of a fire that is due, and shows nothing on the name of a node', { tag: '@prove' }, async ({ stage, user }) => {
    await open(user, `${stage.url}/timeline`);
    const pane = user.getByRole('group', { name: /^Attempts on/ });
    const tip = pane.locator('.tip');
    const { x, y, width, height } = (await pane.boundingBox())!;
    let tips = 0;
    for (let down = 84; down < height; down += 8) {
      await user.mouse.move(x + 122, y + down);
      expect(await tip.count()).toBe(0);
      await user.mouse.move(x + 400, y + down);
      tips += await tip.count();
    }
    expect(tips).toBeGreaterThan(0);
    const fire = tip.filter({ hasText: /due .*, in / });
    await expect(async () => {
      for (let right = width * 0.88; right < width && (await fire.count()) === 0; right += 4) await user.mouse.move(x + right, y + 50);
      expect(await fire.count()).toBe(1);
    }).toPass();
    const job = await fire.locator('b').textContent();
    await user.mouse.down();
    await user.mouse.up();
    await expect(user).toHaveURL(`${stage.url}/jobs/${job}`);
  });

  test('zooms and moves by keyboard, by wheel and by drag, and goes to a time', async ({ stage, user }) => {
    await open(user, `${stage.url}/timeline`);
    const pane = user.getByRole('group', { name: /^Attempts on/ });
    const length = () => {
      const query = new URL(user.url()).searchParams;
      return Number(query.get('to')) - Number(query.get('from'));
    };
    await pane.focus();
    await user.keyboard.press('+');
    await expect.poll(length).toBeGreaterThan(160_000);
    expect(length()).toBeLessThan(180_000);
    const from = Number(new URL(user.url()).searchParams.get('from'));
    await user.keyboard.press('ArrowLeft');
    await expect.poll(() => Number(new URL(user.url()).searchParams.get('from'))).toBeLessThan(from - 40_000);
    const before = length();
    await pane.hover({ position: { x: 500, y: 120 } });
    await user.keyboard.down('Control');
    // A busy browser may drop a turn of the wheel.
    await expect(async () => {
      await user.mouse.wheel(0, -300);
      await expect.poll(length, { timeout: 2000 }).toBeLessThan(before);
    }).toPass();
    await user.keyboard.up('Control');
    await user.getByRole('button', { name: 'Back to live' }).click();
    await expect(user).not.toHaveURL(/from=/);
    const field = user.getByLabel('Go to a time');
    await field.fill('tomorrow');
    await field.press('Enter');
    await expect(user.getByRole('alert')).toContainText('This is not a time');
    await field.fill('2026-11-20T15:54:41Z');
    await field.press('Enter');
    await expect.poll(() => (Number(new URL(user.url()).searchParams.get('from')) + Number(new URL(user.url()).searchParams.get('to'))) / 2).toBe(Date.UTC(2026, 10, 20, 15, 54, 41));
    const wide = length();
    await expect(user.getByText('No runs in this time range')).toBeVisible();
    const box = (await pane.boundingBox())!;
    await user.mouse.move(box.x + 300, box.y + 120);
    await user.mouse.down();
    await user.mouse.move(box.x + 400, box.y - 20, { steps: 4 });
    await user.mouse.move(box.x + 500, box.y + 120, { steps: 4 });
    await user.mouse.up();
    await expect.poll(length).toBeLessThan(wide / 2);
  });
});
