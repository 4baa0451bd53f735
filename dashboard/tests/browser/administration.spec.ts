import { expect } from '@playwright/test';
import { axe } from './axe';
import { live, test } from './fixtures';

test('a node has a page with its state, load, runs, code and history', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/nodes`);
  await live(user);
  await user.getByRole('link', { name: 'us-east-1', exact: true }).click();
  await expect(user).toHaveURL(/\/nodes\/us-east-1$/);
  await expect(user.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'Nodes' })).toHaveAttribute('aria-current', 'page');
  const about = user.getByRole('region', { name: 'About' });
  await expect(about).toContainText('region=us-east');
  // Another node has the same App with other jobs.
  await expect(about).toContainText(/billing c0ffee123456\s*different jobs on eu-west-1, eu-west-2, eu-west-3 and \d more/);
  await expect(about.locator('.chip', { hasText: 'RabbitMQ' })).toContainText(': no');
  await expect(user.getByRole('img', { name: /^CPU, 10 min: CPU \d+ %/ })).toBeVisible();
  await expect(user.getByRole('img', { name: /^Slots, 10 min: Running \d+, Slots 16/ })).toBeVisible();
  await expect(user.getByRole('definition').filter({ hasText: 'of 8' })).toContainText('3.75');
  const running = user.getByRole('region', { name: 'Running now' }).getByRole('listitem');
  await expect(running.first()).toContainText(/due .* running /s);
  await running.first().locator('a[href^="/runs/"]').click();
  await expect(user).toHaveURL(/\/runs\//);
  await user.goBack();
  await expect(user.getByRole('region', { name: 'History' })).toBeVisible();
});

test('the history of a node has its starts, losses and drains, and grows with new events', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/nodes/us-west-1`);
  await live(user);
  const items = user.getByRole('region', { name: 'Events of this node' }).getByRole('listitem');
  await expect(items).toHaveCount(3);
  await expect(items.filter({ hasText: 'joined with 16 slots' })).toContainText('version 0.12.0');
  stage.emit(stage.world.event('node_drained', 'info', 'us-west-1 is drained', 0, { node: 'us-west-1' }));
  stage.emit(stage.world.event('node_drained', 'info', 'us-west-2 is drained', 0, { node: 'us-west-2' }));
  await expect(items.first()).toContainText('us-west-1 is drained');
  await expect(items).toHaveCount(4);
  // A node that is gone has nothing but its history.
  await user.goto(`${stage.url}/nodes/us-south-9`);
  await expect(user.getByRole('group', { name: 'Down' })).toContainText('its last event was 1 d ago');
  await expect(items).toHaveCount(1);
  await expect(user.getByRole('button', { name: 'Drain' })).toHaveCount(0);
});

test('a node is drained with a deadline, which can be changed', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/nodes/eu-west-2`);
  await live(user);
  await user.getByRole('button', { name: 'Drain' }).click();
  const dialog = user.getByRole('dialog');
  await dialog.getByLabel('Deadline').selectOption('10m');
  expect(await axe(user, 'drain dialog', { switches: false })).toEqual([]);
  await dialog.getByRole('button', { name: 'Drain' }).click();
  const notice = user.getByRole('group', { name: 'Drain' });
  await expect(notice).toContainText(/Jobs that are still running at \d\d:\d\d:\d\d \(in 9 m/);
  await expect(user.getByText(/^eu-west-2 is draining, with a deadline at \d\d:\d\d:\d\d$/)).toBeVisible();
  await user.getByRole('button', { name: 'Change deadline' }).click();
  await dialog.getByRole('button', { name: 'Change deadline' }).click();
  await expect(notice).toContainText('There is no deadline');
  await user.getByRole('button', { name: 'Undrain' }).click();
  await expect(notice).toHaveCount(0);
  stage.world.role = 'viewer';
  await user.reload();
  await live(user);
  await expect(user.getByRole('link', { name: 'All runs' })).toBeVisible();
  await expect(user.locator('[data-act]')).toHaveCount(0);
});

test('users are created, edited, disabled and deleted', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/settings`);
  await live(user);
  await expect(user).toHaveURL(/\/settings\/users$/);
  await user.getByRole('button', { name: 'New user' }).click();
  const dialog = user.getByRole('dialog');
  await dialog.getByLabel('Name', { exact: true }).fill('grace');
  await dialog.getByLabel('Password').fill('correct horse battery');
  await dialog.getByLabel('Role').selectOption('editor');
  await dialog.getByLabel('Job patterns').fill('billing-*, reports-*');
  await dialog.getByLabel('May write jobs that run commands').check();
  expect(await axe(user, 'user dialog', { switches: false })).toEqual([]);
  await dialog.getByRole('button', { name: 'Create user' }).click();
  await expect(dialog.getByRole('alert')).toHaveText("'grace' already exists");
  await dialog.getByLabel('Name', { exact: true }).fill('barbara');
  await dialog.getByRole('button', { name: 'Create user' }).click();
  await expect(dialog).toHaveCount(0);
  const row = user.getByRole('row').filter({ hasText: 'barbara' });
  await expect(row).toContainText('billing-*, reports-*; may use commands');
  expect(stage.administration.sent.at(-1)![1]).toEqual({ name: 'barbara', password: 'correct horse battery', role: 'editor', jobs: ['billing-*', 'reports-*'], allow_shell: true, allow_secrets: false });

  await user.getByRole('button', { name: 'Edit barbara' }).click();
  await dialog.getByLabel('Role').selectOption('operator');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await expect(row).toContainText('operator');
  expect(stage.administration.sent.at(-1)![1]).toEqual({ role: 'operator' });
  await user.getByRole('button', { name: 'Disable barbara' }).click();
  await dialog.getByRole('button', { name: 'Disable' }).click();
  await expect(row).toContainText('Disabled');
  await user.getByRole('button', { name: 'Enable barbara' }).click();
  await expect(row).not.toContainText('Disabled');
  await user.getByRole('button', { name: 'Delete barbara' }).click();
  await dialog.getByRole('button', { name: 'Delete user' }).click();
  await expect(row).toHaveCount(0);
  // People of the identity provider have their role from there.
  await expect(user.getByRole('button', { name: /^Edit oidc:/ })).toHaveCount(0);
});

