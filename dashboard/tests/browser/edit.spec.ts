// Jobs that are created, edited, returned to a version, duplicated and deleted in the page, and runs with arguments.
import { expect, type Page } from '@playwright/test';
import type { Doc } from '../../src/lib/document';
import { definitionOf } from '../../src/lib/jobSchema';
import { live, test } from './fixtures';
import type { Stage } from './server';

async function open(user: Page, stage: Stage, view: string) {
  await user.goto(stage.url + view);
  await live(user);
}

const yaml = (user: Page) => user.getByRole('textbox', { name: 'YAML of the job' });
const plan = (user: Page) => user.getByRole('region', { name: 'Plan' });
const button = (user: Page, name: string) => user.getByRole('button', { name, exact: true });
const cronField = (user: Page) => user.getByLabel(/^Cron\s*\(required\)/);
/** Somebody else saves a job. */
const saveAs = (stage: Stage, by: string, name: string, changes: Doc) => stage.edits.write({ ...definitionOf(stage.world.named(name)!), ...changes }, null, by);

test('a job is created from the form and the YAML, which stay in step', { tag: '@prove' }, async ({ stage, user }) => {
  await open(user, stage, '/jobs');
  await user.getByRole('link', { name: 'New job' }).click();
  await expect(plan(user)).toContainText('Incomplete');
  await expect(user.getByText('give the job a name')).toHaveCount(0);
  await user.getByLabel(/^Name/).fill('night-shift');
  await user.getByLabel(/^Python/).fill('shop.jobs:count');
  await expect(yaml(user)).toHaveValue(/^name: night-shift\nschedule:\n {2}cron: 0 2 \* \* \*/);
  await expect(plan(user)).toContainText('Creates the job');
  const next = plan(user).getByRole('list', { name: 'Next runs' }).getByRole('listitem');
  await expect(next).toHaveCount(5);
  await expect(next.last()).toHaveText(/:00\s*in \d/);

  // What the server refuses is at its field, at its line, and in the list, which leads to the field.
  await yaml(user).fill('# the night shift\nname: night-shift\nschedule:\n  cron: 0 2\n  tz: UTC\nrun:\n  python: shop.jobs:count\n');
  await expect(plan(user)).toContainText('1 problem');
  await expect(user.getByRole('region', { name: 'YAML' })).toContainText('Line 4: 0 2 has too few fields (write five or six)');
  await expect(cronField(user)).toHaveAttribute('aria-invalid', 'true');
  await button(user, 'schedule.cron').click();
  await expect(cronField(user)).toBeFocused();
  await cronField(user).fill('0 4 * * *');
  await expect(plan(user)).toContainText('Creates the job');
  await expect(yaml(user)).toHaveValue('# the night shift\nname: night-shift\nschedule:\n  cron: 0 4 * * *\n  tz: UTC\nrun:\n  python: shop.jobs:count\n');

  await button(user, 'Create job').click();
  await expect(user).toHaveURL(/\/jobs\/night-shift$/);
  expect(stage.edits.sent('POST /jobs')).toEqual({ name: 'night-shift', schedule: { cron: '0 4 * * *', tz: 'UTC' }, run: { python: 'shop.jobs:count' } });
  await expect(user.getByText('night-shift created')).toBeVisible();
  await button(user, 'Undo').click();
  await expect(user).toHaveURL(/\/jobs$/);
  expect(stage.world.named('night-shift')).toBeNull();
});

test('invalid YAML locks the form until it is corrected, and a taken name is refused', async ({ stage, user }) => {
  await open(user, stage, '/jobs/new?from=nightly-report');
  await expect(yaml(user)).toHaveValue(/name: ""\ndescription: Builds the daily finance report/);
  const valid = (await yaml(user).inputValue()).replace('name: ""', 'name: sync-tokens');
  await yaml(user).fill(valid.replace('cron: 0', 'cron: [0'));
  await expect(user.getByText('The YAML has an error on line')).toBeVisible();
  await expect(user.getByLabel(/^Description/)).toBeDisabled();
  await yaml(user).fill(valid);
  await expect(user.getByLabel(/^Description/)).toBeEnabled();
  await expect(plan(user)).toContainText('job sync-tokens already exists');
  await button(user, 'Create job').click();
  await expect(user.getByLabel(/^Name/)).toBeFocused();
  await expect(user).toHaveURL(/\/jobs\/new/);
});

