// Converts an alert to the fields of its form, and back to the body of a request.
import { words } from './rights';
import type { Alert, AlertInput, AlertKind } from './types';

export const KINDS: [AlertKind, string, string][] = [
  ['failed', 'Failed', 'A run failed permanently'],
  ['dead_letter', 'Dead letter', 'A run failed permanently or was lost'],
  ['recovered', 'Recovered', 'A job succeeds again after its failure was reported'],
  ['late', 'Late', 'A run has not started in time'],
  ['running_long', 'Running long', 'A run takes much longer than usual'],
  ['retries', 'Retries', 'A run needed many retries'],
  ['limit_wait', 'Waiting for a limit', 'A run has waited long for a named limit'],
  ['succeeded', 'Succeeded', 'A run succeeded; requires exact job names, no patterns'],
  ['no_leader', 'No leader', 'The cluster has no leader'],
  ['node_lost', 'Node lost', 'A node was lost'],
  ['dead_letters', 'Many dead letters', 'Too many dead letters are open'],
  ['retry_rate', 'Retry rate', 'The share of retries among all attempts is too high'],
  ['report', 'Weekly report', 'A summary of the week'],
  ['heartbeat', 'Heartbeat', 'Sent regularly while the cluster is healthy'],
];

export const kindLabel = (kind: string): string => KINDS.find(([name]) => name === kind)?.[1] ?? kind;

export interface Fields {
  name: string;
  on: AlertKind[];
  jobs: string;
  by: 'webhook' | 'email';
  url: string;
  secret: string;
  format: NonNullable<Alert['webhook']>['format'];
  to: string;
  log_lines: number;
  late_after: string;
  no_leader_after: string;
  limit_wait_after: string;
  heartbeat_every: string;
  retries: number;
  retry_rate: number;
  warn: number;
  critical: number;
  grouped: boolean;
  group_by: string;
  wait: string;
  interval: string;
}

/** The fields of an alert; those of a new one have the server's defaults. */
export function fieldsOf(alert: Alert | null): Fields {
  return {
    name: alert?.name ?? '',
    on: [...(alert?.on ?? (['failed', 'recovered'] as const))],
    jobs: alert?.jobs.join(' ') ?? '',
    by: alert?.email ? 'email' : 'webhook',
    url: alert?.webhook?.url ?? '',
    secret: alert?.webhook?.secret ?? '',
    format: alert?.webhook?.format ?? 'json',
    to: alert?.email?.to.join(' ') ?? '',
    log_lines: alert?.email?.log_lines ?? 20,
    late_after: String(alert?.late_after ?? '5m'),
    no_leader_after: String(alert?.no_leader_after ?? '1m'),
    limit_wait_after: String(alert?.limit_wait_after ?? '15m'),
    heartbeat_every: String(alert?.heartbeat_every ?? '1m'),
    retries: alert?.retries ?? 2,
    retry_rate: alert?.retry_rate ?? 0.2,
    warn: alert?.dead_letters.warn ?? 10,
    critical: alert?.dead_letters.critical ?? 100,
    grouped: alert !== null && alert.group !== null,
    group_by: alert?.group?.by.join(' ') ?? 'job',
    wait: String(alert?.group?.wait ?? '30s'),
    interval: String(alert?.group?.interval ?? '5m'),
  };
}

/** The body of a request: thresholds only for the chosen kinds; what the form does not contain stays unchanged. */
export function bodyOf(fields: Fields, before: Alert | null): AlertInput {
  const on = new Set<string>(fields.on);
  const when = <T extends object>(kind: AlertKind, part: T): Partial<T> => (on.has(kind) ? part : {});
  return {
    ...(before === null ? {} : { report: before.report, quiet: before.quiet, enabled: before.enabled }),
    on: fields.on,
    jobs: words(fields.jobs),
    ...(fields.by === 'webhook'
      ? { webhook: { url: fields.url.trim(), format: fields.format, ...(fields.format === 'json' && fields.secret.trim() !== '' ? { secret: fields.secret.trim() } : {}) } }
      : { email: { to: words(fields.to), log_lines: fields.log_lines } }),
    ...when('late', { late_after: fields.late_after.trim() }),
    ...when('no_leader', { no_leader_after: fields.no_leader_after.trim() }),
    ...when('limit_wait', { limit_wait_after: fields.limit_wait_after.trim() }),
    ...when('heartbeat', { heartbeat_every: fields.heartbeat_every.trim() }),
    ...when('retries', { retries: fields.retries }),
    ...when('retry_rate', { retry_rate: fields.retry_rate }),
    ...when('dead_letters', { dead_letters: { warn: fields.warn, critical: fields.critical } }),
    ...(fields.grouped ? { group: { by: words(fields.group_by), wait: fields.wait.trim(), interval: fields.interval.trim() } } : {}),
  };
}

/** The body that changes only whether an alert sends notifications. */
export function withEnabled(alert: Alert, enabled: boolean): AlertInput {
  const { name: _name, since: _since, created_at: _created, updated_at: _updated, updated_by: _by, ...rest } = alert;
  return { ...rest, enabled };
}

/** Where its notifications go, as a short text; an address without its path, which may be a secret. */
export function receiverOf(alert: Pick<Alert, 'webhook' | 'email'>): string {
  if (alert.email) return alert.email.to.join(', ');
  const { url, format } = alert.webhook ?? { url: '', format: 'json' };
  const host = /^https?:\/\/([^/?#]+)/.exec(url)?.[1] ?? url;
  return format === 'json' ? host : `${format} ${host}`;
}
