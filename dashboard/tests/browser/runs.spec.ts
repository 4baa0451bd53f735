// The Runs view: search, filters, order, columns, and actions on all runs that match.
import { expect, type Page } from '@playwright/test';
import { axe } from './axe';
import { live, test } from './fixtures';
import type { Stage } from './server';

const rows = (page: Page) => page.getByRole('table', { name: 'Runs' }).getByRole('row').filter({ has: page.getByRole('cell') });
const lists = (stage: Stage) => stage.requests.filter((one) => one.startsWith('GET /api/v1/runs?'));

async function open(stage: Stage, page: Page, query = '') {
  await page.goto(`${stage.url}/runs${query}`);
  await live(page);
}

test('jobs are found by a part of their name, with the keyboard', async ({ stage, user }) => {
  await open(stage, user);
  const search = user.getByRole('combobox', { name: 'Job' });
  await search.fill('sync');
  const options = user.getByRole('listbox', { name: 'Jobs' }).getByRole('option');
  await expect(options).toHaveText(['Names that contain sync', 'sync-tokens']);
  expect(stage.requests.filter((one) => one.includes('/job-names')).every((one) => one.includes('limit=10'))).toBe(true);
  await search.press('ArrowDown');
  await search.press('ArrowDown');
  await expect(options.nth(1)).toHaveAttribute('aria-selected', 'true');
  await expect(search).toHaveAttribute('aria-activedescendant', /-1$/);
  expect(await axe(user, 'suggestions', { switches: false })).toEqual([]);
  await search.press('Enter');
  await expect(user).toHaveURL(/\/runs\?job=sync-tokens$/);
  await expect(options).toHaveCount(0);
  await search.fill('-task-');
  await expect(options.first()).toHaveText('Names that contain -task-');
  await search.press('Enter');
  await expect(user).toHaveURL(/\/runs\?q=-task-$/);
  await expect(rows(user).first().getByRole('cell').nth(1)).toContainText('-task-');
  // Escape closes the list and keeps the text.
  await search.press('ArrowDown');
  await expect(options.first()).toBeVisible();
  await search.press('Escape');
  await expect(options).toHaveCount(0);
  await search.fill('');
  await expect(user).toHaveURL(/\/runs$/);
});

test('runs are filtered by kind, label, node and time range, and the filter is in the URL', async ({ stage, user }) => {
  await open(stage, user);
  await user.getByRole('combobox', { name: 'Kind' }).selectOption('manual');
  await user.getByRole('combobox', { name: 'Label' }).fill('team=billing');
  await user.getByRole('combobox', { name: 'Label' }).press('Enter');
  await user.getByRole('combobox', { name: 'Time' }).selectOption('fixed');
  const from = new Date(Date.now() - 7200e3).toISOString();
  await user.getByLabel('From').fill('2026-01-02T03:04');
  await user.getByLabel('From').press('Tab');
  await expect(user).toHaveURL(new RegExp(`kind=manual&label=team%3Dbilling&from=${Date.parse('2026-01-02T02:04:00Z')}&to=`));
  await expect.poll(() => lists(stage).at(-1)).toContain('label=team%3Dbilling&kind=manual&since=2026-01-02T02%3A04%3A00.000Z&until=');
  await expect(user.getByText('Label team=billing · kind manual · from', { exact: false })).toBeAttached();
  await user.getByLabel('To', { exact: true }).fill('2026-01-01T00:00');
  await user.getByLabel('To', { exact: true }).press('Tab');
  await expect(user.getByRole('alert')).toHaveText('The end must be after the start');
  await user.getByRole('combobox', { name: 'Time' }).selectOption('1h');
  await user.reload();
  await live(user);
  await expect(user.getByRole('combobox', { name: 'Kind' })).toHaveValue('manual');
  await expect(user.getByRole('combobox', { name: 'Label' })).toHaveValue('team=billing');
  expect(from < new Date().toISOString()).toBe(true);
  await user.getByRole('button', { name: 'Clear filters' }).click();
  await expect(user).toHaveURL(/\/runs$/);
});

test('the due time is the only order, and the oldest runs come first on request', { tag: '@prove' }, async ({ stage, user }) => {
  await open(stage, user, '?state=failed');
  const due = user.getByRole('columnheader', { name: 'Due' });
  await expect(due).toHaveAttribute('aria-sort', 'descending');
  await expect(user.getByRole('columnheader', { name: 'Duration' }).getByRole('button')).toHaveCount(0);
  await due.getByRole('button').click();
  await expect(user).toHaveURL(/state=failed&sort=oldest/);
  await expect(due).toHaveAttribute('aria-sort', 'ascending');
  await live(user);
  const oldest = Math.floor(Date.now() / stage.world.scale.gap_ms) - stage.world.total + 1;
  const ids = await rows(user).getByRole('link', { name: /^Failed, / }).evaluateAll((links) => links.map((link) => Number(link.getAttribute('aria-label')?.split('~')[1])));
  expect(ids.length).toBeGreaterThan(5);
  expect(ids[0]! - oldest).toBeLessThan(300);
  expect(ids).toEqual([...ids].sort((a, b) => a - b));
  await due.getByRole('button').click();
  await expect(user).toHaveURL(/\?state=failed$/);
});

