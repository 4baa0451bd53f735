// The actions of the settings that need no form: ask for confirmation, act, and report.
import { store } from './store.svelte';
import type { User } from './types';
import { ui } from './ui.svelte';

/** Returns whether it was done. */
async function confirmed(question: Parameters<typeof ui.confirm>[0], done: string, work: () => Promise<unknown>): Promise<boolean> {
  if ((await ui.confirm(question)) === null) return false;
  if ((await ui.attempt(async () => (await work(), true))) === null) return false;
  ui.toast(done);
  return true;
}

export async function setEnabled(user: User, enabled: boolean): Promise<boolean> {
  const work = () => store.api.patch('/users/{name}', { params: { path: { name: user.name } }, body: { enabled } });
  if (!enabled) return confirmed({ title: `Disable ${user.name}?`, body: 'All sessions of this user end immediately, and the user cannot log in until enabled again.', confirm: 'Disable', danger: true }, `${user.name} disabled`, work);
  if ((await ui.attempt(work)) === null) return false;
  ui.toast(`${user.name} enabled`);
  return true;
}

export function deleteUser(name: string): Promise<boolean> {
  return confirmed({ title: `Delete user ${name}?`, body: 'All sessions of this user end immediately. Audit log entries keep the name.', confirm: 'Delete user', danger: true }, `User ${name} deleted`, () => store.api.delete('/users/{name}', { params: { path: { name } } }));
}

export function deleteKey(name: string): Promise<boolean> {
  return confirmed({ title: `Delete API key ${name}?`, body: 'Programs that use this key lose access immediately.', confirm: 'Delete API key', danger: true }, `API key ${name} deleted`, () => store.api.delete('/api-keys/{name}', { params: { path: { name } } }));
}

export function deleteSecret(name: string, uses: number): Promise<boolean> {
  const body = uses > 0 ? `It is used in ${uses === 1 ? 'one place' : `${uses} places`}; jobs and alerts that use it fail until it is set again.` : 'No job or alert uses it.';
  return confirmed({ title: `Delete secret ${name}?`, body: `${body} Its value cannot be recovered.`, confirm: 'Delete secret', danger: true }, `Secret ${name} deleted`, () => store.api.delete('/secrets/{name}', { params: { path: { name } } }));
}

export function deleteCalendar(name: string): Promise<boolean> {
  return confirmed({ title: `Delete calendar ${name}?`, confirm: 'Delete calendar', danger: true }, `Calendar ${name} deleted`, () => store.api.delete('/calendars/{name}', { params: { path: { name } } }));
}

export function deleteAlert(name: string): Promise<boolean> {
  return confirmed({ title: `Delete alert ${name}?`, body: 'Its deliveries are deleted too, and waiting notifications are not sent.', confirm: 'Delete alert', danger: true }, `Alert ${name} deleted`, () => store.api.delete('/alerts/{name}', { params: { path: { name } } }));
}
