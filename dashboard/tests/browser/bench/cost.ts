// What the page's main thread did, read from Chromium's own trace. Work is the time of the thread itself, so a busy
// machine does not distort it; only of the longest task the clock on the wall is told as well.

export interface TraceEvent {
  name: string;
  ph: string;
  pid: number;
  tid: number;
  /** Microseconds, as are the durations: by the clock on the wall, and of the thread itself. */
  ts: number;
  dur?: number;
  tdur?: number;
  args: { name?: string; src_file?: string };
}

/** Everything in milliseconds. */
export interface Cost {
  /** For each tick: every task from the message on, but for frames that show nothing new and what the compositor tells
   *  of the frames that it made by itself. */
  ticks: number[];
  /** Each frame that shows nothing new: what is animated on the main thread. */
  frames: number[];
  /** For each tick until the next: everything, frames too. */
  spans: number[];
  /** How long those spans are by the clock on the wall. */
  walls: number[];
  longest: { thread: number; wall: number };
  /** Of the thread itself, longer than `LONG_MS`. */
  long: number;
}

export const LONG_MS = 50;
export const CATEGORIES = ['-*', '__metadata', 'toplevel', 'devtools.timeline'];

const TASK = 'ThreadControllerImpl::RunTask';
/** A frame is drawn: scripts, style, layout, paint and commit are one task. */
const FRAME = 'AnimationFrame::Render';
/** Where a task comes from that tells of a frame on the screen; a frame itself comes from there too. */
const COMPOSITOR = 'cc/trees/proxy_impl.cc';
const TICK = 'WebSocketReceive';
/** What a tick made the page ask for has come, a part of it or all. */
const ANSWER = new Set(['ResourceReceiveResponse', 'ResourceReceivedData', 'ResourceFinish']);

interface Task {
  ts: number;
  end: number;
  thread: number;
  wall: number;
  frame: boolean;
  tick: boolean;
  news: boolean;
  told: boolean;
}

/** Of the busiest main thread in the trace, that of the page; from the first tick to the last. */
export function costOf(events: readonly TraceEvent[]): Cost {
  const tasks = tasksOf(events);
  const first = tasks.findIndex((task) => task.tick);
  const last = tasks.findLastIndex((task) => task.tick);
  const cost: Cost = { ticks: [], frames: [], spans: [], walls: [], longest: { thread: 0, wall: 0 }, long: 0 };
  let begun = 0;
  // News is on its way to the screen until a frame has been drawn after it.
  let news = false;
  for (const task of tasks.slice(Math.max(0, first), last)) {
    if (task.tick) {
      if (cost.spans.length > 0) cost.walls.push((task.ts - begun) / 1000);
      begun = task.ts;
      cost.ticks.push(0);
      cost.spans.push(0);
    }
    const i = cost.ticks.length - 1;
    news ||= task.news;
    cost.spans[i]! += task.thread;
    if (task.frame && !news) cost.frames.push(task.thread);
    else if (task.frame || !task.told) cost.ticks[i]! += task.thread;
    if (task.frame) news = false;
    cost.longest = { thread: Math.max(cost.longest.thread, task.thread), wall: Math.max(cost.longest.wall, task.wall) };
    if (task.thread > LONG_MS) cost.long += 1;
  }
  if (last > first) cost.walls.push((tasks[last]!.ts - begun) / 1000);
  return cost;
}

function tasksOf(events: readonly TraceEvent[]): Task[] {
  const mains = new Set(events.filter((one) => one.name === 'thread_name' && one.args.name === 'CrRendererMain').map(threadOf));
  const threads = new Map<string, TraceEvent[]>();
  for (const one of events) {
    if (!mains.has(threadOf(one)) || !(one.name === TASK || one.name === TICK || (one.name === FRAME && one.ph === 'b') || ANSWER.has(one.name))) continue;
    const of = threads.get(threadOf(one));
    if (of === undefined) threads.set(threadOf(one), [one]);
    else of.push(one);
  }
  const busy = (of: TraceEvent[]) => of.reduce((all, one) => all + (one.name === TASK ? ofThread(one) : 0), 0);
  const page = [...threads.values()].sort((a, b) => busy(b) - busy(a))[0] ?? [];
  // A task stands before what happens in it; one within another is a part of that one.
  page.sort((a, b) => a.ts - b.ts || (b.dur ?? 0) - (a.dur ?? 0));
  const tasks: Task[] = [];
  for (const one of page) {
    const within = tasks.at(-1);
    if (within !== undefined && one.ts < within.end) {
      within.frame ||= one.name === FRAME;
      within.tick ||= one.name === TICK;
      within.news ||= one.name === TICK || ANSWER.has(one.name);
    } else if (one.name === TASK) {
      tasks.push({ ts: one.ts, end: one.ts + (one.dur ?? 0), thread: ofThread(one), wall: (one.dur ?? 0) / 1000, frame: false, tick: false, news: false, told: one.args.src_file === COMPOSITOR });
    }
  }
  return tasks;
}

const threadOf = (one: TraceEvent) => `${one.pid}/${one.tid}`;
const ofThread = (one: TraceEvent) => (one.tdur ?? one.dur ?? 0) / 1000;

/** The value that so large a share of them does not exceed. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
}
