// The page's own short names for what the API answers. The schemas are generated from the OpenAPI document
// (`npm run types`).
import type { components } from './openapi';

export type Schemas = components['schemas'];

/** ISO 8601 in UTC. */
export type Instant = string;
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export type RunKind = Schemas['Kind'];
export type RunState = Schemas['RunState'];
export type JobState = Schemas['JobSchema']['state'];
export type NodeState = Schemas['NodeSchema']['state'];
export type Role = Schemas['Role'];
export type Level = 'debug' | 'info' | 'success' | 'warn' | 'error';

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

/** A cron expression, an interval, or a single instant. */
export type Schedule = Partial<Schemas['CronForm'] & Schemas['EveryForm'] & Schemas['OnceForm']>;
export type Job = Omit<Schemas['JobSchema'], 'schedule'> & { schedule: Schedule | null };
/** A job in brief, as lists have it. */
export type JobSummary = Omit<Schemas['JobSummarySchema'], 'schedule'> & { schedule: Schedule | null };
/** What a change of a job would do. */
export type Applied = Schemas['AppliedSchema'];
export type Preview = Schemas['PreviewSchema'];
export type InputProblem = Schemas['ErrorSchema'];
export type Version = Schemas['VersionSchema'];
export type Recent = Schemas['RecentSchema'];
export type Mark = Schemas['MarkSchema'];
export type Attempt = Schemas['AttemptSchema'];
export type Run = Schemas['RunSchema'];
/** A run in brief, as lists have it. */
export type RunSummary = Schemas['RunSummarySchema'];
export type RunDetail = Schemas['RunDetailSchema'];
export type RunAccepted = Schemas['AskedSchema'];
export type RunPage = Schemas['RunPage'];
export type JobHealth = Schemas['JobHealth'];
export type JobCondition = Schemas['JobConditionSchema'];
export type HealthCounts = Schemas['HealthCountsSchema'];
export type JobGraph = Schemas['JobGraphSchema'];
export type LogLine = Schemas['LogSchema'];
/** Without `late`: from an API of an earlier version. */
export type Why = Omit<Schemas['WhySchema'], 'chain' | 'late'> & Partial<Pick<Schemas['WhySchema'], 'late'>> & { chain: ({ step: string } & { [key: string]: Json })[] };
export type Series = Schemas['SeriesSchema'];
export type Span = Schemas['Span'];
export type ScheduleLoad = Schemas['WeekLoadSchema'];
export type LoadHour = Schemas['LoadHourSchema'];
export type BusyMinute = Schemas['BusyMinuteSchema'];
export type Spread = Schemas['SpreadSchema'];
export type SpreadBy = Schemas['SpreadBy'];
export type LoadPicture = Schemas['LoadPictureSchema'];
export type MinuteMove = Schemas['MinuteMoveSchema'];
export type ScheduleSlot = Schemas['SlotSchema'];
export type RunChanges = Schemas['RunChangesSchema'];
export type Day = Schemas['DaySchema'];
export type Days = Schemas['DaysSchema'];
export type Maintenance = Schemas['MaintenanceSchema'];
export type Pause = Schemas['PauseSchema'];
export type OpenBreaker = Schemas['JobBreakerSchema'];
export type Backfill = Schemas['BackfillSchema'];
export type BackfillScope = Schemas['BackfillScope'];
export type Limit = Schemas['LimitSchema'];
export type NodeDetail = Schemas['NodeSchema'];
/** A node with what it can run and the runs that it holds. */
export type NodeWithRuns = Schemas['NodeDetailSchema'];
export type Cluster = Schemas['ClusterSchema'];
export type ClusterEvent = Schemas['EventSchema'];
export type AuditPage = Schemas['AuditPage'];
export type AuditEntry = Schemas['AuditSchema'];
export type Session = Schemas['SessionSchema'];
export type User = Schemas['UserSchema'];
export type ApiKey = Schemas['KeySchema'];
export type NewApiKey = Schemas['NewKeySchema'];
export type Secret = Schemas['SecretSchema'];
export type SecretUse = Schemas['SecretUseSchema'];
export type Alert = Schemas['AlertSchema'];
export type AlertInput = Schemas['AlertReplacement'];
export type AlertKind = Schemas['AlertKind'];
export type AlertTest = Schemas['AnswerSchema'];
export type Notification = Schemas['NotificationSchema'];
export type Calendar = Schemas['CalendarSchema'];
export type CalendarSummary = Schemas['CalendarSummarySchema'];
export type ReadCalendar = Schemas['ReadCalendarSchema'];
export type CalendarPlan = Schemas['CalendarPlanSchema'];
export type LoginOptions = Schemas['LoginOptionsSchema'];
export type Problem = Pick<Schemas['ProblemSchema'], 'title' | 'status'> & Partial<Schemas['ProblemSchema']>;
export type Access = Schemas['AccessSchema'];
export type Tokens = Schemas['TokensSchema'];
/** The logged-in user or API key. `jobs` are patterns of job names that the role is limited to; empty means no limit. */
export type Me = Schemas['PrincipalSchema'];
