// The page on a real cluster: real servers, real processes, and some of them are killed. One story, told in order.
import { expect, test, type BrowserContext, type Locator, type Page } from '@playwright/test';
import { NEEDS, type Action } from '../../../src/lib/needs';
import { VIEWS } from '../../../src/lib/views';
import { axe } from '../axe';
import { ADMIN, Cluster, eventually, VIEWER } from './cluster';

const MANY = 100_000;
// What the browser itself says while nobody listens.
const AWAY = /ERR_INTERNET_DISCONNECTED|ERR_CONNECTION_(REFUSED|RESET)|ERR_EMPTY_RESPONSE|WebSocket connection/;

test.describe.configure({ mode: 'serial' });

let cluster: Cluster;
let context: BrowserContext;
let page: Page;
let filled: Promise<void>;
let away = false;
/** An answer that a test asked for is one that the browser complains about. */
let refused = false;
const REFUSED = /status of (401|422)/;
/** The words of the buttons that were clicked, by what they do. */
const clicked = new Map<Action, Set<string>>();
const said: string[] = [];

function listen(one: Page): Page {
  one.on('console', (message) => {
    if (message.type() !== 'error' && message.type() !== 'warning') return;
    if (!(away && AWAY.test(message.text())) && !(refused && REFUSED.test(message.text()))) said.push(`${message.text()} ${message.location().url}`);
  });
  one.on('pageerror', (error) => said.push(String(error)));
  return one;
}

async function login(one: Page, who: { name: string; password: string }) {
  await one.goto(cluster.url);
  await one.getByLabel('Name').fill(who.name);
  await one.getByLabel('Password').fill(who.password);
  await one.getByRole('button', { name: 'Log in' }).click();
  await live(one);
}

async function live(one: Page) {
  await expect(one.locator('.pill')).toContainText('Live', { timeout: 30_000 });
  await expect(one.locator('.skeleton')).toHaveCount(0);
}

test.beforeAll(async ({ browser }) => {
  test.setTimeout(180_000);
  cluster = await Cluster.up();
  filled = cluster.fill(MANY);
  // Whoever waits for it hears of an error; until then it is not to end the process.
  filled.catch(() => undefined);
  for (const job of ['delivery', 'delivery', 'delivery', 'letter']) await cluster.run(job);
  context = await browser.newContext();
  page = listen(await context.newPage());
});

test.afterAll(async () => {
  test.setTimeout(90_000);
  await context?.close();
  await cluster?.down();
});

/** The numbers that are in the lines that are shown. */
async function numbers(pattern: RegExp): Promise<string[]> {
  return (await page.locator('.line').allTextContents()).flatMap((text) => pattern.exec(text)?.[1] ?? []);
}

const counted = (to: number, from = 1) => Array.from({ length: to - from + 1 }, (_, i) => String(from + i));

/** Clicks a button that does something, and remembers what it is called. */
async function act(what: Action, button: Locator) {
  const marked = button.and(page.locator(`[data-act=${what}]`));
  const word = (await marked.textContent())?.trim() ?? '';
  await marked.click();
  clicked.set(what, (clicked.get(what) ?? new Set()).add(word));
}

/** Answers the question that is asked before something is done. */
async function agree(button: string, reason?: string) {
  const dialog = page.getByRole('dialog');
  if (reason !== undefined) {
    await expect(dialog.getByRole('button', { name: button })).toBeDisabled();
    await dialog.getByLabel('Reason').fill(reason);
  }
  await dialog.getByRole('button', { name: button }).click();
  await expect(dialog).toHaveCount(0);
}

/** As a link of the page does it; only the first view is loaded from its address. */
async function open(view: string, one = page) {
  if (one.url().startsWith(cluster.url)) {
    await one.evaluate((address) => {
      history.pushState(null, '', address);
      dispatchEvent(new PopStateEvent('popstate'));
    }, view);
  } else {
    await one.goto(cluster.url + view);
  }
  await live(one);
}

const button = (name: string | RegExp) => page.getByRole('button', { name, exact: typeof name === 'string' });
const leads = (node: string) => page.getByRole('group', { name: new RegExp(`${node} leads`) });

