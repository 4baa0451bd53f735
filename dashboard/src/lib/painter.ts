// Paints in the next animation frame, once for any number of requests. A hidden page paints when it becomes visible again.

export interface Painter {
  request: () => void;
  stop: () => void;
}

export function painter(paint: () => void): Painter {
  let frame = 0;
  let pending = false;
  const request = () => {
    pending = true;
    if (frame !== 0 || document.hidden) return;
    frame = requestAnimationFrame(() => {
      frame = 0;
      pending = false;
      paint();
    });
  };
  const onVisible = () => {
    if (pending) request();
  };
  document.addEventListener('visibilitychange', onVisible);
  return {
    request,
    stop: () => {
      document.removeEventListener('visibilitychange', onVisible);
      cancelAnimationFrame(frame);
      frame = 0;
      pending = false;
    },
  };
}

/** A cleared canvas context: sized in device pixels, drawn in CSS pixels. */
export function clearedContext(box: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
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
