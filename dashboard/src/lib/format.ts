// Human-readable numbers, durations and times. Times are in the zone that the page shows, or in the one that is given; the
// clock is read only to leave the current year out of dates.
import { dayNumber, zone as chosen } from './zone.svelte';

/** 1,234; 12.3k; 4.6M. */
export function count(value: number): string {
  const whole = String(Math.round(value));
  if (Math.abs(value) < 999.5) return whole;
  if (Math.abs(value) < 9999.5) return `${whole.slice(0, -3)},${whole.slice(-3)}`;
  if (Math.abs(value) < 999_950) return `${(value / 1000).toFixed(value < 99_950 ? 1 : 0)}k`;
  return `${(value / 1_000_000).toFixed(1)}M`;
}

/** A rate: 0, 0.4, 12.3, 240. */
export function rate(value: number): string {
  if (value === 0) return '0';
  return value < 100 ? value.toFixed(1) : count(Math.round(value));
}

export function percent(share: number | null, digits = 0): string {
  if (share === null) return '–';
  const shown = (share * 100).toFixed(digits);
  // 99.97 % must not read as 100 %.
  return share < 1 && Number(shown) === 100 ? `${(99.9).toFixed(Math.max(1, digits))} %` : `${shown} %`;
}

/** 840 ms, 1.8 s, 42 s, 3 m 20 s, 2 h 5 m, 3 d 4 h. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return '–';
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 9.95) return `${s.toFixed(1)} s`;
  const whole = Math.round(s);
  if (whole < 60) return `${whole} s`;
  const units = [
    [86_400, 'd', 3600, 'h'],
    [3600, 'h', 60, 'm'],
    [60, 'm', 1, 's'],
  ] as const;
  for (const [size, name, part, small] of units) {
    if (whole >= size) {
      const rest = Math.floor((whole % size) / part);
      return rest > 0 ? `${Math.floor(whole / size)} ${name} ${rest} ${small}` : `${Math.floor(whole / size)} ${name}`;
    }
  }
  return `${whole} s`;
}

/** Event loop lag in seconds, as 0.4 ms, 12 ms, 1.8 s. */
export function lag(s: number): string {
  return s < 0.00995 ? `${(s * 1000).toFixed(1)} ms` : duration(s * 1000);
}

/** What is left, in whole seconds and never like a clock time: 7 s, 12 m 40 s, 3 h 5 m, 2 d 4 h. */
export function remaining(ms: number): string {
  const s = Math.max(0, Math.ceil(ms / 1000));
  return s < 60 ? `${s} s` : duration(s * 1000);
}

/** A countdown: in 7 s, in 3 h 5 m. */
export function countdown(ms: number): string {
  return ms <= 0 ? 'now' : `in ${remaining(ms)}`;
}

/** now, 12 s ago, 4 m ago, 3 h ago, 2 d ago. */
export function ago(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 3) return 'now';
  if (s < 60) return `${s} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} m ago`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ago`;
  return `${Math.floor(s / 86_400)} d ago`;
}

/** Until something is due: a countdown, `due now`, or how long ago it was due. */
export function untilDue(ms: number): string {
  return ms > 0 ? countdown(ms) : ms > -60_000 ? 'due now' : `due ${ago(-ms)}`;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function format(options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = JSON.stringify(options);
  let found = formats.get(key);
  if (found === undefined) {
    found = new Intl.DateTimeFormat('en-GB', options);
    formats.set(key, found);
  }
  return found;
}

function zoned(zone: string | undefined = chosen.shown): Intl.DateTimeFormatOptions {
  return zone === undefined ? {} : { timeZone: zone };
}

const MINUTES_KEPT = 500;
const minutes = new Map<string, string>();

/** 10:42:07. Minutes are cached, because zones differ by whole minutes and a log has hundreds of times in each. */
export function clock(at: string | number | null, zone = chosen.shown): string {
  if (at === null) return '–';
  const ms = typeof at === 'number' ? at : Date.parse(at);
  const minute = Math.floor(ms / 60_000);
  const key = `${minute} ${zone ?? ''}`;
  let found = minutes.get(key);
  if (found === undefined) {
    if (minutes.size >= MINUTES_KEPT) minutes.clear();
    found = format({ hour: '2-digit', minute: '2-digit', hourCycle: 'h23', ...zoned(zone) }).format(ms);
    minutes.set(key, found);
  }
  return `${found}:${String(Math.floor(ms / 1000) - minute * 60).padStart(2, '0')}`;
}

/** 10:42. */
export function shortTime(at: number): string {
  return clock(at).slice(0, 5);
}

/** Sat 21. */
export function shortDay(at: number): string {
  return format({ weekday: 'short', day: 'numeric', ...zoned() }).format(new Date(at)).replace(',', '');
}

/** Sat. */
export function weekday(at: string | number): string {
  return format({ weekday: 'short', ...zoned() }).format(new Date(at));
}

/** 10:42:07.318. */
export function clockMs(at: string | null): string {
  if (at === null) return '–';
  const ms = Date.parse(at);
  return `${clock(ms)}.${String(ms % 1000).padStart(3, '0')}`;
}

function yearOf(at: string | number, zone?: string): string {
  return format({ year: 'numeric', ...zoned(zone) }).format(new Date(at));
}

/** Sat 21 Nov, 10:42:07; in another year Sun 21 Nov 2027, 10:42:07. */
export function instant(at: string | number | null, zone?: string, now = Date.now()): string {
  if (at === null) return '–';
  const year: Intl.DateTimeFormatOptions = yearOf(at, zone) === yearOf(now, zone) ? {} : { year: 'numeric' };
  const day = format({ weekday: 'short', day: 'numeric', month: 'short', ...year, ...zoned(zone) }).format(new Date(at));
  return `${day.replace(',', '')}, ${clock(at, zone)}`;
}

/** The time if it is today, otherwise with the date. */
export function moment(at: string | number | null, now: number): string {
  if (at === null) return '–';
  const there = typeof at === 'number' ? at : Date.parse(at);
  return dayNumber(there) === dayNumber(now) ? clock(there) : instant(there, undefined, now);
}

/** The time with milliseconds, and the date unless it is today. */
export function momentMs(at: string | null, now: number): string {
  if (at === null) return '–';
  return `${moment(at, now)}.${String(Date.parse(at) % 1000).padStart(3, '0')}`;
}

export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? size : size.toFixed(1)} ${units[unit]}`;
}

/** A number of CPUs: 0, 0.5, 4, 1.25. */
export function cpus(value: number): string {
  return String(Math.round(value * 100) / 100);
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}