test('somebody logs in and sees the cluster tick', async () => {
  test.setTimeout(120_000);
  await page.goto(cluster.url);
  await page.getByLabel('Name').fill(ADMIN.name);
  await page.getByLabel('Password').fill('wrong');
  refused = true;
  await button('Log in').click();
  await expect(page.getByRole('alert')).toContainText('do not match');
  refused = false;
  await login(page, ADMIN);
  const { leader, term } = await cluster.cluster();
  await expect(page.getByRole('group', { name: `The cluster: 3 nodes, ${leader} leads, term ${term}` })).toBeVisible();
  // A tick a second, and values that move with them.
  const seen = new Set<string>();
  await eventually('three different ticks', async () => seen.add((await page.locator('.fence').textContent()) ?? '').size >= 3 && seen);
  await expect(page.getByRole('region', { name: 'Jobs' })).toContainText('9 jobs');
  await expect(page.getByRole('region', { name: 'Upcoming fires' })).toContainText('nightly-');
  for (const [word, span] of [['15 min', '15m'], ['1 h', '1h'], ['24 h', '24h'], ['7 d', '7d']] as const) {
    const asked = page.waitForResponse((answer) => answer.url().endsWith(`/series?span=${span}`));
    await button(word).click();
    expect(((await (await asked).json()) as { ended: unknown[] }).ended.length).toBeGreaterThan(10);
    await expect(page).toHaveURL(new RegExp(`span=${span}`));
    await expect(page.getByRole('img', { name: /^Ended/ })).toBeVisible();
  }
  await button('10 min').click();
  await expect(page.getByRole('img', { name: /^Throughput/ })).toBeVisible();
});

test('jobs say their schedules in words, how they do, and when they fire next', async () => {
  await open('/jobs');
  const row = (job: string) => page.getByRole('row').filter({ has: page.getByRole('link', { name: job, exact: true }) });
  await expect(row('nightly-backup')).toContainText('at 02:00 every day');
  await expect(row('talker')).toContainText('Only by hand');
  await expect(row('tick').getByRole('group', { name: /^The last \d+ runs, 0 failed or lost/ })).toBeVisible();
  // It goes on by itself: other runs, and another next fire.
  const newest = async () => {
    const bars = row('tick').getByRole('group').locator('a');
    await bars.hover({ position: { x: (await bars.evaluate((one) => one.clientWidth)) - 2, y: 5 } });
    return bars.getAttribute('href');
  };
  const first = await newest();
  expect(first).toContain('/runs/tick');
  await expect.poll(newest).not.toBe(first);
  await expect(row('sales-report')).not.toContainText('due now');
});

test('jobs are paused and resumed, one or all that match, and there is a way back', async () => {
  const state = (word: string) => expect(page.locator('.head-line')).toContainText(word);
  await open('/jobs/nightly-backup');
  await act('pause', button('Pause'));
  await state('Paused');
  expect((await cluster.job('nightly-backup')).state).toBe('paused');
  await button('Undo').click();
  await state('Active');
  expect((await cluster.job('nightly-backup')).state).toBe('active');
  await open('/jobs?q=nightly');
  await page.getByRole('checkbox', { name: 'Choose nightly-backup' }).check();
  await button(/^Choose all 2/).click();
  await act('pause', button('Pause'));
  await agree('Pause');
  await expect(page.getByRole('row').filter({ hasText: 'Paused' })).toHaveCount(2);
  await button('Undo').click();
  await expect(page.getByRole('row').filter({ hasText: 'Paused' })).toHaveCount(0);
});

test('a cron is built with words, fires in three zones and warnings, and a job leaves the herd', async () => {
  await open('/cron?cron=0+2+*+*+*&tz=America/New_York');
  await expect(page.locator('.words')).toHaveText('at 02:00 every day');
  await expect(page.getByRole('columnheader')).toHaveText(['In', 'America/New_York', 'Europe/Berlin', 'UTC']);
  await expect(page.getByRole('region', { name: 'Next fires' }).locator('tbody tr')).toHaveCount(10);
  await page.getByLabel('Zone').fill('Europe/Berlin');
  await page.getByLabel('Zone').blur();
  await expect(page.locator('.note').filter({ hasText: /clock|02:00/ }).first()).toBeVisible();
  await expect(page.getByText(/other fires? a week share/)).toBeVisible();
  await button(/^Take /).click();
  await expect(page).not.toHaveURL(/cron=0\+2/);
  refused = true;
  await page.getByRole('textbox', { name: 'Expression' }).fill('61 2 * * *');
  await expect(page.getByRole('alert')).toContainText('61');
  refused = false;
  await open('/load?job=nightly-backup');
  await expect(page.locator('.heat tbody td')).toHaveCount(168);
  await act('change', button(/^Move to/));
  await expect(page.getByText('is as quiet as any')).toBeVisible();
  expect((await cluster.job('nightly-backup')).version).toBeGreaterThan(1);
  await button('Undo').click();
  await expect(button(/^Move to/)).toBeVisible();
});

