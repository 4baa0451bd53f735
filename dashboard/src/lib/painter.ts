// Paints in the next frame, once however often it is asked; of a window that nobody sees not before it is seen again.

export interface Painter {
  ask: () => void;
  stop: () => void;
}

export function painter(paint: () => void): Painter {
  let frame = 0;
  let wanted = false;
  const ask = () => {
    wanted = true;
    if (frame !== 0 || document.hidden) return;
    frame = requestAnimationFrame(() => {
      frame = 0;
      wanted = false;
      paint();
    });
  };
  const seen = () => {
    if (wanted) ask();
  };
  document.addEventListener('visibilitychange', seen);
  return {
    ask,
    stop: () => {
      document.removeEventListener('visibilitychange', seen);
      cancelAnimationFrame(frame);
      frame = 0;
      wanted = false;
    },
  };
}

/** The canvas's context, its size in points of the screen, and drawn in pixels of the page; emptied. */
export function fresh(box: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const scale = devicePixelRatio || 1;
  const [wide, tall] = [Math.round(width * scale), Math.round(height * scale)];
  if (box.width !== wide || box.height !== tall) {
    box.width = wide;
    box.height = tall;
  }
  const g = box.getContext('2d');
  g?.setTransform(scale, 0, 0, scale, 0, 0);
  g?.clearRect(0, 0, width, height);
  return g;
}