test('an API key is shown once, and copied without the clipboard of a secure context', { tag: '@prove' }, async ({ stage, user }) => {
  await user.addInitScript(() => Object.defineProperty(navigator, 'clipboard', { value: undefined }));
  await user.goto(`${stage.url}/settings/keys`);
  await live(user);
  await expect(user.getByRole('row').filter({ hasText: 'billing-*' })).toContainText('expired');
  await user.getByRole('button', { name: 'New API key' }).click();
  const dialog = user.getByRole('dialog');
  await dialog.getByLabel('Name', { exact: true }).fill('deploy');
  await dialog.getByRole('button', { name: 'Create API key' }).click();
  const key = await dialog.getByLabel('API key', { exact: true }).inputValue();
  await user.evaluate(() => document.addEventListener('copy', () => ((window as unknown as { copied: string }).copied = (document.activeElement as HTMLTextAreaElement).value)));
  await dialog.getByRole('button', { name: 'Copy' }).click();
  await expect(dialog.getByRole('status')).toContainText('Copied');
  expect(await user.evaluate(() => (window as unknown as { copied: string }).copied)).toBe(key);
  expect(await axe(user, 'new key', { switches: false })).toEqual([]);
  await dialog.getByRole('button', { name: 'Done' }).click();
  await expect(user.getByRole('row').filter({ hasText: 'deploy' })).toBeVisible();
  await expect(user.getByText(key)).toHaveCount(0);
  await user.getByRole('button', { name: 'Delete deploy' }).click();
  await dialog.getByRole('button', { name: 'Delete API key' }).click();
  await expect(user.getByRole('row').filter({ hasText: 'deploy' })).toHaveCount(0);
});

