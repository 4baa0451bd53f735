// The secrets that are set, and those that are only used.
import type { Secret, SecretUse } from './types';

export interface SecretRow {
  name: string;
  /** Null: it is used, and not set. */
  secret: Secret | null;
  /** Null: nothing uses it. */
  use: SecretUse | null;
}

/** By name; those that are used and not set come first, because what uses them fails. */
export function secretRows(secrets: readonly Secret[], uses: readonly SecretUse[]): SecretRow[] {
  const used = new Map(uses.map((use) => [use.name, use]));
  const set = new Set(secrets.map((secret) => secret.name));
  const missing = uses.filter((use) => !set.has(use.name)).map((use) => ({ name: use.name, secret: null, use }));
  return [...missing, ...secrets.map((secret) => ({ name: secret.name, secret, use: used.get(secret.name) ?? null }))];
}

/** In how many jobs and alerts it is used. */
export const usesOf = ({ use }: SecretRow): number => (use === null ? 0 : use.job_count + use.alerts.length);
