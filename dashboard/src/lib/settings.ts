// The sections of the settings: address, title, who may see them, and the module, which is a chunk of its own.
import type { Component } from 'svelte';
import type { Action } from './permissions';

export interface Section {
  name: string;
  title: string;
  group: 'Access' | 'Cluster';
  /** The action without which the section has nothing to show. */
  needs: Action | null;
  /** Null: the section is a view of its own at `href`. */
  load: (() => Promise<{ default: Component }>) | null;
  href: string;
}

const section = (name: string, title: string, group: Section['group'], needs: Action | null, load: Section['load']): Section => ({ name, title, group, needs, load, href: `/settings/${name}` });

export const SECTIONS: Section[] = [
  section('users', 'Users', 'Access', 'users', () => import('../views/settings/Users.svelte')),
  section('keys', 'API keys', 'Access', 'keys', () => import('../views/settings/ApiKeys.svelte')),
  section('roles', 'Roles', 'Access', null, () => import('../views/settings/Roles.svelte')),
  section('sessions', 'Sessions', 'Access', null, () => import('../views/settings/Sessions.svelte')),
  section('secrets', 'Secrets', 'Access', 'secrets', () => import('../views/settings/Secrets.svelte')),
  section('alerts', 'Alerts', 'Cluster', null, () => import('../views/settings/Alerts.svelte')),
  section('calendars', 'Calendars', 'Cluster', null, () => import('../views/settings/Calendars.svelte')),
  { ...section('limits', 'Limits', 'Cluster', null, null), href: '/limits' },
  section('audit', 'Audit log', 'Cluster', 'audit', () => import('../views/settings/Audit.svelte')),
  section('configuration', 'Configuration', 'Cluster', 'config', () => import('../views/settings/Configuration.svelte')),
];

export function sectionOf(name: string): Section | null {
  return SECTIONS.find((one) => one.name === name && one.load !== null) ?? null;
}
