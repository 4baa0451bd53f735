// The work of the page's main thread, from a Chromium trace. It is measured in thread time, so a busy machine does not
// distort it; the longest task is also measured in wall time.

export interface TraceEvent {
  name: string;
  ph: string;
  pid: number;
  tid: number;
  /** Microseconds, like the durations: `dur` is wall time, `tdur` thread time. */
  ts: number;
  dur?: number;
  tdur?: number;
  args: { name?: string; src_file?: string };
}

/** All values are in milliseconds. */
export interface Cost {
  /** Per tick: all tasks from the message on, except frames without new data and reports of the compositor's own frames. */
  ticks: number[];
  /** Each frame without new data: main-thread animations. */
  frames: number[];
  /** Per tick: everything until the next tick, including frames. */
  spans: number[];
  /** The wall time of those spans. */
  walls: number[];
  longest: { thread: number; wall: number };
  /** The number of tasks with more than `LONG_MS` of thread time. */
  long: number;
}

export const LONG_MS = 50;
export const CATEGORIES = ['-*', '__metadata', 'toplevel', 'devtools.timeline'];

const TASK = 'ThreadControllerImpl::RunTask';
/** A frame: scripts, style, layout, paint and commit in one task. */
const FRAME = 'AnimationFrame::Render';
/** The source file of tasks that report a presented frame, and of frames themselves. */
const COMPOSITOR = 'cc/trees/proxy_impl.cc';
const TICK = 'WebSocketReceive';
/** A response, or a part of it, has arrived. */
const RESPONSE = new Set(['ResourceReceiveResponse', 'ResourceReceivedData', 'ResourceFinish']);

interface Task {
  ts: number;
  end: number;
  thread: number;
  wall: number;
  frame: boolean;
  tick: boolean;
  newData: boolean;
  compositor: boolean;
}

/** The costs of the busiest main thread in the trace, which is the page's, from the first to the last tick. */
export function costOf(events: readonly TraceEvent[]): Cost {
  const tasks = tasksOf(events);
  const first = tasks.findIndex((task) => task.tick);
  const last = tasks.findLastIndex((task) => task.tick);
  const cost: Cost = { ticks: [], frames: [], spans: [], walls: [], longest: { thread: 0, wall: 0 }, long: 0 };
  let begun = 0;
  // True until a frame has shown the new data.
  let newData = false;
  for (const task of tasks.slice(Math.max(0, first), last)) {
    if (task.tick) {
      if (cost.spans.length > 0) cost.walls.push((task.ts - begun) / 1000);
      begun = task.ts;
      cost.ticks.push(0);
      cost.spans.push(0);
    }
    const i = cost.ticks.length - 1;
    newData ||= task.newData;
    cost.spans[i]! += task.thread;
    if (task.frame && !newData) cost.frames.push(task.thread);
    else if (task.frame || !task.compositor) cost.ticks[i]! += task.thread;
    if (task.frame) newData = false;
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
    if (!mains.has(threadOf(one)) || !(one.name === TASK || one.name === TICK || (one.name === FRAME && one.ph === 'b') || RESPONSE.has(one.name))) continue;
    const of = threads.get(threadOf(one));
    if (of === undefined) threads.set(threadOf(one), [one]);
    else of.push(one);
  }
  const busy = (of: TraceEvent[]) => of.reduce((all, one) => all + (one.name === TASK ? threadTime(one) : 0), 0);
  const page = [...threads.values()].sort((a, b) => busy(b) - busy(a))[0] ?? [];
  // A task comes before the events in it; a nested task counts as part of the outer one.
  page.sort((a, b) => a.ts - b.ts || (b.dur ?? 0) - (a.dur ?? 0));
  const tasks: Task[] = [];
  for (const one of page) {
    const within = tasks.at(-1);
    if (within !== undefined && one.ts < within.end) {
      within.frame ||= one.name === FRAME;
      within.tick ||= one.name === TICK;
      within.newData ||= one.name === TICK || RESPONSE.has(one.name);
    } else if (one.name === TASK) {
      tasks.push({ ts: one.ts, end: one.ts + (one.dur ?? 0), thread: threadTime(one), wall: (one.dur ?? 0) / 1000, frame: false, tick: false, newData: false, compositor: one.args.src_file === COMPOSITOR });
    }
  }
  return tasks;
}

const threadOf = (one: TraceEvent) => `${one.pid}/${one.tid}`;
const threadTime = (one: TraceEvent) => (one.tdur ?? one.dur ?? 0) / 1000;

/** The smallest value that at least this share of the values does not exceed. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
}
