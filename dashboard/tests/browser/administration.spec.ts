import { expect } from '@playwright/test';
import { axe } from './axe';
import { live, test } from './fixtures';

test('a node has a page with its state, load, runs, code and history', async ({ stage, user }) => {
  await user.goto(`${stage.url}/nodes`);
  await live(user);
  await user.getByRole('link', { name: 'us-east-1', exact: true }).click();
  await expect(user).toHaveURL(/\/nodes\/us-east-1$/);
  await expect(user.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'Nodes' })).toHaveAttribute('aria-current', 'page');
  const about = user.getByRole('region', { name: 'About' });
  await expect(about).toContainText('region=us-east');
  // Another node has the same App with other jobs.
  await expect(about).toContainText(/billing c0ffee123456\s*other jobs on eu-west-1, eu-west-2, eu-west-3 and \d more/);
  await expect(about.locator('.chip', { hasText: 'RabbitMQ' })).toContainText(': no');
  await expect(user.getByRole('img', { name: /^CPU, 10 min: CPU \d+ %/ })).toBeVisible();
  await expect(user.getByRole('img', { name: /^Slots, 10 min: Running \d+, Slots 16/ })).toBeVisible();
  await expect(user.getByRole('definition').filter({ hasText: 'of 8' })).toContainText('3.75');
  const running = user.getByRole('region', { name: 'Running now' }).getByRole('listitem');
  await expect(running.first()).toContainText(/due .* runs /s);
  await running.first().locator('a[href^="/runs/"]').click();
  await expect(user).toHaveURL(/\/runs\//);
  await user.goBack();
  await expect(user.getByRole('region', { name: 'History' })).toBeVisible();
});

test('the history of a node has its starts, losses and drains, and grows with new events', async ({ stage, user }) => {
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
  await expect(user.getByRole('group', { name: 'Not up' })).toContainText('its last event was 1 d ago');
  await expect(items).toHaveCount(1);
  await expect(user.getByRole('button', { name: 'Drain' })).toHaveCount(0);
});

test('a node is drained with a deadline, which can be changed', async ({ stage, user }) => {
  await user.goto(`${stage.url}/nodes/eu-west-2`);
  await live(user);
  await user.getByRole('button', { name: 'Drain' }).click();
  const dialog = user.getByRole('dialog');
  await dialog.getByLabel('Deadline').selectOption('10m');
  expect(await axe(user, 'drain dialog', { switches: false })).toEqual([]);
  await dialog.getByRole('button', { name: 'Drain' }).click();
  const notice = user.getByRole('group', { name: 'Drain' });
  await expect(notice).toContainText(/What still runs at \d\d:\d\d:\d\d \(in 9 m/);
  await expect(user.getByText(/^Draining eu-west-2 until \d\d:\d\d:\d\d$/)).toBeVisible();
  await user.getByRole('button', { name: 'Change deadline' }).click();
  await dialog.getByRole('button', { name: 'Drain' }).click();
  await expect(notice).toContainText('There is no deadline');
  await user.getByRole('button', { name: 'Undrain' }).click();
  await expect(notice).toHaveCount(0);
  stage.world.role = 'viewer';
  await user.reload();
  await live(user);
  await expect(user.getByRole('link', { name: 'All runs' })).toBeVisible();
  await expect(user.locator('[data-act]')).toHaveCount(0);
});