test('a job is run by hand, and its log is followed while it is written', async () => {
  await open('/jobs/talker');
  await act('run', button('Run now'));
  await page.getByRole('link', { name: 'Open', exact: true }).click();
  await expect(page).toHaveURL(/\/runs\/talker/);
  await expect(page.getByText('line 1 of twelve')).toBeVisible();
  await expect(page.getByText('line 12 of twelve')).toBeVisible({ timeout: 20_000 });
  // Each line once, in order, whether it came as history or live.
  expect(await numbers(/line (\d+) of twelve/)).toEqual(counted(12));
  await expect(page.locator('.head-line')).toContainText('Succeeded');
});

test('the tail of the cluster joins what was written with what follows, by job and by word', async () => {
  const { id } = await cluster.run('patient');
  await open('/logs');
  const facets = page.getByRole('complementary', { name: 'Facets' });
  await expect(facets.getByRole('button', { name: /^talker/ })).toBeVisible();
  await facets.getByRole('button', { name: /^patient/ }).click();
  await expect(page).toHaveURL(/job=patient/);
  const lines = page.locator('.line');
  await expect(lines.filter({ hasText: 'of twelve' })).toHaveCount(0);
  const first = Number((await numbers(/wait (\d+)/)).at(-1) ?? 0);
  await expect(page.getByText(`wait ${first + 5}`, { exact: true })).toBeVisible();
  const seen = await numbers(/wait (\d+)/);
  expect(seen).toEqual(counted(Number(seen.at(-1)), Number(seen[0])));
  await facets.getByRole('button', { name: 'patient' }).click();
  await page.getByLabel('Search the log').fill('line 7 of');
  await expect(lines).toHaveCount(1);
  await expect(lines).toContainText('talker');
  await open(`/runs/${encodeURIComponent(id)}`);
  await act('cancel', button('Cancel'));
  await agree('Cancel it', 'it waits for nothing');
  await expect(page.locator('.head-line')).toContainText('Cancelled');
});