test('an edit that somebody else overtook shows what they changed, and is applied to it', { tag: '@prove' }, async ({ stage, user }) => {
  await open(user, stage, '/jobs/nightly-report/edit');
  await cronField(user).fill('0 5 * * *');
  await expect(plan(user)).toContainText('Changes 1 key');
  await expect(plan(user)).toContainText('14 runs appear');
  saveAs(stage, 'grace', 'nightly-report', { timeout: '42m', schedule: { cron: '0 4 * * *', tz: 'Europe/Berlin', start: null, end: null } });
  await button(user, 'Save').click();
  const conflict = user.getByRole('alert', { name: 'Conflicting change' });
  await expect(conflict).toContainText('grace changed this job');
  await expect(conflict).toContainText('Added: timeout: 42m');
  await expect(conflict).toContainText('Removed: timeout: 10m');
  await button(user, 'Apply mine to version 2').click();
  await expect(yaml(user)).toHaveValue(/cron: 0 5 \* \* \*/);
  await expect(yaml(user)).toHaveValue(/timeout: 42m/);
  await expect(user.getByText('Both of you changed schedule.cron')).toBeVisible();
  await button(user, 'Save').click();
  await expect(user).toHaveURL(/\/jobs\/nightly-report$/);
  await expect(user.getByText('nightly-report saved as version 3')).toBeVisible();
  expect(stage.world.named('nightly-report')).toMatchObject({ version: 3, timeout: '42m', schedule: { cron: '0 5 * * *' } });
  await button(user, 'Undo').click();
  await expect.poll(() => stage.world.named('nightly-report')?.schedule?.cron).toBe('0 4 * * *');
});

test('unsaved changes are not lost by a click or by going back', { tag: '@prove' }, async ({ stage, user }) => {
  await open(user, stage, '/jobs/nightly-report');
  await user.getByRole('link', { name: 'Edit', exact: true }).click();
  await user.getByLabel(/^Description/).fill('Changed');
  await user.getByRole('link', { name: 'Runs' }).first().click();
  const dialog = user.getByRole('dialog', { name: 'Discard your changes?' });
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await user.goBack();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await expect(user).toHaveURL(/\/edit$/);
  await expect(user.getByLabel(/^Description/)).toHaveValue('Changed');
  await user.goBack();
  await dialog.getByRole('button', { name: 'Discard changes' }).click();
  await expect(user).toHaveURL(/\/jobs\/nightly-report$/);
  // Without changes nothing asks.
  await user.getByRole('link', { name: 'Edit', exact: true }).click();
  await user.getByRole('link', { name: 'Cancel' }).click();
  await expect(user).toHaveURL(/\/jobs\/nightly-report$/);
});

test('any two versions are compared, and one click returns to one of them', { tag: '@prove' }, async ({ stage, user }) => {
  await open(user, stage, '/jobs/invoice-reminders?tab=versions');
  const lines = user.getByRole('region', { name: 'Changed lines of the YAML' });
  await expect(lines).toContainText('Removed: timeout: 14m');
  await expect(lines).toContainText('Added: timeout: 10m');
  await user.getByLabel('Compare from version 1').check();
  await expect(lines).toContainText('Removed: timeout: 7m');
  await expect(user).toHaveURL(/from=1/);
  await user.getByRole('listitem').filter({ hasText: 'Version 1' }).getByRole('button', { name: 'Restore' }).click();
  const dialog = user.getByRole('dialog');
  await expect(dialog).toContainText('timeout before: 10m');
  await expect(dialog).toContainText('no run appears or vanishes');
  await dialog.getByRole('button', { name: 'Restore version 1' }).click();
  await expect(user.getByText('Version 1 of invoice-reminders restored')).toBeVisible();
  expect(stage.world.named('invoice-reminders')).toMatchObject({ version: 4, timeout: '7m' });
  await expect(user.getByText('Version 4', { exact: true })).toBeVisible();
  await button(user, 'Undo').click();
  await expect.poll(() => stage.world.named('invoice-reminders')?.timeout).toBe('10m');
});

test('a job is duplicated and deleted, and the deletion undone', { tag: '@prove' }, async ({ stage, user }) => {
  await open(user, stage, '/jobs/nightly-report');
  await button(user, 'More actions').click();
  await user.getByRole('link', { name: 'Duplicate' }).click();
  await expect(user).toHaveURL(/\/jobs\/new\?from=nightly-report$/);
  await user.goBack();
  await button(user, 'More actions').click();
  await button(user, 'Delete').click();
  await user.getByRole('dialog').getByRole('button', { name: 'Delete job' }).click();
  await expect(user).toHaveURL(/\/jobs$/);
  await user.getByLabel('Search jobs').fill('nightly-rep');
  await expect(user.getByRole('link', { name: 'nightly-report', exact: true })).toHaveCount(0);
  await button(user, 'Undo').click();
  await expect(user.getByRole('link', { name: 'nightly-report', exact: true })).toBeVisible();
  expect(stage.edits.sent('POST /jobs')).toMatchObject({ name: 'nightly-report', timeout: '10m' });
});