test('the columns are chosen, kept by the browser and part of the URL', { tag: '@prove' }, async ({ stage, user }) => {
  await open(stage, user);
  const headers = () => user.getByRole('columnheader').allInnerTexts();
  await user.getByRole('button', { name: 'Columns' }).click();
  const menu = user.getByRole('group', { name: 'Columns' });
  await menu.getByLabel('Kind').check();
  await menu.getByLabel('Message').uncheck();
  await menu.getByLabel('Attempt').uncheck();
  expect(await axe(user, 'columns', { switches: false })).toEqual([]);
  await user.keyboard.press('Escape');
  await expect(menu).toHaveCount(0);
  await expect(user.getByRole('button', { name: 'Columns' })).toBeFocused();
  await expect(user).toHaveURL(/cols=state%2Cjob%2Cfire%2Ckind%2Cnode%2Clate%2Ctook/);
  await expect.poll(headers).toEqual(['State', 'Job', 'Due', 'Kind', 'Node', 'Late', 'Duration']);
  await open(stage, user);
  await expect.poll(headers).toEqual(['State', 'Job', 'Due', 'Kind', 'Node', 'Late', 'Duration']);
  await user.getByRole('button', { name: 'Columns' }).click();
  await user.getByRole('button', { name: 'Default columns' }).click();
  await expect.poll(headers).toEqual(['State', 'Job', 'Due', 'Node', 'Attempt', 'Late', 'Duration', 'Message']);
});

test('a search that finds few runs stops, says how far it has come, and continues on request', async ({ stage, user }) => {
  await open(stage, user, '?kind=backfill');
  await expect(user.getByText('No runs match so far')).toBeVisible();
  await expect(user.getByRole('status').filter({ hasText: 'Searched back to' })).toBeVisible();
  const before = lists(stage).filter((one) => one.includes('limit=200')).length;
  expect(before).toBeLessThanOrEqual(10);
  await user.getByRole('button', { name: 'Search further' }).click();
  await expect.poll(() => lists(stage).filter((one) => one.includes('limit=200')).length).toBeGreaterThan(before);
});

test('all dead letters that match are replayed, with a count first, a reason, and page by page', { tag: '@prove' }, async ({ stage, user }) => {
  stage.world.bulkLimit = 10;
  const [first] = stage.world.dead();
  const of = stage.world.dead().filter((run) => run.state === 'failed').length;
  await open(stage, user, '?state=failed,succeeded&span=24h');
  await user.getByRole('button', { name: 'Replay failed or lost' }).click();
  const dialog = user.getByRole('dialog', { name: `Replay ${of} dead letters?` });
  await expect(dialog).toContainText('All matching runs: failed · last 24 h.');
  expect(stage.world.bulkCalls).toEqual([]);
  await expect(dialog.getByRole('button', { name: 'Replay' })).toBeDisabled();
  await dialog.getByLabel('Reason').fill('the partner is back');
  await dialog.getByRole('button', { name: 'Replay' }).click();
  await expect(user.getByText(`${of} runs replayed`)).toBeVisible();
  expect(stage.world.bulkCalls.length).toBe(Math.ceil(of / 10));
  expect(stage.world.bulkCalls[0]).toMatchObject({ action: 'retry', note: 'the partner is back', filter: { state: ['failed'], since: expect.any(String), until: expect.any(String) } });
  expect(stage.world.dead().some((run) => run.id === first!.id && run.state === 'failed')).toBe(false);
  await user.getByRole('button', { name: 'Replay failed or lost' }).click();
  await expect(user.getByText('No dead letters match')).toBeVisible();
});

test('a failed action on all that match shows what was done and the error', { tag: '@prove' }, async ({ stage, user }) => {
  await open(stage, user, '?q=task');
  await user.getByRole('button', { name: 'Acknowledge failed or lost' }).click();
  await user.getByLabel('Reason').fill('known');
  stage.failWith = 503;
  await user.getByRole('dialog').getByRole('button', { name: 'Acknowledge' }).click();
  await expect(user.getByText('Redis is unavailable').first()).toBeVisible();
  await expect(user.getByRole('button', { name: 'Acknowledge failed or lost' })).toBeEnabled();
});

test('only actions that can change a matching run are offered, and none to a viewer', async ({ stage, user }) => {
  await open(stage, user, '?state=running');
  await expect(user.getByRole('button', { name: 'Cancel open' })).toBeVisible();
  await expect(user.getByRole('button', { name: 'Replay failed or lost' })).toHaveCount(0);
  stage.world.role = 'viewer';
  await open(stage, user, '?state=failed');
  await expect(user.getByRole('button', { name: /failed or lost|Cancel open/ })).toHaveCount(0);
  await open(stage, user);
  await expect(user.getByText('All matching runs')).toHaveCount(0);
});