test('on the timeline a span is dragged to look closer, and a bar leads to its run', async () => {
  await open('/timeline');
  const canvas = page.locator('.pane canvas').first();
  const { x, y, width, height } = (await canvas.boundingBox())!;
  await page.mouse.move(x + width - 60, y + 40);
  await page.mouse.down();
  await page.mouse.move(x + width - 10, y + 60, { steps: 3 });
  await page.mouse.up();
  await expect(page).toHaveURL(/from=\d+&to=\d+/);
  await expect(button('Back to now')).toBeVisible();
  const tip = page.locator('.tip b');
  await eventually('a bar under the mouse', async () => {
    for (let down = 30; down < height; down += 10) {
      for (const part of [0.4, 0.6, 0.8]) {
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
  await button('Back to now').click();
  await expect(page).not.toHaveURL(/from=/);
});

test('dead letters are acknowledged, edited and replayed, and what they waited for is done', async () => {
  await open('/dead-letters');
  const letter = page.locator('.group').filter({ hasText: 'letter' });
  await letter.locator('.why').click();
  await act('retry', letter.getByRole('button', { name: /^Edit and replay/ }));
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Arguments').fill('{"to": ');
  await expect(dialog.getByRole('button', { name: 'Replay' })).toBeDisabled();
  await dialog.getByLabel('Arguments').fill('{"to": "Da Nang"}');
  await dialog.getByRole('button', { name: 'Replay' }).click();
  await expect(letter).toHaveCount(0);
  await page.getByRole('link', { name: 'Open', exact: true }).click();
  await expect(page.getByRole('region', { name: 'Result' })).toContainText('Da Nang');
  await open('/dead-letters');
  const group = page.locator('.group').filter({ hasText: 'delivery' });
  await expect(group.locator('.n')).toHaveText('3', { timeout: 30_000 });
  await group.locator('.why').click();
  await group.getByRole('checkbox', { name: /^Choose delivery/ }).first().check();
  await act('ack', page.locator('.head-line').getByRole('button', { name: 'Acknowledge' }));
  await agree('Acknowledge', 'nobody waits for it');
  await expect(group.locator('.n')).toHaveText('2');
  cluster.openTheRoad();
  await act('retry', group.getByRole('button', { name: 'Replay all' }));
  await agree('Replay');
  await expect(group).toHaveCount(0);
  await expect(page.getByText('No dead letters', { exact: true })).toBeVisible();
  await eventually('the replays have succeeded', async () => (await cluster.runs('job=delivery&state=succeeded')).items.filter((run) => run.kind === 'replay').length === 2);
});

test('a node is drained and taken back, and the leader steps down when it is asked to', async () => {
  await open('/nodes');
  const { leader } = await cluster.cluster();
  const other = page.locator('li.card:not(.lead)').first();
  await act('drain', other.getByRole('button', { name: 'Drain' }));
  await agree('Drain');
  await expect(other.getByRole('button', { name: 'Undrain' })).toBeVisible();
  await button('Undo').click();
  await expect(other.getByRole('button', { name: 'Drain', exact: true })).toBeVisible();
  await act('stepdown', page.locator('li.lead').getByRole('button', { name: 'Step down' }));
  await agree('Step down');
  await expect(page.getByText(/^node-\d leads/).first()).toBeVisible();
  await expect(page.locator('li.lead')).not.toContainText(leader ?? '');
});

test('a leader is killed: the crown goes to another node, and a banner says how long it took and that nothing was lost', async () => {
  test.setTimeout(90_000);
  await open('/chaos');
  const { old, leader, term } = await cluster.killLeader(async (name) => {
    await act('chaos', button(`Kill ${name}`));
    await expect(page.getByText(`${name} was killed`)).toBeVisible();
  });
  expect(leader).not.toBe(old);
  const banner = page.getByRole('status').filter({ hasText: `${leader} leads` });
  await expect(banner).toContainText('0 runs lost');
  const took = /Failover took ([\d.]+) s/.exec((await banner.textContent()) ?? '');
  // From the last sign of life: a lease of three seconds ran out before anybody could follow.
  expect(Number(took?.[1])).toBeGreaterThanOrEqual(2);
  await expect(page.getByRole('group', { name: new RegExp(`${leader} leads, term ${term}$`) })).toBeVisible();
  await expect(page.locator('.pill')).toContainText('Live');
  await button('Watch again').click();
  await expect(leads(old)).toBeVisible();
  await expect(leads(leader)).toBeVisible();
  await expect(page.locator('.cluster .chip')).toContainText(leader);
});

test('a node is paused and goes on, Redis forgets, and the cluster lives', async () => {
  await open('/chaos');
  const { leader, term } = await cluster.cluster();
  const row = page.locator('li').filter({ has: page.locator('[data-act=chaos]') }).filter({ hasNotText: leader ?? '' }).first();
  await act('chaos', row.getByRole('button', { name: /^Pause/ }));
  await expect(row).toContainText('paused');
  await act('chaos', row.getByRole('button', { name: /^Continue/ }));
  await expect(row.getByRole('button', { name: /^Pause/ })).toBeVisible();
  await act('chaos', button('Flush Redis'));
  await expect(page.getByText(/^Redis has forgotten [\d,]+ keys/)).toBeVisible();
  // Its leader tells it anew, unless another node is faster. The stream has lost its place over it: what happened is shown all the same.
  await expect(page.getByRole('region', { name: 'Events' }).getByText(new RegExp(`Redis had lost its data|is the leader, term ${term + 1}`)).first()).toBeVisible({ timeout: 30_000 });
  await eventually('somebody leads', async () => (await cluster.cluster()).leader !== null);
  expect((await cluster.cluster()).term).toBeGreaterThanOrEqual(term);
  const { id } = await cluster.run('talker');
  await eventually('what is asked for runs', async () => (await cluster.runs('job=talker&state=succeeded')).items.some((run) => run.id === id));
});

test('the API is killed: the page says that it stands still, and goes on where it was when the API is back', async () => {
  test.setTimeout(90_000);
  await open('/');
  const pill = page.locator('.pill');
  away = true;
  // It comes back within seconds; the page does not hear of that before it has shown how it looks by then.
  await context.setOffline(true);
  const back = cluster.killApi();
  await expect(pill).toContainText('Reconnecting');
  await expect(pill).toContainText(/Stale\s*frozen at \d\d:\d\d:\d\d/);
  await expect(page.locator('main')).toHaveClass(/stale/);
  await back;
  await context.setOffline(false);
  await expect(page.getByText(/^\s*Caught up \d+ events?$/)).toBeVisible({ timeout: 45_000 });
  await live(page);
  away = false;
});

test('a hundred thousand runs are scrolled with fewer than sixty rows in the document', async () => {
  test.setTimeout(180_000);
  await filled;
  await page.goto(`${cluster.url}/runs?job=archived`);
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
  await page.goto(`${cluster.url}/runs`);
  await live(page);
  await expect(rows.nth(5)).toBeVisible();
});

test('axe finds nothing on what a real cluster fills the views with', async () => {
  test.setTimeout(120_000);
  const [failed] = (await cluster.runs('job=letter&state=failed&limit=1')).items;
  const found: string[] = [];
  await page.emulateMedia({ reducedMotion: 'reduce' });
  for (const view of ['/?span=1h', `/runs/${encodeURIComponent(failed?.id ?? '')}?tab=why`]) {
    await page.goto(cluster.url + view);
    await live(page);
    found.push(...(await axe(page, view)));
  }
  expect(found).toEqual([]);
});

test('a viewer sees everything, and nothing that would be refused', async ({ browser }) => {
  test.setTimeout(90_000);
  const other = await browser.newContext();
  const viewer = listen(await other.newPage());
  const said403: string[] = [];
  viewer.on('response', (answer) => {
    if (answer.status() >= 400) said403.push(`${answer.status()} ${answer.url()}`);
  });
  // Every action that the code offers was done above, so these are the words of their buttons.
  expect([...clicked.keys()].sort()).toEqual(Object.keys(NEEDS).sort());
  const words = [...new Set([...clicked.values()].flatMap((found) => [...found]))].filter((word) => word !== '');
  // Something to cancel, and something to replay.
  const { id } = await cluster.run('patient');
  await cluster.run('letter');
  await login(viewer, VIEWER);
  const failed = await eventually('a dead letter', async () => (await cluster.runs('dead=true')).items[0]);
  const views = VIEWS.flatMap((view) => view.href ?? []);
  for (const view of [...views, '/load?job=nightly-backup', '/jobs/nightly-backup?tab=next', `/runs/${encodeURIComponent(failed.id)}`, `/runs/${encodeURIComponent(id)}`]) {
    await open(view, viewer);
    const shown = await viewer.locator('[data-act]').or(viewer.locator('button:not([aria-pressed])', { hasText: new RegExp(`^\\s*(${words.map((word) => word.replace(/[^\w ]/g, '.')).join('|')})\\s*$`) })).allTextContents();
    expect(shown, view).toEqual([]);
  }
  await cluster.ask('POST', `/runs/${encodeURIComponent(id)}/cancel`, { reason: 'seen' });
  await open('/chaos', viewer);
  await expect(viewer.getByText('There is nothing to break here')).toBeVisible();
  await expect(viewer.getByRole('navigation').getByText('Chaos')).toHaveCount(0);
  expect(said403).toEqual([]);
  await other.close();
});

test('everything that was done is in the audit log, with the name of whoever did it', async () => {
  const done = (await cluster.audit()).items.filter((entry) => entry.by === ADMIN.name && entry.address !== null);
  expect([...new Set(done.map((entry) => entry.action))]).toEqual(expect.arrayContaining([
    'job.pause', 'job.resume', 'job.change', 'job.run', 'run.cancel', 'run.retry', 'run.ack', 'node.drain', 'node.undrain',
    'cluster.stepdown', 'chaos.kill', 'chaos.pause', 'chaos.resume', 'chaos.flush',
  ]));
});

test('nothing was said on the console in all that time', () => {
  expect(said).toEqual([]);
});