test('secrets show where they are used, and are set without ever being shown', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/settings/secrets`);
  await live(user);
  const rows = user.getByRole('list', { name: 'Secrets' }).getByRole('listitem');
  await expect(rows.first()).toContainText(/MAIL_PASSWORD\s*Not set: jobs and alerts that use it fail/);
  await expect(rows.filter({ hasText: 'PARTNER_TOKEN' }).getByRole('link', { name: 'sync-tokens' })).toHaveAttribute('href', '/jobs/sync-tokens');
  await expect(rows.filter({ hasText: 'UNUSED' })).toContainText('Not used by any job or alert');
  await user.getByRole('button', { name: 'Set MAIL_PASSWORD' }).click();
  const dialog = user.getByRole('dialog');
  await expect(dialog.getByRole('button', { name: 'Set secret' })).toBeDisabled();
  await dialog.getByLabel('Value').fill('hunter2 hunter2');
  await dialog.getByRole('button', { name: 'Set secret' }).click();
  await expect(rows.filter({ hasText: 'MAIL_PASSWORD' })).toContainText(/set .* by ada/);
  await expect(user.getByText('hunter2')).toHaveCount(0);
  await user.getByRole('button', { name: 'Delete UNUSED' }).click();
  await expect(dialog).toContainText('No job or alert uses it');
  await dialog.getByRole('button', { name: 'Delete secret' }).click();
  await expect(rows.filter({ hasText: 'UNUSED' })).toHaveCount(0);
});

test('alerts are added, edited, muted and tested, and show their deliveries', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/settings/alerts`);
  await live(user);
  await user.getByRole('link', { name: 'billing', exact: true }).click();
  const detail = user.getByRole('region', { name: 'Alert billing' });
  await expect(detail.getByRole('row').filter({ hasText: 'Gave up' })).toContainText('503 Service Unavailable: the receiver is overloaded');
  await expect(detail).not.toContainText('xyz');
  await detail.getByRole('button', { name: 'Send test' }).click();
  await expect(detail.getByRole('status')).toContainText('Test: not accepted, status 404, 84 ms: no such hook');
  await detail.getByRole('button', { name: 'Mute' }).click();
  await expect(user.getByRole('listitem').filter({ hasText: 'billing-*' })).toContainText('Muted');
  expect(stage.administration.sent.at(-1)![1]).toMatchObject({ enabled: false, late_after: '5m' });
  await detail.getByRole('button', { name: 'Edit' }).click();
  const dialog = user.getByRole('dialog');
  await dialog.getByLabel('Late after').fill('10m');
  await dialog.getByLabel('Combine notifications into digests').check();
  expect(await axe(user, 'alert dialog', { switches: false })).toEqual([]);
  await dialog.getByRole('button', { name: 'Save' }).click();
  await expect(detail).toContainText('one per job, sent after 30s, at most every 5m');
  // The edit has not switched it on.
  expect(stage.administration.sent.at(-1)![1]).toMatchObject({ enabled: false, late_after: '10m' });
  await user.getByRole('button', { name: 'New alert' }).click();
  await dialog.getByLabel('Name', { exact: true }).fill('mail');
  await dialog.getByLabel('Send by').selectOption('email');
  await dialog.getByLabel('Recipients').fill('ops@example.com, night@example.com');
  await dialog.getByRole('button', { name: 'Create alert' }).click();
  await expect(user.getByRole('region', { name: 'Alert mail' })).toContainText('No notifications sent yet');
  expect(stage.administration.sent.at(-1)![1]).toEqual({ name: 'mail', on: ['failed', 'recovered'], jobs: [], email: { to: ['ops@example.com', 'night@example.com'], log_lines: 20 } });
  await user.getByRole('button', { name: 'Delete alert' }).click();
  await dialog.getByRole('button', { name: 'Delete alert' }).click();
  await expect(user.getByRole('region', { name: /^Alert / })).toHaveCount(0);
});