test('an edit of a job that files own is warned about, and a viewer has no way to edit', { tag: '@prove' }, async ({ stage, user }) => {
  saveAs(stage, 'ci', 'nightly-report', { labels: { owner: 'team-a' } });
  await open(user, stage, '/jobs/nightly-report/edit');
  await expect(user.getByText('This job is defined in the files of team-a')).toBeVisible();
  stage.world.role = 'viewer';
  await open(user, stage, '/jobs/nightly-report/edit');
  await expect(user.getByText('Creating and editing jobs requires the role editor.')).toBeVisible();
  await open(user, stage, '/jobs/nightly-report?tab=versions');
  for (const name of ['Edit', 'More actions', 'Restore', 'Run with arguments']) await expect(user.getByRole('button', { name }).or(user.getByRole('link', { name, exact: true }))).toHaveCount(0);
});

test('a job runs with arguments whose types are kept, and invalid JSON is located', { tag: '@prove' }, async ({ stage, user }) => {
  saveAs(stage, 'ada', 'nightly-report', { run: { python: 'shop.jobs:count', args: { region: 'eu', limit: 10, dry: true, tags: ['a'] } } });
  await open(user, stage, '/jobs/nightly-report');
  await button(user, 'Run with arguments').click();
  const dialog = user.getByRole('dialog');
  await dialog.getByLabel('region', { exact: true }).fill('12');
  await dialog.getByLabel('limit', { exact: true }).fill('25');
  await dialog.getByLabel('dry', { exact: true }).selectOption('false');
  await dialog.getByLabel('Name of the argument').fill('note');
  await dialog.getByRole('button', { name: 'Add', exact: true }).click();
  await dialog.getByLabel('note', { exact: true }).fill('by hand');
  const json = dialog.getByRole('textbox', { name: 'Arguments (JSON)', exact: true });
  const good = await json.inputValue();
  expect(JSON.parse(good)).toEqual({ region: '12', limit: 25, dry: false, tags: ['a'], note: 'by hand' });
  await json.fill(good.replace('25,', '25'));
  await expect(dialog.getByRole('listitem').filter({ hasText: /^Line/ })).toHaveText(/Line 4: Expected ',' or '}'/);
  await expect(dialog.getByRole('button', { name: 'Run', exact: true })).toBeDisabled();
  await json.fill('[1]');
  await expect(dialog.getByText('Arguments must be an object')).toBeVisible();
  await json.fill(good.replace('25', '26'));
  await expect(dialog.getByLabel('limit', { exact: true })).toHaveValue('26');
  await dialog.getByRole('button', { name: 'Reset dry' }).click();
  await dialog.getByRole('button', { name: 'Run', exact: true }).click();
  await expect(user.getByText('Run of nightly-report requested')).toBeVisible();
  expect(stage.edits.sent('POST /jobs/nightly-report/run')).toEqual({ args: { region: '12', limit: 26, note: 'by hand' } });
});

test('a replay begins with the arguments of the version that ran', { tag: '@prove' }, async ({ stage, user }) => {
  const run = stage.world.dead().find((one) => one.job !== 'backup-postgres')!;
  const before = definitionOf(stage.world.named(run.job)!);
  const run0 = before.run as Doc;
  stage.edits.versions.set(run.job, [{ version: 1, at: '2026-01-01T00:00:00Z', by: 'ada', state: 'active', since: null, until: null, job: { ...before, run: { ...run0, args: { region: 'us', limit: 1 } } } as never }]);
  saveAs(stage, 'ada', run.job, { run: { ...run0, args: { region: 'us', limit: 2 } } });
  await open(user, stage, `/runs/${encodeURIComponent(run.id)}`);
  await button(user, 'Edit and replay').click();
  const dialog = user.getByRole('dialog');
  // The run has its own region, and the limit of the first version.
  await expect(dialog.getByLabel('region', { exact: true })).toHaveValue('eu');
  await expect(dialog.getByLabel('limit', { exact: true })).toHaveValue('1');
  await dialog.getByRole('button', { name: 'Replay', exact: true }).click();
  await expect(user.getByText('Replayed as a new run')).toBeVisible();
  expect(stage.edits.bodies.find(([request]) => request.endsWith('/retry'))?.[1]).toEqual({ args: { region: 'eu', limit: 1 } });
});

test('a backfill shows its number of runs, its first and last instants, and when it ends', { tag: '@prove' }, async ({ stage, user }) => {
  await open(user, stage, '/jobs/nightly-report?tab=backfills');
  await button(user, 'Backfill').click();
  const dialog = user.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Show what would run' }).click();
  await expect(dialog.getByRole('status')).toContainText(/144 runs, from .* to .* UTC\.\s+Without a rate limit/);
  await dialog.getByLabel('Rate limit').fill('10/m');
  await dialog.getByRole('button', { name: 'Show what would run' }).click();
  await expect(dialog.getByRole('status')).toContainText(/At 10\/m, this takes at least 14 m 24 s, until .* or later/);
});
