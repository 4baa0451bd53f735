// Which role each action needs: what is shown to whom, and what the tests look for.
import type { Role } from './types';

export const NEEDS = {
  run: 'operator', pause: 'operator', cancel: 'operator', retry: 'operator', ack: 'operator', drain: 'operator',
  stepdown: 'operator', change: 'admin', chaos: 'admin',
} as const satisfies Record<string, Role>;

export type Action = keyof typeof NEEDS;
