// The page on a real cluster whose processes are killed. The tests depend on each other and run in order.
import { expect, test, type BrowserContext, type Locator, type Page } from '@playwright/test';
import { ACTIONS, type Action } from '../../../src/lib/permissions';
import { VIEWS } from '../../../src/lib/views';
import { axe } from '../axe';
import { visit } from '../visit';
import { ADMIN, Cluster, VIEWER, waitFor } from './cluster';

/** The test that changes the settings is one of those that only `make prove` runs. */
const PROVE = process.env.PROVE !== undefined;
const MANY = PROVE ? 100_000 : 20_000;
// Logged by the browser while the API or one of its servers is down.
const DISCONNECTED = /status of 503|ERR_INTERNET_DISCONNECTED|ERR_CONNECTION_(REFUSED|RESET)|ERR_EMPTY_RESPONSE|WebSocket connection/;

test.describe.configure({ mode: 'serial' });

let cluster: Cluster;
let context: BrowserContext;
let page: Page;
let filled: Promise<void>;
let offline = false;
/** Set while a test provokes an error response, which the browser logs. */
let expectError = false;
const EXPECTED_ERRORS = /status of (401|409|422)/;
/** The labels of the clicked buttons, by action. */
const clicked = new Map<Action, Set<string>>();
const errors: string[] = [];

function listen(one: Page): Page {
  one.on('console', (message) => {
    if (message.type() !== 'error' && message.type() !== 'warning') return;
    if (message.text().startsWith('The Cross-Origin-Opener-Policy header has been ignored')) return; // it is for HTTPS
    // Asked for while it was being deleted.
    if (message.text().includes('status of 404') && /\/jobs\/greeting(\/next\?n=10)?$/.test(message.location().url)) return;
    if (!(offline && DISCONNECTED.test(message.text())) && !(expectError && EXPECTED_ERRORS.test(message.text()))) errors.push(`${message.text()} ${message.location().url}`);
  });
  one.on('pageerror', (error) => errors.push(error.stack ?? String(error)));
  return one;
}

async function login(one: Page, who: { name: string; password: string }) {
  await one.goto(cluster.page);
  await one.getByLabel('Username').fill(who.name);
  await one.getByLabel('Password').fill(who.password);
  await one.getByRole('button', { name: 'Log in' }).click();
  await live(one);
}

async function live(one: Page) {
  await expect(one.locator('.pill')).toContainText('Live', { timeout: 30_000 });
  await expect(one.locator('.skeleton')).toHaveCount(0);
}

test.beforeAll(async ({ browser, browserName }) => {
  test.setTimeout(180_000);
  cluster = await Cluster.up();
  // The short run in Firefox has no test that needs so many.
  filled = browserName === 'chromium' || PROVE ? cluster.fill(MANY) : Promise.resolve();
  // An error surfaces where `filled` is awaited; until then it must not be an unhandled rejection.
  filled.catch(() => undefined);
  for (const job of ['delivery', 'delivery', 'delivery', 'invoice']) await cluster.run(job);
  context = await browser.newContext();
  page = listen(await context.newPage());
});

test.afterAll(async () => {
  test.setTimeout(90_000);
  await context?.close();
  await cluster?.down();
});

/** The numbers in the visible log lines. */
async function numbers(pattern: RegExp): Promise<string[]> {
  return (await page.locator('.line').allTextContents()).flatMap((text) => pattern.exec(text)?.[1] ?? []);
}

const counted = (to: number, from = 1) => Array.from({ length: to - from + 1 }, (_, i) => String(from + i));

/** Clicks the button of an action and records its label. */
async function act(action: Action, button: Locator) {
  const marked = button.and(page.locator(`[data-act=${action}]`));
  const label = (await marked.textContent())?.trim() ?? '';
  await marked.click();
  clicked.set(action, (clicked.get(action) ?? new Set()).add(label));
}

/** Confirms the dialog of an action. */
async function confirm(button: string, reason?: string) {
  const dialog = page.getByRole('dialog');
  if (reason !== undefined) {
    await expect(dialog.getByRole('button', { name: button })).toBeDisabled();
    await dialog.getByLabel('Reason').fill(reason);
  }
  await dialog.getByRole('button', { name: button }).click();
  await expect(dialog).toHaveCount(0);
}

async function open(view: string, one = page) {
  await visit(one, cluster.page, view);
  await live(one);
}

const button = (name: string | RegExp) => page.getByRole('button', { name, exact: typeof name === 'string' });
const ringWithLeader = (node: string) => page.getByRole('group', { name: new RegExp(`leader ${node}`) });

test('logging in shows the live cluster', async () => {
  test.setTimeout(120_000);
  await page.goto(cluster.page);
  expect(await page.evaluate(() => isSecureContext)).toBe(false);
  await page.getByLabel('Username').fill(ADMIN.name);
  await page.getByLabel('Password').fill('wrong');
  expectError = true;
  await button('Log in').click();
  await expect(page.getByRole('alert')).toContainText('Wrong username or password');
  expectError = false;
  await login(page, ADMIN);
  const { leader, term } = await cluster.cluster();
  await expect(page.getByRole('group', { name: `Cluster: 3 nodes, leader ${leader}, term ${term}` })).toBeVisible();
  // Values change with the ticks.
  const seen = new Set<string>();
  await waitFor('three different ticks', async () => seen.add((await page.locator('.fence').textContent()) ?? '').size >= 3 && seen);
  await expect(page.getByRole('region', { name: 'Jobs' })).toContainText('11 jobs');
  await expect(page.getByRole('region', { name: 'Upcoming runs' })).toContainText('nightly-');
  for (const [label, span] of [['15 min', '15m'], ['1 h', '1h'], ['24 h', '24h'], ['7 d', '7d']] as const) {
    const response = page.waitForResponse((one) => one.url().endsWith(`/series?span=${span}`));
    await button(label).click();
    expect(((await (await response).json()) as { ended: unknown[] }).ended.length).toBeGreaterThan(10);
    await expect(page).toHaveURL(new RegExp(`span=${span}`));
    await expect(page.getByRole('img', { name: /^Finished runs/ })).toBeVisible();
  }
  await button('10 min').click();
  await expect(page.getByRole('img', { name: /^Throughput/ })).toBeVisible();
});

