// Dead letters: a group shows the newest real message, and what differs between its runs.
import { expect } from '@playwright/test';
import { axe } from './axe';
import { live, test } from './fixtures';

test('a group of dead letters shows the newest message, and each run its own error', async ({ stage, user }) => {
  const runs = stage.world.dead().filter((run) => run.error?.startsWith('exit code 1'));
  const [newest] = runs;
  expect(runs.length).toBeGreaterThan(3);
  await user.goto(`${stage.url}/dead-letters`);
  await live(user);
  const group = user.locator('.group').filter({ hasText: 'exit code 1' });
  await expect(group).toHaveCount(1);
  // The message is read as it is, also by screen readers; only the number of the order differs.
  await expect(group.locator('.reason')).toHaveText(newest!.error!);
  await expect(group.locator('.varies')).toHaveText([/^\d+$/]);
  await group.locator('.why').click();
  await expect(group.getByRole('listitem')).toHaveCount(runs.length);
  for (const [i, run] of runs.slice(0, 3).entries()) await expect(group.getByRole('listitem').nth(i)).toContainText(run.error!);
  // A reason whose message is always the same has no dimmed parts.
  await expect(user.locator('.group').filter({ hasText: 'Timed out after 10 m' }).locator('.varies')).toHaveCount(0);
  expect(await axe(user, 'dead letters')).toEqual([]);
});

test('more dead letters than the page loads are counted, and it says which are shown', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/dead-letters`);
  await live(user);
  await expect(user.locator('.head-line')).toContainText(`${stage.world.dead().length} open`);
  stage.world.moreDead = 3000;
  await expect(user.locator('.head-line')).toContainText('3,064 open · the newest 64 in');
  await expect(user.getByRole('link', { name: /Dead letters/ }).first()).toContainText('3,064');
});
