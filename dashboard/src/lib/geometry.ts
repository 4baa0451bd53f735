// The geometry of the cluster ring. Pure.

export interface Point {
  x: number;
  y: number;
}

/** Points around a circle, clockwise from the top. */
export function ring(n: number, radius: number, centre: Point): Point[] {
  return Array.from({ length: n }, (_, i) => {
    const angle = (i / Math.max(1, n)) * 2 * Math.PI - Math.PI / 2;
    return { x: centre.x + radius * Math.cos(angle), y: centre.y + radius * Math.sin(angle) };
  });
}

/** The stroke-dasharray that draws a share of a circle's outline. */
export function dash(share: number, radius: number): string {
  const around = 2 * Math.PI * radius;
  return `${(Math.min(1, Math.max(0, share)) * around).toFixed(2)} ${around.toFixed(2)}`;
}

/** The path of a radial line at one of `n` positions around the origin, clockwise from the top. */
export function ray(n: number, i: number, from: number, to: number): string {
  const angle = (i / n) * 2 * Math.PI - Math.PI / 2;
  const [x, y] = [Math.cos(angle), Math.sin(angle)];
  return `M${(x * from).toFixed(1)} ${(y * from).toFixed(1)}L${(x * to).toFixed(1)} ${(y * to).toFixed(1)}`;
}

/** Which of `n` sectors around the centre contains a point; the first is at the top. */
export function sector(n: number, x: number, y: number): number {
  const turn = (Math.atan2(y, x) + Math.PI / 2) / (2 * Math.PI);
  return ((Math.round(turn * n) % n) + n) % n;
}

/** The rotations, in degrees, of the two halves of a circle's outline that together show a share of it. Browsers animate a
 *  rotation without painting.
 */
export function halves(share: number): [number, number] {
  const whole = Math.min(1, Math.max(0, share)) * 360;
  return [Math.min(whole, 180) - 180, Math.max(whole, 180) - 180];
}

export interface Particle {
  id: string;
  /** Its destination, relative to the centre. */
  dx: number;
  dy: number;
  /** In seconds, one of `PERIODS`. */
  period: number;
  /** In seconds: how far into the period it begins. */
  offset: number;
}

/** A particle flies for one second and rests for the remainder of its period. */
export const PERIODS = [1, 2, 4, 8];

/** Particles that fly from the centre to the nodes, more of them for nodes with more runs per second. There are at most
 *  `most`, so adjacent nodes share theirs in a large cluster. Equal rates give equal results, so no animation restarts.
 */
export function particles(nodes: readonly { name: string; rate: number }[], radius: number, most: number): Particle[] {
  const step = Math.max(1, Math.ceil(nodes.length / most));
  const groups = Math.ceil(nodes.length / step);
  const found: Particle[] = [];
  for (let group = 0; group < groups; group++) {
    const [first, last] = [group * step, Math.min(nodes.length, (group + 1) * step)];
    const members = nodes.slice(first, last);
    const rate = members.reduce((sum, node) => sum + node.rate, 0);
    if (rate <= 0) continue;
    const angle = ((first + last - 1) / 2 / nodes.length) * 2 * Math.PI - Math.PI / 2;
    const n = Math.max(1, Math.min(3, Math.floor(most / groups), Math.round(rate)));
    const period = PERIODS.find((one) => one * rate >= 1) ?? PERIODS.at(-1)!;
    for (let k = 0; k < n; k++) {
      found.push({ id: `${members[0]!.name} ${k}`, dx: radius * Math.cos(angle), dy: radius * Math.sin(angle), period, offset: ((group * 0.37 + k / n) % 1) * period });
    }
  }
  return found;
}
