/** A small picture of the whole graph with a frame around what is on the screen. */

import type { Palette } from "../theme/palette.ts";
import type { Camera, Size } from "./camera.ts";
import type { Scene } from "./scene.ts";

export class Minimap {
  private readonly canvas: HTMLCanvasElement;
  private readonly context: CanvasRenderingContext2D;
  private still: HTMLCanvasElement | null = null;
  private scene: Scene | null = null;
  private palette: Palette | null = null;
  private scale = 1;
  private left = 0;
  private top = 0;

  constructor(canvas: HTMLCanvasElement, go: (x: number, y: number) => void) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d")!;
    const move = (event: PointerEvent) => {
      const bounds = canvas.getBoundingClientRect();
      go((event.clientX - bounds.left - this.left) / this.scale, (event.clientY - bounds.top - this.top) / this.scale);
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      move(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons & 1) move(event);
    });
  }

  take(scene: Scene, palette: Palette): void {
    this.scene = scene;
    this.still = null;
    this.render(palette);
  }

  /** Draw the graph once; later frames only move the frame. */
  private render(palette: Palette): void {
    const { scene, canvas } = this;
    if (!scene || !canvas.clientWidth) return;
    const ratio = devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = canvas;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const { picture } = scene;
    this.scale = Math.min((width - 10) / Math.max(1, picture.totalWidth), (height - 10) / Math.max(1, picture.totalHeight));
    this.left = (width - picture.totalWidth * this.scale) / 2;
    this.top = (height - picture.totalHeight * this.scale) / 2;
    const still = document.createElement("canvas");
    still.width = canvas.width;
    still.height = canvas.height;
    const context = still.getContext("2d")!;
    context.scale(ratio, ratio);
    context.translate(this.left, this.top);
    context.fillStyle = palette.groups[1]!;
    for (const place of scene.groups)
      context.fillRect(picture.x[place]! * this.scale, picture.y[place]! * this.scale, picture.width[place]! * this.scale, picture.height[place]! * this.scale);
    this.boxes(context, palette.muted);
    this.still = still;
    this.palette = palette;
  }

  private boxes(context: CanvasRenderingContext2D, colour: string): void {
    const { picture } = this.scene!;
    const { scale } = this;
    context.fillStyle = colour;
    context.beginPath();
    let lastX = -9;
    let lastY = -9;
    for (const place of this.scene!.leafPlaces) {
      const x = picture.x[place]! * scale;
      const y = picture.y[place]! * scale;
      if (Math.abs(x - lastX) < 0.7 && Math.abs(y - lastY) < 0.7) continue;
      lastX = x;
      lastY = y;
      context.rect(x, y, Math.max(1, picture.width[place]! * scale), Math.max(0.7, picture.height[place]! * scale));
    }
    context.fill();
  }

  draw(camera: Camera, screen: Size, palette: Palette): void {
    const { context, canvas } = this;
    if (!this.still || this.palette !== palette) this.render(palette);
    if (!this.still) return;
    const ratio = devicePixelRatio || 1;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(this.still, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const x = this.left + camera.x * this.scale;
    const y = this.top + camera.y * this.scale;
    const width = Math.max(4, (screen.width / camera.zoom) * this.scale);
    const height = Math.max(4, (screen.height / camera.zoom) * this.scale);
    context.fillStyle = palette.accentSoft;
    context.strokeStyle = palette.accent;
    context.lineWidth = 1.5;
    context.fillRect(x, y, width, height);
    context.strokeRect(x, y, width, height);
  }
}