test('the list of jobs shows schedules, recent runs and next runs', async () => {
  await open('/jobs');
  const row = (job: string) => page.getByRole('row').filter({ has: page.getByRole('link', { name: job, exact: true }) });
  await expect(row('nightly-backup')).toContainText('02:00');
  await expect(row('counter')).toContainText('Manual only');
  await expect(row('tick').getByRole('group', { name: /^Last \d+ runs: 0 failed or lost/ })).toBeVisible();
  // It updates live: new runs, and a new next run.
  const newest = async () => {
    const bars = row('tick').getByRole('group').locator('a');
    await page.mouse.move(0, 0); // Firefox reports only movements
    await bars.hover({ position: { x: (await bars.evaluate((one) => one.clientWidth)) - 2, y: 5 } });
    return bars.getAttribute('href');
  };
  const first = await newest();
  expect(first).toContain('/runs/tick');
  await expect.poll(newest).not.toBe(first);
  await expect(row('sales-report')).not.toContainText('due now');
});

test('jobs are paused and resumed, one or several at once, with undo', async () => {
  const state = (label: string) => expect(page.locator('.head-line')).toContainText(label);
  await open('/jobs/nightly-backup');
  await act('pause', button('Pause'));
  await page.getByRole('dialog').getByLabel('Note').fill('disk is full');
  await page.getByRole('dialog').getByRole('combobox', { name: 'End' }).selectOption('4h');
  await confirm('Pause');
  await state('Paused');
  const held = await cluster.job('nightly-backup');
  expect([held.state, held.pause?.by, held.pause?.note]).toEqual(['paused', ADMIN.name, 'disk is full']);
  await expect(page.locator('.notice')).toContainText(/by admin, until .*left\): disk is full/);
  await button('Undo').click();
  await state('Active');
  expect((await cluster.job('nightly-backup')).state).toBe('active');
  await open('/jobs?q=nightly');
  await page.getByRole('checkbox', { name: 'Select nightly-backup' }).check();
  await button(/^Select all 2/).click();
  await act('pause', button('Pause'));
  await confirm('Pause');
  await expect(page.getByRole('row').filter({ hasText: 'Paused' })).toHaveCount(2);
  await button('Undo').click();
  await expect(page.getByRole('row').filter({ hasText: 'Paused' })).toHaveCount(0);
});

test('the cron builder shows words, next runs in three zones and warnings, and a job moves to a quieter minute', async () => {
  await open('/cron?cron=0+2+*+*+*&tz=America/New_York');
  await expect(page.locator('.words')).toContainText('02:00');
  await expect(page.getByRole('columnheader')).toHaveText(['In', 'America/New_York', 'Europe/Berlin', 'UTC']);
  await expect(page.getByRole('region', { name: 'Next runs' }).locator('tbody tr')).toHaveCount(10);
  await page.getByRole('combobox', { name: 'Time zone' }).selectText();
  await page.keyboard.type('Europe/Berlin'); // `fill` is no change for Firefox
  await page.keyboard.press('Tab');
  await expect(page.locator('.note').filter({ hasText: /clock|02:00/ }).first()).toBeVisible();
  await expect(page.getByText(/other runs? per week/)).toBeVisible();
  await button(/^Use /).click();
  await expect(page).not.toHaveURL(/cron=0\+2/);
  expectError = true;
  await page.getByRole('textbox', { name: 'Expression' }).fill('61 2 * * *');
  await expect(page.getByRole('alert')).toContainText('61');
  expectError = false;
  await open('/load?job=nightly-backup');
  await expect(page.locator('.heat tbody td')).toHaveCount(168);
  await act('change', button(/^Move to/));
  await expect(page.getByText('No quieter minute found')).toBeVisible();
  expect((await cluster.job('nightly-backup')).version).toBeGreaterThan(1);
  await button('Undo').click();
  await expect(button(/^Move to/)).toBeVisible();
  await button('Propose').click();
  const before = (await cluster.job('nightly-backup')).version;
  await act('spread', button(/^Move \d+ jobs?$/));
  await page.getByRole('dialog').getByRole('button', { name: /^Move \d+ jobs?$/ }).click();
  await expect(page.getByText(/^\d+ jobs? moved$/)).toBeVisible();
  expect((await cluster.job('nightly-backup')).version).toBe(before + 1);
});

test('a job is run manually, and its log is followed live', async () => {
  await open('/jobs/counter');
  await act('run', button('Run now'));
  await page.getByRole('link', { name: 'Open', exact: true }).click();
  await expect(page).toHaveURL(/\/runs\/counter/);
  await expect(page.getByText('line 1 of twelve')).toBeVisible();
  await expect(page.getByText('line 12 of twelve')).toBeVisible({ timeout: 20_000 });
  // Each line once and in order, whether it was loaded or streamed.
  expect(await numbers(/line (\d+) of twelve/)).toEqual(counted(12));
  await expect(page.locator('.head-line')).toContainText('Succeeded');
});

test('the cluster log joins older and live lines, filtered by job and by search', async () => {
  const { id } = await cluster.run('endless');
  await open('/logs');
  const facets = page.getByRole('complementary', { name: 'Filters' });
  await expect(facets.getByRole('button', { name: /^counter/ })).toBeVisible();
  await facets.getByRole('button', { name: /^endless/ }).click();
  await expect(page).toHaveURL(/job=endless/);
  const lines = page.locator('.line');
  await expect(lines.filter({ hasText: 'of twelve' })).toHaveCount(0);
  const first = Number((await numbers(/wait (\d+)/)).at(-1) ?? 0);
  await expect(page.getByText(`wait ${first + 5}`, { exact: true })).toBeVisible();
  const seen = await numbers(/wait (\d+)/);
  expect(seen).toEqual(counted(Number(seen.at(-1)), Number(seen[0])));
  await facets.getByRole('button', { name: 'endless' }).click();
  await page.getByLabel('Search the log').fill('line 7 of');
  await expect(lines).toHaveCount(1);
  await expect(lines).toContainText('counter');
  await open(`/runs/${encodeURIComponent(id)}`);
  await act('cancel', button('Cancel'));
  await confirm('Cancel run', 'no longer needed');
  await expect(page.locator('.head-line')).toContainText('Cancelled');
});

