// What the timeline shows besides its bars: the looks of its marks, and which runs match its filters. Pure.
import type { IconName } from '../ui/icons';
import type { JobSummary, RunSummary, Schemas } from './types';

export type TimelineMark = Schemas['ClusterMarkSchema'];
export type TimelineFire = Schemas['TimelineFireSchema'];

/** The share of the live range that lies ahead of now. */
export const AHEAD = 0.14;

export const MARK: Record<TimelineMark['kind'], { label: string; icon: IconName; tone: string }> = {
  leader: { label: 'Leader', icon: 'crown', tone: 'crown' },
  deployment: { label: 'Deployment', icon: 'up', tone: 'run' },
  node_lost: { label: 'Node lost', icon: 'lost', tone: 'bad' },
  service: { label: 'Server', icon: 'plug', tone: 'bad' },
  maintenance: { label: 'Maintenance', icon: 'wrench', tone: 'retry' },
};

/** The names of the jobs that match: by a part of the name, and by a label `key=value`. Null: every job does. */
export function matchingJobs(jobs: readonly JobSummary[], part: string, label: string): ReadonlySet<string> | null {
  if (part === '' && label === '') return null;
  const wanted = part.toLowerCase();
  return new Set(
    jobs.filter((job) => job.name.toLowerCase().includes(wanted) && (label === '' || labelsOf(job).includes(label))).map((job) => job.name),
  );
}

export function labelsOf(job: JobSummary): string[] {
  return Object.entries(job.labels).map(([key, value]) => `${key}=${value}`);
}

/** Runs of these jobs. Without labels, a name counts too if the job is unknown, because it may be deleted. */
export function matchingRuns(runs: readonly RunSummary[], jobs: ReadonlySet<string> | null, part: string, label: string): readonly RunSummary[] {
  if (jobs === null) return runs;
  return runs.filter((run) => jobs.has(run.job) || (label === '' && run.job.toLowerCase().includes(part.toLowerCase())));
}
