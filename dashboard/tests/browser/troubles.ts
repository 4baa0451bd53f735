// The jobs of the simulated cluster that need attention.
import type { HealthCounts, JobCondition, JobHealth } from '../../src/lib/types';

const KINDS: readonly JobHealth[] = ['stuck', 'overdue', 'failing', 'paused', 'never_ran'];

export const trouble = (job: string, health: JobHealth, seconds: number, reason: string, rest: Partial<JobCondition> = {}): JobCondition => ({
  job, health, since: new Date(Date.now() - seconds * 1000).toISOString().replace(/\.\d+Z$/, 'Z'), reason, run: null, nodes: [], more: 0, ...rest,
});

/** A stuck job, two overdue ones, one that fails and one that never ran. */
export function someTroubles(): JobCondition[] {
  const nodes = [
    { node: 'eu-west-1#9f31c2', reason: 'no label gpu (needs gpu=h100)' },
    { node: 'batch-gpu-large-memory-frankfurt-07#12ab', reason: 'label gpu=a100 (needs gpu=h100)' },
  ];
  return [
    trouble('recompute-prices', 'stuck', 400, 'no node can run this job', { nodes, more: 10, run: 'recompute-prices@20261121T080000Z' }),
    trouble('recompute-prices', 'overdue', 400, 'no node can run this job', { nodes, more: 10, run: 'recompute-prices@20261121T080000Z' }),
    trouble('fraud-scores', 'overdue', 190, 'the leader has not planned the run yet'),
    trouble('invoice-reminders', 'failing', 7300, "the last 3 runs failed: KeyError: 'customer_id'", { run: 'invoice-reminders@20261121T080000Z' }),
    trouble('migrate-legacy-accounts', 'never_ran', 86_400, 'has no run yet'),
  ];
}

export function healthCounts(found: readonly JobCondition[]): HealthCounts {
  return Object.fromEntries(KINDS.map((kind) => [kind, found.filter((one) => one.health === kind).length])) as unknown as HealthCounts;
}
