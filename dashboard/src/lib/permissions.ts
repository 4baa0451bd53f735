// The operations behind each action of the page. The role that an action needs comes from the OpenAPI document.
import { ROLES } from './openapi.roles';
import type { Role } from './types';

type Operation = keyof typeof ROLES;

export const ACTIONS = {
  run: ['POST /jobs/{name}/run'],
  pause: ['POST /jobs/{name}/pause', 'POST /jobs/{name}/resume'],
  change: ['PATCH /jobs/{name}'],
  create: ['POST /jobs'],
  edit: ['PUT /jobs/{name}'],
  remove: ['DELETE /jobs/{name}'],
  spread: ['POST /jobs/spread', 'POST /jobs/spread/apply'],
  cancel: ['POST /runs/{id}/cancel'],
  retry: ['POST /runs/{id}/retry'],
  ack: ['POST /runs/{id}/ack'],
  cancelAll: ['POST /runs/cancel'],
  retryAll: ['POST /runs/retry'],
  ackAll: ['POST /runs/ack'],
  drain: ['POST /nodes/{name}/drain', 'POST /nodes/{name}/undrain'],
  maintenance: ['PUT /cluster/maintenance'],
  backfill: ['POST /jobs/{name}/backfill', 'POST /backfills/{id}/cancel'],
  closeBreaker: ['POST /jobs/{name}/close-breaker'],
  audit: ['GET /audit'],
  users: ['GET /users', 'POST /users', 'PATCH /users/{name}', 'DELETE /users/{name}'],
  keys: ['GET /api-keys', 'POST /api-keys', 'DELETE /api-keys/{name}'],
  secrets: ['GET /secrets', 'GET /secrets/uses', 'POST /secrets', 'DELETE /secrets/{name}'],
  alerts: ['POST /alerts', 'PUT /alerts/{name}', 'DELETE /alerts/{name}', 'POST /alerts/{name}/test'],
  calendars: ['POST /calendars/{name}/read', 'PUT /calendars/{name}', 'DELETE /calendars/{name}'],
  config: ['GET /cluster/config'],
  stepdown: ['POST /cluster/stepdown'],
  chaos: [
    'GET /chaos/nodes', 'POST /chaos/leader/kill', 'POST /chaos/nodes/{name}/pause', 'POST /chaos/nodes/{name}/resume',
    'POST /chaos/redis/flush',
  ],
} as const satisfies Record<string, readonly Operation[]>;

export type Action = keyof typeof ACTIONS;

const RANKED: Role[] = ['viewer', 'operator', 'editor', 'admin'];

export function covers(role: Role, needed: Role): boolean {
  return RANKED.indexOf(role) >= RANKED.indexOf(needed);
}

/** The highest role among the operations of an action. */
export function roleFor(action: Action): Role {
  return ACTIONS[action].map((operation) => ROLES[operation]).reduce((a, b) => (covers(a, b) ? a : b));
}
