/** Draws the curves between boxes, those of selected values above all others. */

import { ROW_SIZE } from "../graph/faces.ts";
import { type Palette, SANS } from "../theme/palette.ts";
import type { Look } from "./painter.ts";
import type { Scene } from "./scene.ts";

interface Window {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

const SMOOTH_ZOOM = 0.15;
const MOST_LABELS = 250;

export class CurvePainter {
  private readonly context: CanvasRenderingContext2D;
  private readonly palette: Palette;
  private readonly scene: Scene;
  private readonly look: Look;
  private readonly window: Window;
  private readonly zoom: number;
  private readonly shown: number[] = [];

  constructor(context: CanvasRenderingContext2D, palette: Palette, scene: Scene, look: Look, window: Window, zoom: number) {
    this.context = context;
    this.palette = palette;
    this.scene = scene;
    this.look = look;
    this.window = window;
    this.zoom = zoom;
  }

  paint(): void {
    const { scene, window, zoom } = this;
    const skip = () => undefined;
    scene.curves.search(window.left, window.top, window.right, window.bottom, (curve) => this.shown.push(curve), 3 / zoom, skip);
    const plain: number[] = [];
    const up: number[] = [];
    const down: number[] = [];
    for (const curve of this.shown) {
      const value = scene.picture.curveValue[curve]!;
      (this.look.upstream.has(value) ? up : this.look.downstream.has(value) ? down : plain).push(curve);
    }
    const base = Math.max(1.25, 0.55 / zoom);
    this.stroke(plain, this.palette.edge, base, this.look.matches ? 0.35 : 1);
    this.stroke(up, this.palette.upstream, base * 1.9, 1);
    this.stroke(down, this.palette.downstream, base * 1.9, 1);
  }

  private stroke(curves: number[], colour: string, width: number, alpha: number): void {
    if (!curves.length) return;
    const { context } = this;
    context.globalAlpha = alpha;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    for (const curve of curves) this.trace(curve);
    context.stroke();
    if (this.zoom > 0.3) this.arrows(curves, colour);
    context.globalAlpha = 1;
  }

  /** The pieces of a curve that are on the screen. Upright pieces are straight, others bend like an S. */
  private trace(curve: number): void {
    const { context, window, zoom } = this;
    const { points, curveStart } = this.scene.picture;
    const last = curveStart[curve + 1]! - 1;
    let isDown = false;
    for (let point = curveStart[curve]!; point < last; point++) {
      const [ax, ay, bx, by] = [points[2 * point]!, points[2 * point + 1]!, points[2 * point + 2]!, points[2 * point + 3]!];
      if ((ay > window.bottom && by > window.bottom) || (ay < window.top && by < window.top)) {
        isDown = false;
        continue;
      }
      if (!isDown) context.moveTo(ax, ay);
      isDown = true;
      const middle = (ay + by) / 2;
      if (zoom < SMOOTH_ZOOM || Math.abs(ax - bx) < 0.05) context.lineTo(bx, by);
      else context.bezierCurveTo(ax, middle, bx, middle, bx, by);
    }
  }

  private arrows(curves: number[], colour: string): void {
    const { context } = this;
    const { points, curveStart, curveTarget } = this.scene.picture;
    context.fillStyle = colour;
    context.beginPath();
    for (const curve of curves) {
      const target = curveTarget[curve]!;
      if (target < 0 || this.isOpen(target)) continue;
      const last = curveStart[curve + 1]! - 1;
      const [x, y] = [points[2 * last]!, points[2 * last + 1]!];
      const way = points[2 * last - 1]! <= y ? -1 : 1;
      context.moveTo(x, y);
      context.lineTo(x - 3.6, y + 7 * way);
      context.lineTo(x + 3.6, y + 7 * way);
      context.closePath();
    }
    context.fill();
  }

  private isOpen(box: number): boolean {
    const place = this.scene.placeOfBox.get(box);
    return place !== undefined && this.scene.picture.isOpen[place] === 1;
  }

  /** The types of values beside the beginnings of their curves, each once. */
  labels(): void {
    const { context, palette, look, window } = this;
    const { points, curveStart, curveValue, curveSource } = this.scene.picture;
    const done = new Set<number>();
    context.font = `400 ${ROW_SIZE - 1.5}px ${SANS}`;
    context.textAlign = "left";
    context.textBaseline = "top";
    context.fillStyle = palette.muted;
    for (const curve of this.shown) {
      const value = curveValue[curve]!;
      const source = curveSource[curve]!;
      if (source < 0 || done.has(value) || this.isOpen(source) || done.size > MOST_LABELS) continue;
      done.add(value);
      const [x, y] = [points[2 * curveStart[curve]!]!, points[2 * curveStart[curve]! + 1]!];
      if (x < window.left - 200 || x > window.right || y < window.top - 20 || y > window.bottom) continue;
      const label = look.edgeLabel(value);
      if (label) context.fillText(label, x + 5, y + 4);
    }
  }
}
