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
export type JobState = Shapes['JobShape']['state'];
export type NodeState = Shapes['NodeShape']['state'];
export type Role = Shapes['Role'];
export type Level = 'debug' | 'info' | 'success' | 'warn' | 'error';

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

/** One of its three kinds: a cron expression, an interval, or an instant. */
export type Schedule = Partial<Shapes['CronForm'] & Shapes['EveryForm'] & Shapes['OnceForm']>;
export type Job = Omit<Shapes['JobShape'], 'schedule'> & { schedule: Schedule | null };
export type Version = Shapes['VersionShape'];
export type Recent = Shapes['RecentShape'];
export type Mark = Shapes['MarkShape'];
export type Attempt = Shapes['AttemptShape'];
export type Run = Shapes['RunShape'];
export type RunDetail = Shapes['RunDetailShape'];
export type Asked = Shapes['AskedShape'];
export type Replay = Shapes['ReplayShape'];
export type LogLine = Omit<Shapes['LogShape'], 'level'> & { level: Level };
export type Report = Shapes['ReportShape'];
export type Why = Omit<Shapes['WhyShape'], 'chain'> & { chain: ({ step: string } & { [key: string]: Json })[] };
export type Preview = Shapes['PreviewShape'];
export type Series = Shapes['SeriesShape'];
export type Span = Shapes['Span'];
export type Herd = Shapes['HerdShape'];
export type Slot = Shapes['SlotShape'];
export type Day = Shapes['DayShape'];
export type Days = Shapes['DaysShape'];
export type ClusterEvent = Shapes['EventShape'];
export type ClusterSettings = Shapes['SettingsShape'];
export type Process = Shapes['ProcessShape'];
export type Problem = Pick<Shapes['ProblemShape'], 'title' | 'status'> & Partial<Shapes['ProblemShape']>;
export type Tokens = Shapes['TokensShape'];
/** Who is logged in. `jobs` are the patterns of names that the role is for; none means all jobs, and all else too. */
export type Me = Shapes['PrincipalShape'];
