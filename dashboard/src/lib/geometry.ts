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
