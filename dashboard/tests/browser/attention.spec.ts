// Jobs that are stuck, overdue or failing, or never ran: on the overview, in the list, on their pages and on the wallboard.
import { expect, type Page } from '@playwright/test';
import { live, test } from './fixtures';
import { someTroubles } from './troubles';

const STUCK = 'recompute-prices';

test.beforeEach(({ stage }) => {
  stage.world.troubles = someTroubles();
});

async function open(page: Page, url: string) {
  await page.goto(url);
  await live(page);
}

test('the overview shows the jobs that need attention and leads to the filtered list', async ({ stage, user }) => {
  await open(user, stage.url);
  const card = user.getByRole('region', { name: 'Needs attention' });
  await expect(card.getByRole('link', { name: /^Stuck 1/ })).toBeVisible();
  await expect(card.getByRole('listitem').first()).toContainText(/Stuck.*recompute-prices.*no node can run this job\. eu-west-1: no label gpu \(needs gpu=h100\), and 11 other nodes.*6 m ago/s);
  await expect(card.getByRole('listitem')).toHaveCount(3);
  await card.getByRole('link', { name: /^Overdue 2/ }).click();
  await expect(user).toHaveURL(/\/jobs\?health=overdue$/);
  await expect(user.getByRole('row')).toHaveCount(3);
  // They recover.
  stage.world.troubles = [];
  await expect(user.getByText('No rows', { exact: false }).or(user.locator('.empty'))).toBeVisible();
  await open(user, stage.url);
  await expect(user.getByRole('region', { name: 'Cluster' })).toBeVisible();
  await expect(card).toHaveCount(0);
});

test('the list is filtered by pressed buttons whose numbers are those of the rows', async ({ stage, user }) => {
  await open(user, `${stage.url}/jobs`);
  const group = user.getByRole('group', { name: 'Needs attention' });
  for (const [name, rows] of [['Stuck', 1], ['Overdue', 2], ['Failing', 1], ['Never ran', 1]] as const) {
    const button = group.getByRole('button', { name: `${name} ${rows}`, exact: true });
    await button.click();
    await expect(button).toHaveAttribute('aria-pressed', 'true');
    await expect(user.getByRole('row')).toHaveCount(rows + 1);
  }
  await group.getByRole('button', { name: 'Stuck 1' }).click();
  const row = user.getByRole('row').nth(1);
  await expect(row).toContainText('Stuck');
  await expect(row).toContainText('no node can run this job: eu-west-1: no label gpu (needs gpu=h100)');
  await expect(row).not.toContainText('Active');
  await group.getByRole('button', { name: 'Stuck 1' }).click();
  await expect(user).toHaveURL(/\/jobs$/);
});

test('a job that no node can take shows the reason of each node, and is never active', { tag: '@prove' }, async ({ stage, user }) => {
  stage.world.behind.set(STUCK, 400);
  await open(user, `${stage.url}/jobs/${STUCK}`);
  const notice = user.getByRole('group', { name: 'Stuck' });
  await expect(notice).toContainText('no node can run this job');
  await expect(notice.getByRole('listitem')).toHaveText(['eu-west-1: no label gpu (needs gpu=h100)', 'batch-gpu-large-memory-frankfurt-07: label gpu=a100 (needs gpu=h100)', 'and 10 more']);
  await expect(user.locator('.head-line')).toContainText('Stuck');
  await expect(user.locator('.head-line')).not.toContainText('Active');
  await expect(user.locator('.fact').first()).toContainText('due 6 m ago');
  await notice.getByRole('link', { name: 'Explain' }).click();
  await expect(user).toHaveURL(/tab=why/);
  stage.world.troubles = [];
  await expect(notice).toHaveCount(0);
  await expect(user.locator('.head-line')).toContainText('Active');
});

test('the wallboard reports stuck and overdue jobs first', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/?tv=1`);
  await expect(user.getByRole('heading', { level: 1 })).toContainText('1 job stuck, 2 jobs overdue');
  await expect(user.locator('.note').first()).toContainText('recompute-prices: no node can run this job');
  stage.world.troubles = [];
  await expect(user.getByRole('heading', { level: 1 })).not.toContainText('stuck');
});
