// Converts the rights of users and API keys to the fields of a form, and back to the body of a request.
import type { ApiKey, Role, User } from './types';

export interface Rights {
  role: Role;
  /** Patterns of job names as typed, separated by spaces, commas or line breaks. */
  jobs: string;
  allow_shell: boolean;
  allow_secrets: boolean;
}

/** The entries of a typed list. */
export function words(text: string): string[] {
  return text.split(/[\s,]+/).filter((word) => word !== '');
}

export function rightsOf(holder: Pick<User, 'role' | 'jobs' | 'allow_shell' | 'allow_secrets'>): Rights {
  return { role: holder.role, jobs: holder.jobs.join(' '), allow_shell: holder.allow_shell, allow_secrets: holder.allow_secrets };
}

/** Whether a role can be limited to jobs. Users can only as editors. */
export function canBeLimited(role: Role, what: 'user' | 'key'): boolean {
  return role === 'editor' || (what === 'key' && role !== 'admin');
}

/** The body of a request. Only an editor has the rights to write commands and to use secrets. */
export function rightsBody({ role, jobs, allow_shell, allow_secrets }: Rights, what: 'user' | 'key') {
  const patterns = words(jobs);
  return {
    role,
    ...(canBeLimited(role, what) && patterns.length > 0 ? { jobs: patterns } : {}),
    ...(role === 'editor' ? { allow_shell, allow_secrets } : {}),
  };
}

/** The body of a change. An empty list of patterns would leave the old ones, so it becomes the pattern of all jobs. */
export function changeBody(before: User, after: Rights) {
  const body = rightsBody(after, 'user');
  return body.role === 'editor' && body.jobs === undefined && before.jobs.length > 0 ? { ...body, jobs: ['*'] } : body;
}

/** The jobs that a user or key is limited to, and the rights beyond the role, as a short text. */
export function limitsOf(holder: Pick<ApiKey, 'jobs' | 'allow_shell' | 'allow_secrets'>): string {
  const rights = [...(holder.allow_shell ? ['commands'] : []), ...(holder.allow_secrets ? ['secrets'] : [])];
  const jobs = holder.jobs.length === 0 ? '' : holder.jobs.join(', ');
  return [jobs, rights.length > 0 ? `may use ${rights.join(' and ')}` : ''].filter((text) => text !== '').join('; ');
}