test('the timeline zooms by dragging, and a bar opens its run', { tag: '@prove' }, async () => {
  await open('/timeline');
  const canvas = page.locator('.pane canvas').first();
  const { x, y, width, height } = (await canvas.boundingBox())!;
  await page.mouse.move(x + width * 0.78, y + 90);
  await page.mouse.down();
  await page.mouse.move(x + width * 0.85, y + 100, { steps: 3 });
  await page.mouse.up();
  await expect(page).toHaveURL(/from=\d+&to=\d+/);
  await expect(button('Back to live')).toBeVisible();
  // The tip of an attempt, not that of a fire that is due.
  const tip = page.locator('.tip').filter({ hasText: 'attempt' }).locator('b');
  await waitFor('a bar under the mouse', async () => {
    // Short runs are narrow, so all of the width is searched.
    for (let down = 30; down < height; down += 10) {
      for (let part = 0.1; part < 1; part += 0.02) {
        await page.mouse.move(x + width * part, y + down);
        if ((await tip.count()) > 0) return true;
      }
    }
    return false;
  });
  const job = (await tip.textContent()) ?? '';
  await page.mouse.down();
  await page.mouse.up();
  await expect(page).toHaveURL(new RegExp(`/runs/${job}`));
  await expect(page.locator('.head-line')).toContainText(job);
  await page.goBack();
  await button('Back to live').click();
  await expect(page).not.toHaveURL(/from=/);
});

test('a job that no node can take is stuck, with the reason of each node', async () => {
  test.setTimeout(150_000);
  await open('/');
  const card = page.getByRole('region', { name: 'Needs attention' });
  await expect(card.getByRole('listitem').filter({ hasText: 'train-model' })).toContainText(/node-\d: no label gpu \(needs gpu=h100\)/, { timeout: 100_000 });
  await card.getByRole('link', { name: /^Stuck \d+$/ }).click();
  const row = page.getByRole('row').filter({ hasText: 'train-model' });
  await expect(row).toContainText(/Stuck.*due (now|\d+ m ago)/s);
  await expect(row).not.toContainText('Active');
  await row.getByRole('link', { name: 'train-model', exact: true }).click();
  const notice = page.getByRole('group', { name: 'Stuck' });
  for (const node of ['node-1', 'node-2', 'node-3']) await expect(notice.getByRole('listitem').filter({ hasText: node })).toContainText('no label gpu (needs gpu=h100)');
  await expect(page.locator('.head-line')).toContainText('Stuck');
  expect((await cluster.events()).some((event) => event.kind === 'runs_unplaced' && event.text.includes('gpu'))).toBe(true);
});

test('the schedule load, the graph of chains, and limits with their holders and waiters', async () => {
  await cluster.request('PUT', '/limits/ledger', { limit: 1, description: 'The ledger takes one session' });
  await cluster.request('POST', '/jobs/apply', { jobs: [
    { name: 'close-books', run: { shell: 'sleep 120' }, concurrency: 'ledger' },
    { name: 'read-books', run: { shell: 'true' }, concurrency: 'ledger' },
    { name: 'print-books', run: { shell: 'true' }, after: { job: 'close-books', on: 'ended' } },
  ] });
  await open('/chains?job=close-books');
  const graph = page.getByRole('group', { name: 'Graph of 2 jobs' });
  await expect(graph.getByRole('link')).toHaveCount(2);
  const holder = (await cluster.run('close-books')).id;
  await open('/limits');
  const limit = page.getByRole('listitem', { name: 'Limit ledger' });
  await expect(limit.getByRole('link', { name: holder })).toBeVisible();
  const waiter = (await cluster.run('read-books')).id;
  await expect(limit.getByText('Full')).toBeVisible();
  await expect(limit.getByRole('meter', { name: 'Permits in use' })).toHaveAttribute('aria-valuenow', '1');
  await limit.getByRole('link', { name: waiter }).click();
  await expect(page.getByText('limit ledger is full').first()).toBeVisible();
  await cluster.request('POST', `/runs/${encodeURIComponent(holder)}/cancel`, { reason: 'test finished' });
  await waitFor('the follower ran', async () => (await cluster.runs('job=print-books&state=succeeded')).items[0]);
  await open('/chains?job=close-books');
  await expect(graph.getByRole('link', { name: 'print-books, last run succeeded' })).toBeVisible();
  await open('/load');
  const map = page.getByRole('table', { name: /Starts in the busiest minute of each hour/ });
  await expect(map.getByRole('button')).toHaveCount(168);
  await map.getByRole('button', { name: / 02:00: [12] starts? in the busiest minute/ }).first().click();
  await expect(page.getByRole('region', { name: 'Selected hour' }).getByRole('link', { name: /^nightly-/ }).first()).toBeVisible();
});

test('an error is copied, also on a page without HTTPS', async () => {
  const [failed] = (await cluster.runs('job=invoice&state=failed&limit=1')).items;
  await open(`/runs/${encodeURIComponent(failed?.id ?? '')}`);
  await button('Copy the error').click();
  await expect(page.getByText('Error copied')).toBeVisible();
  await open('/jobs');
  await page.getByRole('searchbox').first().focus();
  await page.keyboard.press('Control+V');
  await expect(page.getByRole('searchbox').first()).toHaveValue(/address|Error/);
  await page.getByRole('searchbox').first().fill('');
});

