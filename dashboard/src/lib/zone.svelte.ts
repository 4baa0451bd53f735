// The time zone in which the page shows times: this browser's, UTC, or that of the job on the page. A link with `?tz=` shows its
// reader the zone of its sender; a choice is kept in this browser.
export type ZoneChoice = 'local' | 'utc' | 'job';

export const ZONE_CHOICES: ZoneChoice[] = ['local', 'utc', 'job'];
/** Unit tests run without a page. */
const IN_BROWSER = typeof location !== 'undefined';
const KEPT = 'cronflow.zone';
const BUCKET_MS = 900_000; // clocks change only at full quarters of an hour

function choiceOf(text: string | null | undefined): ZoneChoice | null {
  return ZONE_CHOICES.find((choice) => choice === text) ?? null;
}

/** The cron builder has a `tz` of its own: the zone of the expression. */
function inAddress(): ZoneChoice | null {
  return location.pathname === '/cron' ? null : choiceOf(new URLSearchParams(location.search).get('tz'));
}

class Zone {
  choice = $state<ZoneChoice>((IN_BROWSER ? (inAddress() ?? choiceOf(localStorage.getItem(KEPT))) : null) ?? 'local');
  /** The zone of the job on the page, if there is one. */
  job = $state<string | null>(null);

  /** The zone of times that have none of their own; undefined: that of this browser. */
  get shown(): string | undefined {
    if (this.choice === 'utc') return 'UTC';
    return this.choice === 'job' ? (this.job ?? undefined) : undefined;
  }

  /** Shows times as a new address says, if it says so. */
  read(): void {
    this.choice = inAddress() ?? this.choice;
  }

  choose(choice: ZoneChoice): void {
    this.choice = choice;
    localStorage.setItem(KEPT, choice);
  }

  next(): ZoneChoice {
    return ZONE_CHOICES[(ZONE_CHOICES.indexOf(this.choice) + 1) % ZONE_CHOICES.length] ?? 'local';
  }
}

export const zone = new Zone();

/** The time zone of this browser. */
export function localZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** The name of the zone in which times are shown. */
export function shownZone(): string {
  return zone.shown ?? localZone();
}

const offsets = new Map<string, number>();
const clocks = new Map<string, Intl.DateTimeFormat>();

/** How far the clocks of a zone are ahead of UTC at an instant, in ms. */
export function offsetOf(at: number, name: string | undefined = zone.shown): number {
  if (name === undefined) return -new Date(at).getTimezoneOffset() * 60_000;
  if (name === 'UTC') return 0;
  const bucket = Math.floor(at / BUCKET_MS);
  const key = `${bucket} ${name}`;
  let found = offsets.get(key);
  if (found === undefined) {
    let clock = clocks.get(name);
    if (clock === undefined) {
      clock = new Intl.DateTimeFormat('en-GB', { timeZone: name, hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric' });
      clocks.set(name, clock);
    }
    const parts = clock.formatToParts(bucket * BUCKET_MS);
    const part = (type: string) => Number(parts.find((one) => one.type === type)?.value ?? 0);
    found = Date.UTC(part('year'), part('month') - 1, part('day'), part('hour'), part('minute'), part('second')) - bucket * BUCKET_MS;
    if (offsets.size > 1000) offsets.clear();
    offsets.set(key, found);
  }
  return found;
}

/** UTC, UTC+1, UTC-3:30. */
export function offsetWords(at: number, name: string | undefined = zone.shown): string {
  const minutes = Math.round(offsetOf(at, name) / 60_000);
  if (minutes === 0) return 'UTC';
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `UTC${minutes < 0 ? '-' : '+'}${hours}${rest === 0 ? '' : `:${String(rest).padStart(2, '0')}`}`;
}

/** An instant as the value of a `datetime-local` field, and back. */
export function fieldOf(at: number): string {
  return new Date(at + offsetOf(at)).toISOString().slice(0, 16);
}

export function fromField(value: string): number | null {
  const there = Date.parse(`${value}Z`);
  if (Number.isNaN(there)) return null;
  // The offset at the instant itself: near a change of the clocks it is another than at `there`.
  return there - offsetOf(there - offsetOf(there));
}

/** The day of an instant in a zone, as a number. */
export function dayNumber(at: number, name?: string): number {
  return Math.floor((at + offsetOf(at, name)) / 86_400_000);
}

/** The names of all time zones, as far as the browser has them. Firefox counts UTC among them, Chromium does not. */
export function zoneNames(): string[] {
  return [...new Set(['UTC', ...(typeof Intl.supportedValuesOf === 'function' ? Intl.supportedValuesOf('timeZone') : [])])];
}
