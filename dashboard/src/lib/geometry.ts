// Where things stand on the ring. Pure.

export interface Point {
  x: number;
  y: number;
}

/** Places around a circle, the first at the top, clockwise. */
export function ring(n: number, radius: number, centre: Point): Point[] {
  return Array.from({ length: n }, (_, i) => {
    const angle = (i / Math.max(1, n)) * 2 * Math.PI - Math.PI / 2;
    return { x: centre.x + radius * Math.cos(angle), y: centre.y + radius * Math.sin(angle) };
  });
}

/** How much of a circle's outline is drawn, for stroke-dasharray. */
export function dash(share: number, radius: number): string {
  const around = 2 * Math.PI * radius;
  return `${(Math.min(1, Math.max(0, share)) * around).toFixed(2)} ${around.toFixed(2)}`;
}

/** A line outwards at one of `n` places around the origin, the first at the top, as a part of a path. */
export function ray(n: number, i: number, from: number, to: number): string {
  const angle = (i / n) * 2 * Math.PI - Math.PI / 2;
  const [x, y] = [Math.cos(angle), Math.sin(angle)];
  return `M${(x * from).toFixed(1)} ${(y * from).toFixed(1)}L${(x * to).toFixed(1)} ${(y * to).toFixed(1)}`;
}

/** Which of `n` sectors, the first around the top, a point is in, as seen from the middle. */
export function sector(n: number, x: number, y: number): number {
  const turn = (Math.atan2(y, x) + Math.PI / 2) / (2 * Math.PI);
  return ((Math.round(turn * n) % n) + n) % n;
}

/** The first half of a circle's outline and the second, each as a half that is turned: how far, in degrees, so that
 *  together they show a share of it. Turning is what a browser animates without painting.
 */
export function halves(share: number): [number, number] {
  const whole = Math.min(1, Math.max(0, share)) * 360;
  return [Math.min(whole, 180) - 180, Math.max(whole, 180) - 180];
}

export interface Flow {
  id: string;
  /** Where it flies to, from the middle. */
  dx: number;
  dy: number;
  /** In seconds: one of `PERIODS`. */
  every: number;
  /** In seconds: which part of it is over when it begins. */
  ahead: number;
}

/** One flies within a second: in a longer one it rests. */
export const PERIODS = [1, 2, 4, 8];

/** What flies from the middle to the nodes, for so many runs a second of each; at most `most`, so of many nodes those
 *  that stand beside each other share theirs. The same rates give the same, so that nothing begins anew.
 */
export function flows(nodes: readonly { name: string; rate: number }[], radius: number, most: number): Flow[] {
  const step = Math.max(1, Math.ceil(nodes.length / most));
  const groups = Math.ceil(nodes.length / step);
  const found: Flow[] = [];
  for (let group = 0; group < groups; group++) {
    const [first, last] = [group * step, Math.min(nodes.length, (group + 1) * step)];
    const members = nodes.slice(first, last);
    const rate = members.reduce((sum, node) => sum + node.rate, 0);
    if (rate <= 0) continue;
    const angle = ((first + last - 1) / 2 / nodes.length) * 2 * Math.PI - Math.PI / 2;
    const n = Math.max(1, Math.min(3, Math.floor(most / groups), Math.round(rate)));
    const every = PERIODS.find((period) => period * rate >= 1) ?? PERIODS.at(-1)!;
    for (let k = 0; k < n; k++) {
      found.push({ id: `${members[0]!.name} ${k}`, dx: radius * Math.cos(angle), dy: radius * Math.sin(angle), every, ahead: ((group * 0.37 + k / n) % 1) * every });
    }
  }
  return found;
}
