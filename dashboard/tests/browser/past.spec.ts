// The past, with a simulated cluster: frozen views, the summary of an incident, two runs compared, and the onset of failures.
import { expect, type Page } from '@playwright/test';
import { axe } from './axe';
import { live, test } from './fixtures';

async function frozen(page: Page, url: string) {
  await page.goto(url);
  await expect(page.locator('.pill')).toContainText('Frozen');
  await expect(page.locator('.skeleton')).toHaveCount(0);
}

test.describe('a frozen page', () => {
  test('shows the recorded state of every view, and moves and returns', async ({ stage, user }) => {
    const moment = new Date(Date.now() - 100e3).toISOString();
    const at = encodeURIComponent(moment);
    await frozen(user, `${stage.url}/?at=${at}`);
    await expect(user.getByRole('status').filter({ hasText: 'Frozen at' })).toBeVisible();
    await expect(user.getByRole('region', { name: 'Events before that moment' })).toContainText('recompute-prices was changed');
    await expect(user.getByRole('region', { name: 'Events before that moment' })).not.toContainText('us-west-1 is draining');
    await expect(user.getByText(/Not recorded: CPU, memory/)).toBeVisible();
    await user.getByRole('navigation').getByRole('link', { name: 'Jobs' }).click();
    await expect(user).toHaveURL(new RegExp(`/jobs\\?at=`));
    await expect(user.getByRole('region', { name: 'Jobs at that moment' }).getByRole('row')).toHaveCount(13);
    await user.getByRole('navigation').getByRole('link', { name: /^Nodes/ }).click();
    await expect(user.getByText(/No nodes recorded|Nodes at that moment/).or(user.getByRole('region', { name: 'Nodes at that moment' }))).toBeVisible();
    await user.getByRole('navigation').getByRole('link', { name: /^Runs/ }).click();
    await expect(user.getByRole('table', { name: 'Runs' }).or(user.getByRole('grid', { name: 'Runs' })).first()).toBeVisible();
    expect(stage.requests.filter((one) => one.includes('/runs?')).every((one) => one.includes('until='))).toBe(true);
    await user.getByRole('navigation').getByRole('link', { name: 'Limits' }).click();
    await expect(user.getByText('No history for this view')).toBeVisible();
    await user.getByRole('button', { name: '−1 m, one minute earlier' }).click();
    await expect.poll(() => Date.parse(new URL(user.url()).searchParams.get('at') ?? '')).toBe(Date.parse(moment) - 60e3);
    await user.getByRole('button', { name: 'Back to live' }).click();
    await live(user);
    await expect(user).not.toHaveURL(/at=/);
  });

  test('opens no stream and offers no action', async ({ stage, user }) => {
    await frozen(user, `${stage.url}/runs?at=${encodeURIComponent(new Date(Date.now() - 60e3).toISOString())}`);
    await user.getByRole('link', { name: /@/ }).or(user.locator('a[href^="/runs/"]')).first().click();
    await expect(user.getByRole('region', { name: 'Details' })).toBeVisible();
    await expect(user.locator('[data-act]')).toHaveCount(0);
    expect(stage.requests.filter((one) => one.includes('ws-ticket'))).toEqual([]);
  });

  test('names an instant that it cannot read', { tag: '@prove' }, async ({ stage, user }) => {
    await user.goto(`${stage.url}/?at=yesterday`);
    await live(user);
    await expect(user.getByRole('alert')).toContainText('yesterday is not a time');
    await user.getByRole('button', { name: 'Dismiss' }).click();
    await expect(user.getByRole('alert')).toHaveCount(0);
  });
});

test.describe('an incident', () => {
  test('is summarised for a time range, with a page to copy and to download', { tag: '@prove' }, async ({ stage, user, context }) => {
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await user.goto(`${stage.url}/incident`);
    await live(user);
    await user.getByLabel('From').fill('30m ago');
    await user.getByLabel('To', { exact: true }).fill('soon');
    await user.getByRole('button', { name: 'Summarise' }).click();
    await expect(user.getByRole('alert')).toContainText('“soon” is not a time');
    await user.getByLabel('To', { exact: true }).fill('now');
    await user.getByRole('button', { name: 'Summarise' }).click();
    await expect(user).toHaveURL(/since=/);
    await expect(user.getByRole('region', { name: 'Failures by reason' })).toContainText('12 runs of 2 jobs');
    await expect(user.getByRole('link', { name: 'ConnectionError: POST api.partner.example:8443: connection refused' })).toHaveAttribute('href', /^\/runs\//);
    await expect(user.getByRole('region', { name: 'What happened to the cluster' }).getByRole('listitem')).toHaveCount(3);
    await user.getByRole('button', { name: 'Copy' }).click();
    await expect(user.getByText('Summary copied')).toBeVisible();
    expect(await user.evaluate(() => navigator.clipboard.readText())).toContain('# Incident summary');
    const download = user.waitForEvent('download');
    await user.getByRole('link', { name: 'Download' }).click();
    expect((await download).suggestedFilename()).toMatch(/^incident-\d{4}-\d\d-\d\d-\d\d-\d\d\.md$/);
  });
});

test.describe('runs', () => {
  test('two are compared in their details and their logs', { tag: '@prove' }, async ({ stage, user }) => {
    const [a, b] = [stage.world.ended(40), stage.world.ended(60)];
    await user.goto(`${stage.url}/compare?a=${encodeURIComponent(a.id)}&b=${encodeURIComponent(b.id)}`);
    await live(user);
    const table = user.getByRole('region', { name: 'Details of both runs' });
    await expect(table.getByRole('columnheader')).toHaveCount(3);
    await user.getByRole('button', { name: 'Show all details' }).click();
    await expect(table.getByRole('rowheader', { name: 'Version' })).toBeVisible();
    await expect(user.getByRole('region', { name: 'Logs of both runs' }).getByRole('listitem').first()).toBeVisible();
  });

  test('one that takes longer than usual is marked, with its CPU time and memory', { tag: '@prove' }, async ({ stage, user }) => {
    const open = stage.world.lasting();
    await user.goto(`${stage.url}/runs/${encodeURIComponent(open.id)}`);
    await live(user);
    await expect(user.getByText('running longer than usual (p95 2.4 s)')).toBeVisible();
    const ended = stage.world.ended(40);
    await user.goto(`${stage.url}/runs/${encodeURIComponent(ended.id)}`);
    await expect(user.getByRole('region', { name: 'Attempts', exact: true })).toContainText(/CPU .*, memory 59.0 MiB at most/);
    await user.getByRole('link', { name: 'Compare' }).click();
    await expect(user).toHaveURL(/\/compare\?a=/);
  });
});

test.describe('the failures of a job', () => {
  test('have an onset with what changed then', { tag: '@prove' }, async ({ stage, user }) => {
    await user.goto(`${stage.url}/jobs/invoice-reminders`);
    await live(user);
    const onset = user.getByRole('region', { name: 'Start of the failures' });
    await expect(onset).toContainText('8 of 8 runs since then failed, after 40 successes');
    await expect(onset.getByRole('listitem')).toHaveCount(2);
    await expect(onset.getByRole('link', { name: 'Compare it with the last success' })).toHaveAttribute('href', /\/compare\?a=.+&b=/);
    expect(await axe(user, 'onset')).toEqual([]);
  });
});