test('dead letters are acknowledged, edited and replayed', async () => {
  await open('/dead-letters');
  const invoice = page.locator('.group').filter({ hasText: 'invoice' });
  await invoice.locator('.why').click();
  await act('retry', invoice.getByRole('button', { name: /^Edit and replay/ }));
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Arguments (JSON)').fill('{"to": ');
  await expect(dialog.getByRole('button', { name: 'Replay' })).toBeDisabled();
  await dialog.getByLabel('Arguments (JSON)').fill('{"to": "Da Nang"}');
  await dialog.getByRole('button', { name: 'Replay' }).click();
  await expect(invoice).toHaveCount(0);
  await page.getByRole('link', { name: 'Open', exact: true }).click();
  await expect(page.getByRole('region', { name: 'Result' })).toContainText('Da Nang');
  await open('/dead-letters');
  const group = page.locator('.group').filter({ hasText: 'delivery' });
  await expect(group.locator('.n')).toHaveText('3', { timeout: 30_000 });
  await group.locator('.why').click();
  await group.getByRole('checkbox', { name: /^Select delivery/ }).first().check();
  await act('ack', page.locator('.head-line').getByRole('button', { name: 'Acknowledge' }));
  await confirm('Acknowledge', 'no longer needed');
  await expect(group.locator('.n')).toHaveText('2');
  cluster.fixDelivery();
  await act('retry', group.getByRole('button', { name: 'Replay all' }));
  await confirm('Replay');
  await expect(group).toHaveCount(0);
  await expect(page.getByText('No dead letters', { exact: true })).toBeVisible();
  await waitFor('the replays have succeeded', async () => (await cluster.runs('job=delivery&state=succeeded')).items.filter((run) => run.kind === 'replay').length === 2);
});

test('a node is drained and undrained, and the leader steps down', async () => {
  await open('/nodes');
  const { leader } = await cluster.cluster();
  const other = page.locator('li.card:not(.lead)').first();
  await act('drain', other.getByRole('button', { name: 'Drain' }));
  await confirm('Drain');
  await expect(other.getByRole('button', { name: 'Undrain' })).toBeVisible();
  await button('Undo').click();
  await expect(other.getByRole('button', { name: 'Drain', exact: true })).toBeVisible();
  await act('stepdown', page.locator('li.lead').getByRole('button', { name: 'Step down' }));
  await confirm('Step down');
  await expect(page.getByText(/^node-\d became leader/).first()).toBeVisible();
  await expect(page.locator('li.lead')).not.toContainText(leader ?? '');
});

test('a node has a page with what runs on it and its history, and is drained with a deadline', async () => {
  const { id } = await cluster.run('endless');
  const node = await waitFor('the run has started', async () => (await cluster.runs('job=endless&state=running')).items.find((run) => run.id === id)?.node?.split('#')[0]);
  await open('/nodes');
  await page.getByRole('link', { name: node, exact: true }).click();
  const running = page.getByRole('region', { name: 'Running now' });
  await expect(running.getByRole('link', { name: 'endless' })).toBeVisible();
  await expect(page.getByRole('region', { name: 'History' })).toContainText(new RegExp(`${node} joined with \\d+ slots`));
  await expect(page.getByRole('region', { name: 'About' })).toContainText('Shell commands');
  await expect(page.getByRole('img', { name: /^CPU, 10 min/ })).toBeVisible();
  await act('drain', button('Drain'));
  await page.getByRole('dialog').getByLabel('Deadline').selectOption('10m');
  await confirm('Drain');
  await expect(page.getByRole('group', { name: 'Drain' })).toContainText(/Jobs that are still running at .* \(in (9|10) m/);
  await expect(page.getByRole('region', { name: 'History' })).toContainText(`${node} is draining`);
  await cluster.request('POST', `/runs/${encodeURIComponent(id)}/cancel`, { reason: 'test finished' });
  await act('drain', button('Undrain'));
  await expect(page.getByRole('group', { name: 'Drain' })).toHaveCount(0);
  await expect(page.getByRole('region', { name: 'History' })).toContainText(`${node} accepts work again`);
});

test('the settings manage users, keys, secrets, alerts and calendars', { tag: '@prove' }, async () => {
  test.setTimeout(180_000);
  const dialog = page.getByRole('dialog');
  const row = (text: string) => page.getByRole('row').filter({ hasText: text });
  await open('/settings/users');
  await act('users', button('New user'));
  await dialog.getByLabel('Name', { exact: true }).fill('barbara');
  await dialog.getByLabel('Password').fill('correct horse battery');
  await dialog.getByLabel('Role').selectOption('editor');
  await dialog.getByLabel('Job patterns').fill('tick');
  await confirm('Create user');
  await expect(row('barbara')).toContainText('tick');
  await act('users', button('Edit barbara'));
  await dialog.getByLabel('Job patterns').fill('');
  await confirm('Save');
  await expect(row('barbara')).toContainText('*');
  await act('users', button('Disable barbara'));
  await confirm('Disable');
  await act('users', button('Enable barbara'));
  await act('users', button('Delete barbara'));
  await confirm('Delete user');
  await expect(row('barbara')).toHaveCount(0);

  await open('/settings/keys');
  await act('keys', button('New API key'));
  await dialog.getByLabel('Name', { exact: true }).fill('deploy');
  await dialog.getByRole('button', { name: 'Create API key' }).click();
  const key = await dialog.getByLabel('API key', { exact: true }).inputValue();
  const answer = await fetch(`${cluster.url}/api/v1/auth/me`, { headers: { Authorization: `Bearer ${key}` } });
  expect(await answer.json()).toMatchObject({ name: 'key:deploy', role: 'viewer' });
  await dialog.getByRole('button', { name: 'Done' }).click();
  await act('keys', button('Delete deploy'));
  await confirm('Delete API key');
  await expect(row('deploy')).toHaveCount(0);

  await open('/settings/alerts');
  await act('alerts', button('New alert'));
  await dialog.getByLabel('Name', { exact: true }).fill('night');
  await dialog.getByLabel('URL').fill('http://127.0.0.1:9/hook');
  await dialog.getByLabel('Signing secret').fill('${secret:HOOK_KEY}');
  await confirm('Create alert');
  const alert = page.getByRole('region', { name: 'Alert night' });
  await act('alerts', alert.getByRole('button', { name: 'Send test' }));
  await expect(alert.getByRole('status')).toContainText('The receiver did not accept the test');
  await act('alerts', alert.getByRole('button', { name: 'Mute' }));
  await act('alerts', alert.getByRole('button', { name: 'Unmute' }));
  await act('alerts', alert.getByRole('button', { name: 'Edit' }));
  await dialog.getByLabel('Late', { exact: true }).check();
  await confirm('Save');
  await expect(alert).toContainText('Failed, Recovered, Late');

  await open('/settings/secrets');
  const secret = page.getByRole('listitem').filter({ hasText: 'HOOK_KEY' });
  await expect(secret).toContainText('Not set');
  await expect(secret.getByRole('link', { name: 'alert night' })).toBeVisible();
  await act('secrets', secret.getByRole('button', { name: 'Set HOOK_KEY' }));
  await dialog.getByLabel('Value').fill('hunter2 hunter2');
  await confirm('Set secret');
  await expect(secret).toContainText(/set .* by admin/);
  await act('secrets', secret.getByRole('button', { name: 'Delete HOOK_KEY' }));
  await confirm('Delete secret');
  await expect(secret).toContainText('Not set');
  await open('/settings/alerts?name=night');
  await act('alerts', button('Delete alert'));
  await confirm('Delete alert');

  await open('/settings/calendars');
  await act('calendars', button('Import calendar'));
  await dialog.getByLabel('Calendar name').fill('holidays');
  const day = new Date(Date.now() + 40 * 86_400e3).toISOString().slice(0, 10);
  const lines = ['BEGIN:VCALENDAR', 'VERSION:2.0', 'PRODID:x', 'BEGIN:VEVENT', 'UID:1', 'SUMMARY:Founding day', `DTSTART;VALUE=DATE:${day.replaceAll('-', '')}`, 'END:VEVENT', 'END:VCALENDAR', ''];
  await dialog.getByLabel('File (.ics)').setInputFiles({ name: 'x.ics', mimeType: 'text/calendar', buffer: Buffer.from(lines.join('\r\n')) });
  await dialog.getByRole('button', { name: 'Read file' }).click();
  await expect(dialog.getByRole('status')).toContainText('1 day entry and 0 windows');
  await confirm('Create calendar');
  const calendar = page.getByRole('region', { name: 'Calendar holidays' });
  await expect(calendar.getByRole('region', { name: 'Days' })).toContainText(`${day}`);
  await expect(calendar.locator('.on')).toHaveCount(1);
  await act('calendars', calendar.getByRole('button', { name: 'Edit calendar' }));
  const days = dialog.getByRole('textbox', { name: 'Days and windows as YAML' });
  await days.fill((await days.inputValue()).replace('days:\n', `days:\n  - {first: ${day}, last: ${new Date(Date.now() + 42 * 86_400e3).toISOString().slice(0, 10)}}\n`));
  await dialog.getByRole('button', { name: 'Show changes' }).click();
  await expect(dialog.getByRole('status')).toContainText('No run in the next');
  await confirm('Save calendar');
  await expect(calendar.locator('.on')).toHaveCount(3);
  await act('calendars', calendar.getByRole('button', { name: 'Delete calendar' }));
  await confirm('Delete calendar');

  // To read the configuration is an action without a button.
  await open('/settings/configuration?q=namespace');
  await expect(page.locator('[data-act=config]')).toBeVisible();
  await expect(page.getByRole('listitem').filter({ hasText: 'CRONFLOW_NAMESPACE' })).toContainText('Name of the cluster');
  clicked.set('config', new Set(['']));
});

test('in maintenance nothing starts; a breaker is closed, and a backfill is requested and cancelled', async () => {
  await open('/nodes');
  await act('maintenance', button('Start maintenance'));
  await page.getByRole('dialog').getByLabel('Note').fill('upgrade');
  await confirm('Start maintenance');
  const banner = page.getByRole('status').filter({ hasText: /^\s*Maintenance since .* by admin: upgrade\./ });
  await expect(banner).toBeVisible();
  const { id } = await cluster.run('gateway');
  await open(`/runs/${encodeURIComponent(id)}`);
  await expect(page.getByRole('region', { name: 'Why it is waiting' })).toContainText('the cluster is in maintenance: upgrade', { timeout: 30_000 });
  await act('maintenance', banner.getByRole('button', { name: 'End maintenance' }));
  await confirm('End maintenance');
  await expect(banner).toHaveCount(0);
  // The run fails, and opens the breaker of its job.
  await waitFor('the breaker is open', async () => (await cluster.job('gateway')).open_breaker !== null);
  await open('/jobs/gateway');
  const breaker = page.getByRole('group', { name: 'Circuit breaker' });
  await expect(breaker).toContainText('1 of 1 attempts failed');
  await act('closeBreaker', breaker.getByRole('button', { name: 'Close breaker' }));
  await expect(breaker).toHaveCount(0);
  await open('/jobs/nightly-orders?tab=backfills');
  const backfills = page.getByRole('region', { name: 'Backfills' });
  await act('backfill', backfills.getByRole('button', { name: 'Backfill', exact: true }));
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('From').fill(new Date(Date.now() - 5 * 86_400e3).toISOString().slice(0, 16));
  await dialog.getByLabel('Rate limit').fill('1/h');
  await dialog.getByRole('button', { name: 'Show what would run' }).click();
  await expect(dialog.getByRole('status')).toContainText('5 runs');
  await dialog.getByRole('button', { name: 'Start 5 runs' }).click();
  await expect(backfills).toContainText(/1 succeeded.*4 to come of 5 runs/s, { timeout: 30_000 });
  await act('backfill', backfills.getByRole('button', { name: 'Cancel backfill' }));
  await confirm('Cancel backfill', 'wrong range');
  await expect(backfills).toContainText('by admin: wrong range');
});

test('after the leader is killed, a banner shows the new leader, the duration and that no runs were lost', async () => {
  test.setTimeout(120_000);
  // Something that runs on the leader, so that the failover reassigns it.
  const before = (await cluster.cluster()).leader ?? '';
  await cluster.request('POST', '/jobs/apply', { jobs: [{ name: 'long-haul', run: { shell: 'sleep 60' }, overlap: 'allow' }] });
  const begun: string[] = [];
  await waitFor('a run on the leader', async () => {
    if (begun.length < 12) begun.push((await cluster.run('long-haul')).id);
    return (await cluster.runs(`job=long-haul&state=running&node=${before}`)).items[0];
  });
  await open('/chaos');
  const { old, leader, term } = await cluster.killLeader(async (name) => {
    await act('chaos', button(`Kill ${name}`));
    await expect(page.getByText(`${name} was killed`)).toBeVisible();
  });
  expect(leader).not.toBe(old);
  const banner = page.getByRole('status').filter({ hasText: `${leader} became leader` }).filter({ hasText: `(term ${term})` });
  await expect(banner).toContainText('0 runs lost');
  const took = /Failover took ([\d.]+) s/.exec((await banner.textContent()) ?? '');
  // Measured from the last sign of life: a lease of three seconds had to expire.
  expect(Number(took?.[1])).toBeGreaterThanOrEqual(2);
  await expect(page.getByRole('group', { name: new RegExp(`leader ${leader}, term ${term}$`) })).toBeVisible();
  await expect(page.locator('.pill')).toContainText('Live');
  await button('Replay failover').click();
  await expect(ringWithLeader(old)).toBeVisible();
  await expect(ringWithLeader(leader)).toBeVisible();
  await expect(page.locator('.cluster .chip')).toContainText(leader);
  const moved = page.getByRole('region', { name: 'Runs reassigned by the failover' });
  await expect(moved.getByRole('listitem').filter({ hasText: 'long-haul@' }).first()).toContainText(`from ${old}`, { timeout: 30_000 });
  for (const id of begun) await cluster.request('POST', `/runs/${encodeURIComponent(id)}/cancel`, { reason: 'test finished' }).catch(() => undefined); // some are lost
});

test('the cluster survives a paused node and a flushed Redis', async () => {
  await open('/chaos');
  const { leader, term } = await cluster.cluster();
  const row = page.locator('li').filter({ has: page.locator('[data-act=chaos]') }).filter({ hasNotText: leader ?? '' }).first();
  await act('chaos', row.getByRole('button', { name: /^Pause/ }));
  await expect(row).toContainText('paused');
  await act('chaos', row.getByRole('button', { name: /^Resume/ }));
  await expect(row.getByRole('button', { name: /^Pause/ })).toBeVisible();
  const before = new Set((await cluster.events()).map((event) => event.id));
  await act('chaos', button('Flush Redis'));
  await expect(page.getByText(/^Deleted [\d,]+ keys from Redis/)).toBeVisible();
  // The leader restores the state, or another node takes over. The stream restarts too, but the page still shows the event.
  const event = await waitFor('an event about the recovery', async () =>
    (await cluster.events()).find((one) => !before.has(one.id) && /^(redis_amnesia_healed|redis_state_restored|leader_elected)$/.test(one.kind)),
  );
  await expect(page.getByRole('region', { name: 'Events' }).getByText(event.text).first()).toBeVisible({ timeout: 30_000 });
  await waitFor('there is a leader', async () => (await cluster.cluster()).leader !== null);
  expect((await cluster.cluster()).term).toBeGreaterThanOrEqual(term);
  const { id } = await cluster.run('counter');
  await waitFor('the requested run succeeds', async () => (await cluster.runs('job=counter&state=succeeded')).items.some((run) => run.id === id));
});

test('while the API is down the page is marked as stale, and afterwards it catches up', async () => {
  test.setTimeout(90_000);
  await open('/');
  const pill = page.locator('.pill');
  offline = true;
  // The API is back within seconds, so the browser stays offline until the page is stale.
  await context.setOffline(true);
  const restarted = cluster.killApi();
  await expect(pill).toContainText(/Stale\s*frozen at \d\d:\d\d:\d\d/);
  // An offline browser may notice the closed socket or not; the page tries again in either case.
  await expect(pill).toHaveAttribute('title', /; next attempt in /);
  await expect(page.locator('main')).toHaveClass(/stale/);
  await restarted;
  await context.setOffline(false);
  await expect(page.getByText(/^\s*Caught up on \d+ events?$/)).toBeVisible({ timeout: 45_000 });
  await live(page);
  offline = false;
});

test('while MongoDB hangs the page opens at once with the reason, and continues by itself', async () => {
  test.setTimeout(120_000);
  offline = true;
  await cluster.hang('MongoDB', async () => {
    await page.goto(`${cluster.page}/jobs`);
    await expect(page.getByRole('navigation')).toBeVisible({ timeout: 5000 });
    await expect(page.locator('main')).toContainText('MongoDB is unavailable');
    await expect(page.getByLabel('Password')).toHaveCount(0);
  });
  await expect(page.getByRole('link', { name: 'counter', exact: true })).toBeVisible({ timeout: 60_000 });
  await live(page);
  await expect(page.getByText('MongoDB is unavailable')).toHaveCount(0);
  await cluster.hang('MongoDB', async () => {
    await expect(page.getByRole('status').filter({ hasText: 'MongoDB is unavailable' })).toContainText('Running jobs continue', { timeout: 30_000 });
    await expect(page.locator('.pill')).toContainText(/Live|Late/);
  });
  await expect(page.getByText('MongoDB is unavailable')).toHaveCount(0, { timeout: 60_000 });
});

test('without Redis a banner says what still works, and the page becomes live by itself', async () => {
  test.setTimeout(120_000);
  await cluster.hang('Redis', async () => {
    await page.goto(`${cluster.page}/jobs`);
    await expect(page.getByRole('status').filter({ hasText: 'No new runs start until it is back' })).toContainText('can still be read here', { timeout: 30_000 });
    await expect(page.getByRole('link', { name: 'counter', exact: true })).toBeVisible({ timeout: 30_000 });
  });
  await expect(page.locator('.pill')).toContainText('Live', { timeout: 60_000 });
  await expect(page.getByText('Redis is unavailable')).toHaveCount(0);
  await waitFor('there is a leader', async () => (await cluster.cluster()).leader !== null, 60_000);
  offline = false;
});

test('very many runs scroll with fewer than sixty rows in the DOM', async () => {
  test.setTimeout(180_000);
  await filled;
  await page.goto(`${cluster.page}/runs?job=archived`);
  await live(page);
  const box = page.locator('.scroll');
  const rows = page.locator('[role=row]');
  for (let i = 0; i < 8; i++) {
    const before = await box.evaluate((one) => one.scrollHeight);
    await box.evaluate((one) => (one.scrollTop = one.scrollHeight));
    await expect.poll(() => box.evaluate((one) => one.scrollHeight)).toBeGreaterThan(before);
    expect(await rows.count()).toBeLessThan(60);
  }
  expect(Number(await rows.last().getAttribute('aria-rowindex'))).toBeGreaterThan(1500);
  expect(await page.evaluate(() => document.querySelectorAll('*').length)).toBeLessThan(2500);
  await page.goto(`${cluster.page}/runs`);
  await live(page);
  await expect(rows.nth(5)).toBeVisible();
});

test('all runs that match are acknowledged, replayed and cancelled, with the same count as before', async () => {
  test.setTimeout(120_000);
  const all = async (action: Action, button: string, title: RegExp, confirm: string) => {
    await act(action, page.getByRole('button', { name: button }));
    const dialog = page.getByRole('dialog', { name: title });
    await dialog.getByLabel('Reason').fill('test of all that match');
    await dialog.getByRole('button', { name: confirm }).click();
  };
  for (let i = 0; i < 2; i++) await cluster.run('invoice');
  const dead = async () => (await cluster.runs('q=nvoic&dead=true&kind=manual&limit=500')).items.length;
  await waitFor('two dead letters', async () => ((await dead()) >= 2 ? true : undefined));
  await open('/runs');
  await page.getByRole('combobox', { name: 'Job' }).fill('nvoic');
  await expect(page.getByRole('option', { name: 'invoice', exact: true })).toBeVisible();
  await page.getByRole('combobox', { name: 'Job' }).press('Enter');
  await page.getByRole('combobox', { name: 'Kind' }).selectOption('manual');
  const before = await dead();
  await all('retryAll', 'Replay failed or lost', new RegExp(`^Replay ${before} dead letters\\?$`), 'Replay');
  await expect(page.getByText(`${before} runs replayed`)).toBeVisible();
  await waitFor('no manual dead letter', async () => ((await dead()) === 0 ? true : undefined));
  // The replays fail too.
  await waitFor('dead letters again', async () => (await cluster.runs('q=nvoic&dead=true&kind=replay')).items[0]);
  await open('/runs?q=nvoic&kind=replay');
  await all('ackAll', 'Acknowledge failed or lost', /^Acknowledge \d+ dead letters?\?$/, 'Acknowledge');
  await expect(page.getByText(/\d+ runs? acknowledged/)).toBeVisible();
  await cluster.run('endless');
  await open('/runs?job=endless');
  // The leader creates the run, a moment after it was asked for.
  await expect(page.getByRole('link', { name: 'Running, endless@' })).toBeVisible();
  await all('cancelAll', 'Cancel open', /^Cancel \d+ open runs?\?$/, 'Cancel runs');
  await expect(page.getByText(/\d+ runs? cancelled or being stopped/)).toBeVisible();
  await waitFor('no open run', async () => ((await cluster.runs('job=endless&state=running&state=dispatched')).items.length === 0 ? true : undefined));
});

test('a job is created, run with arguments, edited by two people, restored to a version, and deleted', async () => {
  test.setTimeout(120_000);
  const plan = page.getByRole('region', { name: 'Plan' });
  const yaml = page.getByRole('textbox', { name: 'YAML of the job' });
  expectError = true;
  await open('/jobs');
  await act('create', page.getByRole('link', { name: 'New job' }));
  await page.getByLabel(/^Name/).fill('greeting');
  await page.getByLabel(/^Python/).fill('invoices:send');
  await page.getByRole('textbox', { name: 'Args (JSON)' }).fill('{"to": "Hue"}');
  await page.getByLabel(/^Cron\s*\(required\)/).fill('0 25 * * *');
  await expect(plan.getByRole('button', { name: 'schedule.cron' })).toBeVisible();
  await expect(page.getByLabel(/^Cron\s*\(required\)/)).toHaveAttribute('aria-invalid', 'true');
  await expect(page.getByRole('region', { name: 'YAML' })).toContainText('Line 3:');
  await page.getByLabel(/^Cron\s*\(required\)/).fill('0 5 * * *');
  await expect(plan).toContainText('Creates the job');
  await expect(plan).toContainText('at 05:00 every day');
  await expect(plan).toContainText('7 runs appear');
  await button('Create job').click();
  await expect(page).toHaveURL(/\/jobs\/greeting$/);
  await live(page);

  await act('run', button('Run with arguments'));
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByLabel('to', { exact: true })).toHaveValue('Hue');
  await dialog.getByLabel('to', { exact: true }).fill('Hoi An');
  await dialog.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('link', { name: 'Open', exact: true }).click();
  await expect(page.getByRole('region', { name: 'Result' })).toContainText('Hoi An');

  // Somebody else is faster: the page notices it, and applies both changes.
  await open('/jobs/greeting');
  await act('edit', page.getByRole('link', { name: 'Edit', exact: true }));
  await page.getByLabel(/^Description/).fill('Greets people');
  await expect(plan).toContainText('Changes 1 key');
  await cluster.request('PATCH', '/jobs/greeting', { timeout: '42s' });
  const conflict = page.getByRole('alert', { name: 'Conflicting change' });
  await expect(conflict).toContainText('timeout: 42s');
  await conflict.getByRole('button', { name: 'Apply mine to version 2' }).click();
  await expect(yaml).toHaveValue(/timeout: 42s\ndescription: Greets people/);
  await button('Save').click();
  await expect(page.getByText('greeting saved as version 3')).toBeVisible();
  expect(await cluster.job('greeting')).toMatchObject({ description: 'Greets people', timeout: '42s', version: 3, run: { args: { to: 'Hue' } } });

  await open('/jobs/greeting?tab=versions&from=1');
  await expect(page.getByRole('region', { name: 'Changed lines of the YAML' })).toContainText('Added: timeout: 42s');
  await act('edit', page.getByRole('listitem').filter({ hasText: 'Version 2' }).getByRole('button', { name: 'Restore' }));
  await expect(dialog).toContainText('description');
  await dialog.getByRole('button', { name: 'Restore version 2' }).click();
  await expect(dialog).toHaveCount(0);
  await expect.poll(async () => (await cluster.job('greeting')).description).toBe('');

  await button('More actions').click();
  await act('remove', button('Delete'));
  await confirm('Delete job');
  await expect(page).toHaveURL(/\/jobs$/);
  expectError = false;
  await expect.poll(() => cluster.job('greeting').then(() => true, () => false)).toBe(false);
});

test('a group of dead letters shows the real message of its newest run', async () => {
  await cluster.run('invoice');
  const dead = await waitFor('a dead letter', async () => (await cluster.runs('job=invoice&dead=true&limit=1')).items[0]);
  await open('/dead-letters');
  const group = page.locator('.group').filter({ hasText: 'invoice' });
  await expect(group.locator('.reason')).toHaveText((dead.error ?? '').split('\n')[0] ?? '');
  await group.locator('.why').click();
  await expect(group.getByRole('listitem').first()).toContainText((dead.error ?? '').split('\n')[0] ?? '');
});

test('countdowns are lengths, and the events of elections have the last renewal of the leader before', async () => {
  const elected = (await cluster.request('GET', '/events?kind=leader_elected&limit=5')) as { items: { at: string; fields: { renewed: string } }[] };
  expect(elected.items.length).toBeGreaterThan(1);
  const [last] = elected.items;
  expect(Date.parse(last!.fields.renewed)).toBeLessThan(Date.parse(last!.at));
  await open('/');
  for (const text of await page.getByRole('region', { name: 'Upcoming runs' }).locator('.left').allTextContents()) expect(text.trim()).toMatch(/^(now|in \d[\d hdms]*)$/);
});

test('axe finds no violations with real data', { tag: '@prove' }, async () => {
  test.setTimeout(120_000);
  const [failed] = (await cluster.runs('job=invoice&state=failed&limit=1')).items;
  const found: string[] = [];
  await page.emulateMedia({ reducedMotion: 'reduce' });
  for (const view of ['/?span=1h', `/runs/${encodeURIComponent(failed?.id ?? '')}?tab=why`]) {
    await page.goto(cluster.page + view);
    await live(page);
    found.push(...(await axe(page, view)));
  }
  expect(found).toEqual([]);
});

test('a late run, an incident and a moment in the past are made of what was recorded', async () => {
  test.setTimeout(120_000);
  const [ended] = (await cluster.runs('job=invoice&state=failed&limit=1')).items;
  await page.goto(`${cluster.page}/runs/${encodeURIComponent(ended?.id ?? '')}?tab=why`);
  await live(page);
  await expect(page.getByRole('region', { name: 'Why it started late' }).getByRole('listitem').first()).toBeVisible();
  await page.goto(`${cluster.page}/incident?since=${encodeURIComponent(new Date(Date.now() - 1800e3).toISOString())}`);
  await live(page);
  await expect(page.getByRole('region', { name: 'Summary as Markdown' })).toContainText('# Incident summary');
  await expect(page.getByRole('region', { name: 'What happened to the cluster' })).toContainText('is the leader, term');
  await expect(page.getByRole('region', { name: 'Failures by reason' })).toContainText(/runs? of/);
  await page.goto(`${cluster.page}/timeline`);
  await live(page);
  await expect(page.getByRole('group', { name: /^Attempts on/ })).toBeVisible();
  await page.goto(`${cluster.page}/timeline?span=15m&as=table&job=flaky-import&label=team%3Dfinance`);
  await live(page);
  await expect(page.getByRole('region', { name: 'Changes in this time range' })).toContainText('is the leader, term');
  await expect(page.getByRole('region', { name: 'Due next' })).toContainText('flaky-import');
  const rows = page.getByRole('region', { name: 'Runs in this time range' }).locator('tbody tr');
  await expect(rows.first()).toContainText('flaky-import');
  await expect(rows.filter({ hasNotText: 'flaky-import' })).toHaveCount(0);
  await page.goto(`${cluster.page}/?at=${encodeURIComponent(ended?.ended_at ?? '')}`);
  await expect(page.locator('.pill')).toContainText('Frozen');
  await expect(page.getByRole('region', { name: 'Events before that moment' }).getByText('is the leader, term').first()).toBeVisible();
  await page.getByRole('button', { name: 'Back to live' }).click();
  await live(page);
});

test('a viewer sees every view but no action that needs a higher role', { tag: '@prove' }, async ({ browser }) => {
  test.setTimeout(90_000);
  const other = await browser.newContext();
  const viewer = listen(await other.newPage());
  const failed: string[] = [];
  viewer.on('response', (response) => {
    if (response.status() >= 400) failed.push(`${response.status()} ${response.url()}`);
  });
  // To read the audit log is an action without a button.
  await open('/audit?action=job.pause');
  await expect(page.locator('[data-act=audit]')).toBeVisible();
  await expect(page.getByText('job.pause').first()).toBeVisible();
  clicked.set('audit', new Set(['']));
  // The tests above performed every action, so these are the labels of all their buttons.
  expect([...clicked.keys()].sort()).toEqual(Object.keys(ACTIONS).sort());
  const labels = [...new Set([...clicked.values()].flatMap((found) => [...found]))].filter((label) => label !== '');
  // Something to cancel, and something to replay.
  const { id } = await cluster.run('endless');
  await cluster.run('invoice');
  await login(viewer, VIEWER);
  const dead = await waitFor('a dead letter', async () => (await cluster.runs('dead=true')).items[0]);
  await expect(viewer.getByRole('navigation').getByText('Audit log')).toHaveCount(0);
  const views = VIEWS.flatMap((view) => view.href ?? []).concat('/settings/sessions', '/settings/alerts', '/settings/calendars');
  for (const view of [...views, '/load?job=nightly-backup', '/jobs/nightly-backup?tab=next', `/runs/${encodeURIComponent(dead.id)}`, `/runs/${encodeURIComponent(id)}`]) {
    await open(view, viewer);
    const shown = await viewer.locator('[data-act]').or(viewer.locator('button:not([aria-pressed])', { hasText: new RegExp(`^\\s*(${labels.map((label) => label.replace(/[^\w ]/g, '.')).join('|')})\\s*$`) })).allTextContents();
    expect(shown, view).toEqual([]);
  }
  await cluster.request('POST', `/runs/${encodeURIComponent(id)}/cancel`, { reason: 'test finished' });
  await open('/chaos', viewer);
  await expect(viewer.getByText('Chaos tools are not available')).toBeVisible();
  await expect(viewer.getByRole('navigation').getByText('Chaos')).toHaveCount(0);
  expect(failed).toEqual([]);
  await other.close();
});

test('logs have a time range and a zone, and a run is printed without controls', async ({ browserName }) => {
  await open('/logs?span=1h');
  const at = page.locator('.line .at').first();
  await expect(at).toBeVisible();
  await page.getByRole('button', { name: /^Time zone/ }).click();
  await page.getByRole('button', { name: /^UTC/ }).click();
  await page.keyboard.press('Escape');
  // In one look, because new lines reuse the element.
  await expect.poll(() => at.evaluate((link: HTMLElement) => link.textContent === link.dataset.at?.slice(11, 23))).toBe(true);
  // On a phone, lines wrap.
  const [size, phone] = [page.viewportSize()!, { width: 390, height: 844 }];
  await page.setViewportSize(phone);
  await expect(page.getByRole('log').locator('.whole').first()).toBeVisible();
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
  await page.setViewportSize(size);
  const [newest] = (await cluster.request<{ items: { at: string }[] }>('GET', '/logs?limit=1')).items;
  const [from, to] = [Date.parse(newest?.at ?? '') - 86_400_000, Date.parse(newest?.at ?? '') - 80_000_000];
  await open(`/logs?from=${from}&to=${to}`);
  await expect(page.locator('.log')).toContainText('No output');
  await open('/?tz=local');
  await page.getByRole('button', { name: /^Time zone/ }).click();
  await page.getByRole('button', { name: /^Local/ }).click();
  const [failed] = (await cluster.runs('job=invoice&state=failed&limit=1')).items;
  await open(`/runs/${encodeURIComponent(failed?.id ?? '')}`);
  if (browserName === 'firefox') return; // WebDriver BiDi cannot emulate the medium of print
  await page.emulateMedia({ media: 'print' });
  await expect(page.getByRole('navigation', { name: 'Views' })).toBeHidden();
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'light');
  await expect(page.getByText('no address given').first()).toBeVisible();
  await page.emulateMedia({ media: 'screen' });
});

test('the audit log has every action with its user', async () => {
  const done = (await cluster.audit()).items.filter((entry) => entry.by === ADMIN.name && entry.address !== null);
  expect([...new Set(done.map((entry) => entry.action))]).toEqual(expect.arrayContaining([
    'job.pause', 'job.resume', 'job.change', 'job.run', 'run.cancel', 'run.retry', 'run.ack', 'node.drain', 'node.undrain',
    'cluster.stepdown', 'cluster.maintenance', 'job.close_breaker', 'job.backfill', 'backfill.cancel', 'chaos.kill', 'chaos.pause', 'chaos.resume', 'chaos.flush',
    ...(PROVE ? ['user.create', 'user.change', 'user.delete', 'alert.create', 'alert.test', 'secret.delete', 'calendar.create', 'calendar.change'] : []),
  ]));
});

test('the console has no errors or warnings', () => {
  expect(errors).toEqual([]);
});
