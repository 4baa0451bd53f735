// The time range of the timeline: zooming, panning, and a time that somebody typed. Pure.

export interface Range {
  from: number;
  to: number;
}

export const SHORTEST_MS = 1000;
export const LONGEST_MS = 31 * 86_400e3;

/** The range shorter (`factor` below 1) or longer around a point, which keeps its place. */
export function zoomed(range: Range, factor: number, at = (range.from + range.to) / 2): Range {
  const length = range.to - range.from;
  const next = Math.min(LONGEST_MS, Math.max(SHORTEST_MS, length * factor));
  const share = (at - range.from) / length;
  const from = Math.round(at - next * share);
  return { from, to: Math.round(from + next) };
}

/** The range moved by a share of its length. */
export function panned(range: Range, share: number): Range {
  const by = Math.round((range.to - range.from) * share);
  return { from: range.from + by, to: range.to + by };
}

/** A range of the same length around a time. */
export function around(range: Range, at: number): Range {
  const half = Math.round((range.to - range.from) / 2);
  return { from: Math.round(at) - half, to: Math.round(at) + half };
}

const UNITS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const AGO = /^-?(\d+(?:\.\d+)?) ?([smhd])(?: ago)?$/;
const CLOCK = /^(\d{1,2}):(\d{2})(?::(\d{2}))?$/;
const DATED = /^(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?))?(Z|[+-]\d{2}:\d{2})?$/;

/** A time as people write it: `10:42` and `10:42:07` (the last one that has passed), `15m ago`, `2026-11-21 15:54`, or an
 *  instant. Times without a zone are in that of the browser. Null: none of these.
 */
export function parseTime(text: string, now: number): number | null {
  const written = text.trim();
  const ago = AGO.exec(written);
  if (ago !== null) return now - Number(ago[1]) * UNITS[ago[2]!]!;
  const clock = CLOCK.exec(written);
  if (clock !== null) {
    const [hours, minutes, seconds] = [Number(clock[1]), Number(clock[2]), Number(clock[3] ?? 0)];
    if (hours > 23 || minutes > 59 || seconds > 59) return null;
    const at = new Date(now);
    at.setHours(hours, minutes, seconds, 0);
    if (at.getTime() > now) at.setDate(at.getDate() - 1);
    return at.getTime();
  }
  const dated = DATED.exec(written);
  if (dated === null) return null;
  const at = Date.parse(`${dated[1]}T${dated[2] ?? '00:00'}${dated[3] ?? ''}`);
  return Number.isNaN(at) ? null : at;
}

/** Marks that would overlap, as one: those within `apart` pixels of the first one of their group. */
export function grouped<T extends { at: string }>(marks: readonly T[], x: (at: number) => number, apart: number): { x: number; marks: T[] }[] {
  const found: { x: number; marks: T[] }[] = [];
  for (const mark of marks) {
    const place = x(Date.parse(mark.at));
    const last = found.at(-1);
    if (last !== undefined && place - last.x < apart) last.marks.push(mark);
    else found.push({ x: place, marks: [mark] });
  }
  return found;
}
