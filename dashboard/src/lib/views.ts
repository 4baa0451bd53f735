// All views: address, title, keyboard shortcut, and the module, which is a chunk of its own.
import type { Component } from 'svelte';
import type { IconName } from '../ui/icons';

export interface View {
  name: string;
  title: string;
  path: RegExp;
  href: string | null;
  icon: IconName;
  /** The key after `g`. */
  key: string | null;
  load: () => Promise<{ default: Component<{ id: string }> }>;
}

const one = (name: string) => new RegExp(`^/${name}/([^/]+)/?$`);

export const VIEWS: View[] = [
  { name: 'overview', title: 'Overview', path: /^\/$/, href: '/', icon: 'overview', key: 'o', load: () => import('../views/Overview.svelte') },
  { name: 'jobs', title: 'Jobs', path: /^\/jobs$/, href: '/jobs', icon: 'jobs', key: 'j', load: () => import('../views/Jobs.svelte') },
  { name: 'runs', title: 'Runs', path: /^\/runs$/, href: '/runs', icon: 'runs', key: 'r', load: () => import('../views/Runs.svelte') },
  { name: 'timeline', title: 'Timeline', path: /^\/timeline$/, href: '/timeline', icon: 'timeline', key: 't', load: () => import('../views/Timeline.svelte') },
  { name: 'logs', title: 'Logs', path: /^\/logs$/, href: '/logs', icon: 'logs', key: 'l', load: () => import('../views/Logs.svelte') },
  { name: 'dead', title: 'Dead letters', path: /^\/dead-letters$/, href: '/dead-letters', icon: 'dead', key: 'd', load: () => import('../views/DeadLetters.svelte') },
  { name: 'chains', title: 'Chains', path: /^\/chains$/, href: '/chains', icon: 'chains', key: 'f', load: () => import('../views/Chains.svelte') },
  { name: 'nodes', title: 'Nodes', path: /^\/nodes$/, href: '/nodes', icon: 'nodes', key: 'n', load: () => import('../views/Nodes.svelte') },
  { name: 'limits', title: 'Limits', path: /^\/limits$/, href: '/limits', icon: 'limits', key: 'm', load: () => import('../views/Limits.svelte') },
  { name: 'load', title: 'Schedule load', path: /^\/load$/, href: '/load', icon: 'load', key: 'h', load: () => import('../views/Load.svelte') },
  { name: 'incident', title: 'Incident', path: /^\/incident$/, href: '/incident', icon: 'warn', key: 'i', load: () => import('../views/Incident.svelte') },
  { name: 'cron', title: 'Cron builder', path: /^\/cron$/, href: '/cron', icon: 'cron', key: 'c', load: () => import('../views/Cron.svelte') },
  { name: 'settings', title: 'Settings', path: /^\/settings(?:\/([\w-]+))?$/, href: '/settings', icon: 'settings', key: 's', load: () => import('../views/Settings.svelte') },
  { name: 'chaos', title: 'Chaos', path: /^\/chaos$/, href: '/chaos', icon: 'bolt', key: 'x', load: () => import('../views/Chaos.svelte') },
  { name: 'newJob', title: 'New job', path: /^\/jobs\/new$/, href: null, icon: 'jobs', key: null, load: () => import('../views/JobEdit.svelte') },
  { name: 'editJob', title: 'Edit job', path: /^\/jobs\/([^/]+)\/edit$/, href: null, icon: 'jobs', key: null, load: () => import('../views/JobEdit.svelte') },
  { name: 'job', title: 'Job', path: one('jobs'), href: null, icon: 'jobs', key: null, load: () => import('../views/Job.svelte') },
  { name: 'node', title: 'Node', path: one('nodes'), href: null, icon: 'nodes', key: null, load: () => import('../views/Node.svelte') },
  { name: 'compare', title: 'Compare runs', path: /^\/compare$/, href: null, icon: 'runs', key: null, load: () => import('../views/Compare.svelte') },
  { name: 'run', title: 'Run', path: one('runs'), href: null, icon: 'runs', key: null, load: () => import('../views/Run.svelte') },
];

export const NAV = VIEWS.filter((view) => view.href !== null);

/** Views that have moved, and where to. */
const MOVED: Record<string, string> = { '/sessions': '/settings/sessions', '/audit': '/settings/audit', '/alerts': '/settings/alerts' };

/** The present address of a view that has moved; null: it has not. */
export function movedTo(path: string): string | null {
  return MOVED[path] ?? null;
}

export function viewOf(path: string): { view: View; id: string } | null {
  for (const view of VIEWS) {
    const match = view.path.exec(path);
    if (match !== null) return { view, id: decodeURIComponent(match[1] ?? '') };
  }
  return null;
}