test('a calendar shows its year and its jobs, and is imported from an iCalendar file', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/settings/calendars`);
  await live(user);
  await user.getByRole('link', { name: 'holidays' }).click();
  const detail = user.getByRole('region', { name: 'Calendar holidays' });
  await expect(detail).toContainText('11 days in the next 12 months');
  await expect(detail.locator('.month')).toHaveCount(12);
  await expect(detail.locator('.on')).toHaveCount(11);
  await expect(detail.getByRole('link', { name: 'close-month' })).toBeVisible();
  await expect(detail.getByRole('button', { name: 'Delete calendar' })).toBeDisabled();
  await user.getByRole('button', { name: 'Import calendar' }).click();
  const dialog = user.getByRole('dialog');
  await dialog.getByLabel('Calendar name').fill('holidays');
  await dialog.getByLabel('File (.ics)').setInputFiles({ name: 'x.ics', mimeType: 'text/calendar', buffer: Buffer.from('nothing') });
  await dialog.getByRole('button', { name: 'Read file' }).click();
  await expect(dialog.getByRole('alert')).toContainText('this is not an iCalendar file');
  await dialog.getByLabel('File (.ics)').setInputFiles({ name: 'x.ics', mimeType: 'text/calendar', buffer: Buffer.from('BEGIN:VCALENDAR') });
  await dialog.getByRole('button', { name: 'Read file' }).click();
  await expect(dialog.getByRole('status')).toContainText('2 day entries and 0 windows');
  await expect(dialog.getByRole('status')).toContainText('1 left out (cancelled)');
  await expect(dialog.getByRole('status')).toContainText('close-month: 1 run skipped');
  expect(await axe(user, 'import dialog', { switches: false })).toEqual([]);
  await dialog.getByRole('button', { name: 'Replace calendar' }).click();
  await expect(user.getByText('Calendar holidays imported')).toBeVisible();
  expect(stage.administration.sent.at(-1)![0]).toBe('PUT /calendars/holidays');
});

test('a calendar is created and edited as YAML, and a change of somebody else is not overwritten', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/settings/calendars`);
  await live(user);
  await user.getByRole('button', { name: 'New calendar' }).click();
  const dialog = user.getByRole('dialog');
  const yaml = dialog.getByRole('textbox', { name: 'Days and windows as YAML' });
  await dialog.getByLabel('Calendar name').fill('inventory');
  await yaml.fill('days: [12-25');
  await expect(dialog.getByText('Line 1:')).toBeVisible();
  await expect(dialog.getByRole('button', { name: 'Show changes' })).toBeDisabled();
  await yaml.fill('days:\n  - {day: 12-25, name: Christmas Day}\n');
  await dialog.getByRole('button', { name: 'Show changes' }).click();
  await expect(dialog.getByRole('alert')).toContainText('Calendar inventory exists already');
  await dialog.getByLabel('Calendar name').fill('closing-days');
  await dialog.getByRole('button', { name: 'Show changes' }).click();
  await expect(dialog.getByRole('status')).toContainText('This calendar is new');
  expect(await axe(user, 'new calendar', { switches: false })).toEqual([]);
  await dialog.getByRole('button', { name: 'Create calendar' }).click();
  await expect(user.getByText('Calendar closing-days created')).toBeVisible();
  expect(stage.administration.sent.at(-1)).toEqual(['PUT /calendars/closing-days', { days: [{ day: '12-25', name: 'Christmas Day' }] }]);

  await user.getByRole('link', { name: 'inventory' }).click();
  await user.getByRole('button', { name: 'Edit calendar' }).click();
  await expect(yaml).toHaveValue(/^tz: Europe\/Berlin\nwindows:\n {2}- start: "22:00"\n/);
  await yaml.fill((await yaml.inputValue()).replace('22:00', '21:00'));
  await dialog.getByRole('button', { name: 'Show changes' }).click();
  await expect(dialog.getByRole('status')).toContainText('close-month: 1 run skipped');
  stage.administration.calendars = stage.administration.calendars.map((one) => (one.name === 'inventory' ? { ...one, revision: 4 } : one));
  await dialog.getByRole('button', { name: 'Save calendar' }).click();
  await expect(dialog.getByRole('alert')).toContainText('ada has changed this calendar in the meantime');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await user.getByRole('link', { name: 'holidays' }).click();
  await user.getByRole('link', { name: 'inventory' }).click();
  await user.getByRole('button', { name: 'Edit calendar' }).click();
  await yaml.fill('description: Counted twice a year\n');
  await dialog.getByRole('button', { name: 'Show changes' }).click();
  await dialog.getByRole('button', { name: 'Save calendar' }).click();
  await expect(user.getByText('Calendar inventory saved')).toBeVisible();
  expect(stage.administration.sent.at(-1)).toEqual(['PUT /calendars/inventory', { description: 'Counted twice a year' }]);
});

test('the configuration has values, defaults and sources, and can be searched', { tag: '@prove' }, async ({ stage, user }) => {
  await user.goto(`${stage.url}/settings/configuration`);
  await live(user);
  const rows = user.getByRole('list', { name: 'Settings' }).getByRole('listitem');
  await expect(rows.filter({ hasText: 'CRONFLOW_SLOTS' })).toContainText(/4\s*cronflow\.toml, default 16/);
  await expect(rows.filter({ hasText: 'CRONFLOW_ADMIN_PASSWORD' }).getByLabel('set, hidden')).toBeVisible();
  await user.getByLabel('Only settings that are set').check();
  await expect(rows).toHaveCount(3);
  await user.getByLabel('Search settings').fill('concurrently');
  await expect(rows).toHaveCount(1);
  await expect(user).toHaveURL(/q=concurrently/);
});

test('a viewer sees only what a viewer may read, and no action', async ({ stage, user }) => {
  stage.world.role = 'viewer';
  await user.goto(`${stage.url}/settings`);
  await live(user);
  await expect(user).toHaveURL(/\/settings\/roles$/);
  const sections = user.getByRole('navigation', { name: 'Settings' }).getByRole('link');
  await expect(sections).toHaveText(['Roles', 'Sessions', 'Alerts', 'Calendars', 'Limits']);
  for (const address of ['roles', 'sessions', 'alerts?name=billing', 'calendars?name=holidays']) {
    await user.goto(`${stage.url}/settings/${address}`);
    await live(user);
    await expect(user.locator('.section > *').first()).toBeVisible();
    await expect(user.locator('[data-act]')).toHaveCount(0);
  }
  await user.goto(`${stage.url}/settings/users`);
  await expect(user.getByText('Only admins can open this section')).toBeVisible();
  expect(stage.requests.filter((request) => /users|api-keys|secrets|cluster\/config/.test(request))).toEqual([]);
});
