import { describe, expect, it } from 'vitest';
import { bodyOf, fieldsOf, KINDS, receiverOf, withEnabled } from '../../src/lib/alertForm';
import { ROLES } from '../../src/lib/openapi.roles';
import { changeBody, limitsOf, rightsBody, rightsOf, words } from '../../src/lib/rights';
import { ABILITIES, can, EXPLAINED, NEEDED } from '../../src/lib/roles';
import { secretRows } from '../../src/lib/secrets';
import { sectionOf, SECTIONS } from '../../src/lib/settings';
import type { Alert, User } from '../../src/lib/types';
import { movedTo, viewOf } from '../../src/lib/views';
import { yearOf } from '../../src/lib/yearDays';

describe('the explanation of the roles', () => {
  it('covers every operation that needs more than a viewer', () => {
    const restricted = Object.entries(ROLES).filter(([, role]) => role !== 'viewer').map(([operation]) => operation);
    expect([...EXPLAINED].toSorted()).toEqual(restricted.toSorted());
  });

  it('has operations of one role in each group', () => {
    expect(NEEDED.filter(([, roles]) => roles.length !== 1)).toEqual([]);
    expect(ABILITIES.filter((ability) => can('viewer', ability)).length).toBeLessThan(ABILITIES.filter((ability) => can('operator', ability)).length);
    expect(ABILITIES.every((ability) => can('admin', ability))).toBe(true);
  });
});

describe('rights', () => {
  const editor: User = { name: 'linus', role: 'editor', jobs: ['billing-*'], allow_shell: true, allow_secrets: false, enabled: true, source: 'local', created_at: '' };

  it('of an editor are sent, and of other roles left out', () => {
    const rights = { role: 'editor', jobs: ' a-*,\nb-* ', allow_shell: true, allow_secrets: false } as const;
    expect(rightsBody(rights, 'user')).toEqual({ role: 'editor', jobs: ['a-*', 'b-*'], allow_shell: true, allow_secrets: false });
    expect(rightsBody({ ...rights, role: 'viewer' }, 'user')).toEqual({ role: 'viewer' });
    expect(rightsBody({ ...rights, role: 'viewer' }, 'key')).toEqual({ role: 'viewer', jobs: ['a-*', 'b-*'] });
    expect(rightsBody({ ...rights, role: 'admin' }, 'key')).toEqual({ role: 'admin' });
    expect(words('')).toEqual([]);
  });

  it('are for all jobs when the patterns of an editor are removed', () => {
    expect(changeBody(editor, { ...rightsOf(editor), jobs: '' }).jobs).toEqual(['*']);
    expect(changeBody({ ...editor, jobs: [] }, { ...rightsOf(editor), jobs: '' }).jobs).toBeUndefined();
    expect(changeBody(editor, { ...rightsOf(editor), role: 'viewer', jobs: '' })).toEqual({ role: 'viewer' });
  });

  it('are described', () => {
    expect(limitsOf(editor)).toBe('billing-*; may use commands');
    expect(limitsOf({ jobs: [], allow_shell: false, allow_secrets: false })).toBe('');
  });
});

it('a secret that is used and not set comes first', () => {
  const rows = secretRows([{ name: 'A', updated_at: '', updated_by: null }, { name: 'B', updated_at: '', updated_by: null }], [{ name: 'B', jobs: ['x'], job_count: 1, alerts: [] }, { name: 'Z', jobs: [], job_count: 0, alerts: ['y'] }]);
  expect(rows.map(({ name, secret, use }) => [name, secret !== null, use !== null])).toEqual([['Z', false, true], ['A', true, false], ['B', true, true]]);
});

describe('the form of an alert', () => {
  const alert = {
    name: 'x', on: ['failed', 'late'], jobs: [], webhook: { url: 'https://hooks.example.com/T0/B1', secret: null, format: 'json' }, email: null, late_after: '10m', no_leader_after: '1m', retries: 2, dead_letters: { warn: 10, critical: 100 },
    retry_rate: 0.2, report: { day: 'friday', time: '08:00', tz: 'UTC' }, limit_wait_after: '15m', heartbeat_every: '1m', group: null, quiet: null, enabled: false, since: '', created_at: '', updated_at: '', updated_by: null,
  } as Alert;

  it('keeps what it does not show, and sends thresholds only of the chosen kinds', () => {
    expect(bodyOf(fieldsOf(alert), alert)).toEqual({ on: ['failed', 'late'], jobs: [], webhook: { url: 'https://hooks.example.com/T0/B1', format: 'json' }, late_after: '10m', report: alert.report, quiet: null, enabled: false });
  });

  it('has a label for every kind once', () => {
    expect(new Set(KINDS.map(([kind]) => kind)).size).toBe(KINDS.length);
  });

  it('mutes without changing anything else', () => {
    const { enabled, ...rest } = withEnabled(alert, true);
    expect(enabled).toBe(true);
    expect(rest).not.toHaveProperty('updated_at');
    expect(rest).toMatchObject({ on: alert.on, webhook: alert.webhook, report: alert.report });
  });

  it('shows no more of an address than its host, because the path may be a secret', () => {
    expect(receiverOf(alert)).toBe('hooks.example.com');
    expect(receiverOf({ webhook: { url: '${secret:HOOK}', secret: null, format: 'slack' }, email: null })).toBe('slack ${secret:HOOK}');
  });
});

describe('a year of a calendar', () => {
  it('has twelve months with the named days', () => {
    const months = yearOf([{ day: '2028-02-29', weekday: 'tue', name: 'Leap day' }], '2027-03-31');
    expect([months.length, months[0]!.title, months.at(-1)!.title]).toEqual([12, 'March 2027', 'February 2028']);
    expect([months[0]!.offset, months.at(-1)!.days.length]).toEqual([0, 29]);
    expect(months.flatMap((month) => month.days).filter((day) => day.name !== null)).toEqual([{ day: '2028-02-29', number: 29, name: 'Leap day' }]);
  });
});

describe('the addresses of the settings', () => {
  it('are found, and the old ones lead there', () => {
    expect(SECTIONS.filter((one) => one.load !== null).map((one) => viewOf(one.href)?.id)).toEqual(SECTIONS.filter((one) => one.load !== null).map((one) => one.name));
    expect([movedTo('/audit'), movedTo('/sessions'), movedTo('/jobs')]).toEqual(['/settings/audit', '/settings/sessions', null]);
    expect([sectionOf('users')?.title, sectionOf('limits'), sectionOf('nothing')]).toEqual(['Users', null, null]);
  });
});
