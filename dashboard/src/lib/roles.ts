// What each role may do, in words. The role that an operation needs comes from the OpenAPI document.
import { ROLES } from './openapi.roles';
import { covers } from './permissions';
import type { Role } from './types';

type Operation = keyof typeof ROLES;

export interface Ability {
  text: string;
  role: Role;
}

export const ALL_ROLES: { role: Role; text: string }[] = [
  { role: 'viewer', text: 'Reads everything except secrets, and changes nothing' },
  { role: 'operator', text: 'Also keeps jobs running: runs, pauses, replays and cancels them' },
  { role: 'editor', text: 'Also decides what runs: creates and changes jobs, calendars and limits' },
  { role: 'admin', text: 'Also manages users, API keys, secrets and alerts' },
];

/** Operations that belong together need the same role. Those of viewers are one group. */
const GROUPS: [string, Operation[]][] = [
  ['Run jobs and close their circuit breakers', ['POST /jobs/{name}/run', 'POST /jobs/{name}/close-breaker']],
  ['Pause and resume jobs', ['POST /jobs/{name}/pause', 'POST /jobs/{name}/resume', 'POST /jobs/pause', 'POST /jobs/resume']],
  ['Cancel, replay and acknowledge runs', ['POST /runs/cancel', 'POST /runs/retry', 'POST /runs/ack', 'POST /runs/{id}/cancel', 'POST /runs/{id}/retry', 'POST /runs/{id}/ack']],
  ['Start and cancel backfills', ['POST /jobs/{name}/backfill', 'POST /backfills/{id}/cancel']],
  ['Drain nodes, make the leader step down, run a sweep of all records', ['POST /nodes/{name}/drain', 'POST /nodes/{name}/undrain', 'POST /cluster/stepdown', 'POST /cluster/sweep']],
  ['Start and end maintenance, approve missed runs', ['PUT /cluster/maintenance', 'POST /cluster/recovery/approve', 'POST /cluster/recovery/skip']],
  ['Create, change and delete jobs', ['POST /jobs', 'POST /jobs/apply', 'PUT /jobs/{name}', 'PATCH /jobs/{name}', 'DELETE /jobs/{name}']],
  ['Spread jobs over quieter minutes', ['POST /jobs/spread', 'POST /jobs/spread/apply']],
  ['Change calendars and limits', ['PUT /calendars/{name}', 'DELETE /calendars/{name}', 'POST /calendars/{name}/read', 'PUT /limits/{name}', 'DELETE /limits/{name}']],
  ['Manage users and API keys', ['GET /users', 'POST /users', 'PATCH /users/{name}', 'DELETE /users/{name}', 'GET /api-keys', 'POST /api-keys', 'DELETE /api-keys/{name}']],
  ['Set and delete secrets', ['GET /secrets', 'GET /secrets/uses', 'POST /secrets', 'DELETE /secrets/{name}']],
  ['Change and test alerts', ['POST /alerts', 'PUT /alerts/{name}', 'DELETE /alerts/{name}', 'POST /alerts/{name}/test']],
  ['Read the audit log and the configuration', ['GET /audit', 'GET /cluster/config']],
  ['Inject failures into a development cluster', ['GET /chaos/nodes', 'POST /chaos/leader/kill', 'POST /chaos/nodes/{name}/pause', 'POST /chaos/nodes/{name}/resume', 'POST /chaos/redis/flush']],
];

/** The roles that the operations of each group need; one, unless a group is wrong. */
export const NEEDED: [string, Role[]][] = GROUPS.map(([text, operations]) => [text, [...new Set(operations.map((operation) => ROLES[operation]))]]);

export const EXPLAINED: ReadonlySet<string> = new Set(GROUPS.flatMap(([, operations]) => operations));

export const ABILITIES: Ability[] = [
  { text: 'See jobs, runs, logs, nodes, limits, calendars and alerts', role: 'viewer' },
  { text: 'See and revoke their own sessions', role: 'viewer' },
  ...NEEDED.map(([text, [role]]) => ({ text, role: role! })),
];

export const can = (role: Role, ability: Ability) => covers(role, ability.role);
