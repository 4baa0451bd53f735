// The addresses of jobs, runs and nodes, and the names in their ids.

/** A node's id is `<name>#<incarnation>`; the page shows the name. */
export function nodeName(id: string | null): string {
  return id === null ? '–' : (id.split('#')[0] ?? id);
}

/** The job of a run's id, `<job>@<instant>`. */
export function jobOf(run: string): string {
  return run.split('@')[0] ?? run;
}

export function runHref(id: string): string {
  return `/runs/${encodeURIComponent(id)}`;
}

export function nodeHref(name: string): string {
  return `/nodes/${encodeURIComponent(name)}`;
}

export function jobHref(name: string): string {
  // The page has a form at /jobs/new.
  return name === 'new' ? '/jobs/new/' : `/jobs/${encodeURIComponent(name)}`;
}

export function editHref(name: string): string {
  return `/jobs/${encodeURIComponent(name)}/edit`;
}
