// What the API answers, by the page's own short names. The shapes are made from the API's description (`npm run types`);
// nothing here is typed again by hand.
import type { components } from './openapi';

type Shapes = components['schemas'];

/** ISO 8601 in UTC. */
export type Instant = string;
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export type RunState = Shapes['RunState'];
export type RunKind = Shapes['Kind'];
export type Outcome = Shapes['Outcome'];
export type JobState = Shapes['JobSchema']['state'];
export type NodeState = Shapes['NodeSchema']['state'];
export type Role = Shapes['Role'];
export type Level = 'debug' | 'info' | 'success' | 'warn' | 'error';

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

/** One of its three kinds: a cron expression, an interval, or an instant. */
export type Schedule = Partial<Shapes['CronForm'] & Shapes['EveryForm'] & Shapes['OnceForm']>;
export type Job = Omit<Shapes['JobSchema'], 'schedule'> & { schedule: Schedule | null };
export type Version = Shapes['VersionSchema'];
export type Recent = Shapes['RecentSchema'];
export type Mark = Shapes['MarkSchema'];
export type Attempt = Shapes['AttemptSchema'];
export type Run = Shapes['RunSchema'];
export type RunDetail = Shapes['RunDetailSchema'];
export type Asked = Shapes['AskedSchema'];
export type Replay = Shapes['ReplaySchema'];
export type LogLine = Omit<Shapes['LogSchema'], 'level'> & { level: Level };
export type Report = Shapes['ReportSchema'];
export type Why = Omit<Shapes['WhySchema'], 'chain'> & { chain: ({ step: string } & { [key: string]: Json })[] };
export type Preview = Shapes['PreviewSchema'];
export type Series = Shapes['SeriesSchema'];
export type Span = Shapes['Span'];
export type Herd = Shapes['HerdSchema'];
export type Slot = Shapes['SlotSchema'];
export type Day = Shapes['DaySchema'];
export type Days = Shapes['DaysSchema'];
export type ClusterEvent = Shapes['EventSchema'];
export type ClusterSettings = Shapes['SettingsSchema'];
export type Process = Shapes['ProcessSchema'];
export type Problem = Pick<Shapes['ProblemSchema'], 'title' | 'status'> & Partial<Shapes['ProblemSchema']>;
export type Tokens = Shapes['TokensSchema'];
/** Who is logged in. `jobs` are the patterns of names that the role is for; none means all jobs, and all else too. */
export type Me = Shapes['PrincipalSchema'];
