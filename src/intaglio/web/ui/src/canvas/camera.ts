/** What part of the plane is on the screen. */

export interface Camera {
  readonly x: number;
  readonly y: number;
  /** Pixels for a unit of the plane. */
  readonly zoom: number;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

export interface Rectangle extends Size {
  readonly x: number;
  readonly y: number;
}

export const MOST_ZOOM = 4;
const READABLE = 0.55;
const MARGIN = 40;

/** The camera that shows a rectangle whole, at most at its natural size. */
export function fitting(screen: Size, part: Rectangle, most = 1): Camera {
  const zoom = Math.min(most, (screen.width - 2 * MARGIN) / Math.max(part.width, 1), (screen.height - 2 * MARGIN) / Math.max(part.height, 1));
  return centred(screen, part.x + part.width / 2, part.y + part.height / 2, Math.max(zoom, 1e-5));
}

/** The first camera: all of a small graph, else the beginning of a large one at a size that can be read. */
export function opening(screen: Size, whole: Size, start: { x: number; y: number }): Camera {
  const all = fitting(screen, { x: 0, y: 0, ...whole });
  if (all.zoom >= READABLE) return all;
  const wide = (screen.width - 2 * MARGIN) / Math.max(whole.width, 1);
  const zoom = Math.max(READABLE, Math.min(0.9, wide));
  const x = wide >= zoom ? whole.width / 2 : start.x;
  return { zoom, x: x - screen.width / 2 / zoom, y: start.y - MARGIN / zoom };
}

/** A camera with a point of the plane in the middle of the screen. */
export function centred(screen: Size, x: number, y: number, zoom: number): Camera {
  return { x: x - screen.width / 2 / zoom, y: y - screen.height / 2 / zoom, zoom };
}

/** Zoom by a factor; the point of the plane under a point of the screen stays there. */
export function zoomed(camera: Camera, factor: number, at: { x: number; y: number }, least: number): Camera {
  const zoom = Math.min(MOST_ZOOM, Math.max(least, camera.zoom * factor));
  return { x: camera.x + at.x / camera.zoom - at.x / zoom, y: camera.y + at.y / camera.zoom - at.y / zoom, zoom };
}

/** Between two cameras, `part` of the way; zoom goes by ratios so that speed looks even. */
export function between(from: Camera, to: Camera, screen: Size, part: number): Camera {
  const zoom = from.zoom * (to.zoom / from.zoom) ** part;
  const middle = (camera: Camera) => ({ x: camera.x + screen.width / 2 / camera.zoom, y: camera.y + screen.height / 2 / camera.zoom });
  const [a, b] = [middle(from), middle(to)];
  return centred(screen, a.x + (b.x - a.x) * part, a.y + (b.y - a.y) * part, zoom);
}

/** Whether a rectangle is wholly on the screen. */
export function isShown(camera: Camera, screen: Size, part: Rectangle): boolean {
  const right = camera.x + screen.width / camera.zoom;
  const bottom = camera.y + screen.height / camera.zoom;
  return part.x >= camera.x && part.y >= camera.y && part.x + part.width <= right && part.y + part.height <= bottom;
}
