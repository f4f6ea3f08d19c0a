/** The canvas on the page: camera, pointer, wheel, and one frame at a time. */

import { effect } from "@preact/signals";
import type { Store } from "../app/store.ts";
import { text } from "../data/model.ts";
import type { Palette } from "../theme/palette.ts";
import { between, type Camera, centred, fitting, isShown, opening, type Size, zoomed } from "./camera.ts";
import { lookOf } from "./look.ts";
import { Minimap } from "./minimap.ts";
import { Painter } from "./painter.ts";
import { boxAt, rectangleOf, type Scene, valueAt } from "./scene.ts";

const MOVE_TIME = 220;
const CLICK_REACH = 4;
const WHEEL_SPEED = 0.0022;

export interface FrameTimes {
  frames: number;
  last: number;
  most: number;
}

export class Viewer {
  readonly canvas: HTMLCanvasElement;
  private readonly store: Store;
  private readonly palette: () => Palette;
  private readonly context: CanvasRenderingContext2D;
  private readonly minimap: Minimap;
  private camera: Camera = { x: 0, y: 0, zoom: 1 };
  private screen: Size = { width: 1, height: 1 };
  private scene: Scene | null = null;
  private pending = 0;
  private anchored: { box: number; x: number; y: number } | null = null;
  private drag: { x: number; y: number; moved: boolean; box: number } | null = null;
  private wire: { from: { x: number; y: number }; to: { x: number; y: number } } | null = null;
  private readonly pointers = new Map<number, { x: number; y: number }>();
  private stops: (() => void)[] = [];
  private motion = 0;
  private resetWanted = true;
  private readonly times: FrameTimes = { frames: 0, last: 0, most: 0 };

  constructor(canvas: HTMLCanvasElement, map: HTMLCanvasElement, store: Store, palette: () => Palette) {
    this.canvas = canvas;
    this.store = store;
    this.palette = palette;
    this.context = canvas.getContext("2d", { alpha: false })!;
    this.minimap = new Minimap(map, (x, y) => this.moveTo(centred(this.screen, x, y, this.camera.zoom), false));
    store.reveal = (box, how) => this.reveal(box, how);
    store.anchor = (box) => this.anchor(box);
    store.resetView = () => this.reset();
    this.listen();
    this.stops.push(effect(() => this.take(store.scene.value)));
    this.stops.push(effect(() => this.watch()));
    (globalThis as Record<string, unknown>).intaglioFrames = this.times;
    (globalThis as Record<string, unknown>).intaglioView = this;
  }

  /** Signals that change what is drawn. */
  private watch(): void {
    const { store } = this;
    void [store.selected.value, store.picked.value, store.hovered.value, store.found.value, store.overlays.heat.value];
    void [store.overlays.marks.value, store.typed.value, this.palette()];
    this.draw();
  }

  stop(): void {
    for (const stop of this.stops) stop();
    this.stops = [];
    cancelAnimationFrame(this.pending);
    cancelAnimationFrame(this.motion);
  }

  private take(scene: Scene | null): void {
    const before = this.scene;
    this.scene = scene;
    if (!scene) return;
    if (this.resetWanted || !before) {
      this.resetWanted = false;
      this.camera = this.firstCamera(scene);
    } else if (this.anchored) {
      const now = rectangleOf(scene, this.anchored.box);
      if (now) this.camera = { ...this.camera, x: this.camera.x + now.x - this.anchored.x, y: this.camera.y + now.y - this.anchored.y };
    }
    this.anchored = null;
    this.minimap.take(scene, this.palette());
    this.draw();
  }

  private firstCamera(scene: Scene): Camera {
    const { picture } = scene;
    const first = scene.picture.box.length > 1 ? { x: picture.x[1]! + picture.width[1]! / 2, y: Math.max(0, picture.y[1]!) } : { x: 0, y: 0 };
    return opening(this.screen, { width: picture.totalWidth, height: picture.totalHeight }, first);
  }

  private anchor(box: number): void {
    const now = this.scene && rectangleOf(this.scene, box);
    this.anchored = now ? { box, x: now.x, y: now.y } : null;
  }

  private reset(): void {
    if (this.scene) this.moveTo(this.firstCamera(this.scene), false);
    else this.resetWanted = true;
  }

  /** Show all of the graph. */
  fit(): void {
    const picture = this.scene?.picture;
    if (picture) this.moveTo(fitting(this.screen, { x: 0, y: 0, width: picture.totalWidth, height: picture.totalHeight }), true);
  }

  zoomBy(factor: number): void {
    this.moveTo(zoomed(this.camera, factor, { x: this.screen.width / 2, y: this.screen.height / 2 }, this.leastZoom()), true);
  }

  zoomTo(zoom: number): void {
    this.zoomBy(zoom / this.camera.zoom);
  }

  panBy(x: number, y: number): void {
    this.camera = { ...this.camera, x: this.camera.x + x / this.camera.zoom, y: this.camera.y + y / this.camera.zoom };
    this.draw();
  }

  get zoom(): number {
    return this.camera.zoom;
  }

  private leastZoom(): number {
    const picture = this.scene?.picture;
    if (!picture) return 0.01;
    return Math.min(0.5, fitting(this.screen, { x: 0, y: 0, width: picture.totalWidth, height: picture.totalHeight }).zoom * 0.6);
  }

  private reveal(box: number, how: "centre" | "if needed" | "keep"): void {
    const part = this.scene && rectangleOf(this.scene, box);
    if (!part || how === "keep") return;
    if (how === "if needed" && this.camera.zoom > 0.3 && isShown(this.camera, this.screen, part)) return;
    const zoom = Math.min(1.2, Math.max(this.camera.zoom, 0.75));
    this.moveTo(centred(this.screen, part.x + part.width / 2, part.y + Math.min(part.height, this.screen.height / zoom) / 2, zoom), true);
  }

  private moveTo(target: Camera, isSmooth: boolean): void {
    cancelAnimationFrame(this.motion);
    if (!isSmooth || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.camera = target;
      this.draw();
      return;
    }
    const from = this.camera;
    const begin = performance.now();
    const step = () => {
      const part = Math.min(1, (performance.now() - begin) / MOVE_TIME);
      this.camera = part === 1 ? target : between(from, target, this.screen, 1 - (1 - part) ** 3);
      this.paint();
      if (part < 1) this.motion = requestAnimationFrame(step);
    };
    this.motion = requestAnimationFrame(step);
  }

  resize(): void {
    const { clientWidth, clientHeight } = this.canvas;
    if (!clientWidth || !clientHeight) return;
    const ratio = devicePixelRatio || 1;
    const isFirst = this.screen.width === 1;
    this.screen = { width: clientWidth, height: clientHeight };
    this.canvas.width = Math.round(clientWidth * ratio);
    this.canvas.height = Math.round(clientHeight * ratio);
    if (isFirst && this.scene) this.camera = this.firstCamera(this.scene);
    this.paint();
  }

  /** Draw once before the next frame. */
  draw(): void {
    if (!this.pending)
      this.pending = requestAnimationFrame(() => {
        this.pending = 0;
        this.paint();
      });
  }

  private paint(): void {
    const begin = performance.now();
    const ratio = devicePixelRatio || 1;
    const { context, screen } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (!this.scene) {
      context.fillStyle = this.palette().ground;
      context.fillRect(0, 0, screen.width, screen.height);
      return;
    }
    new Painter(context, this.palette(), this.scene, lookOf(this.store), this.camera, screen).paint();
    if (this.wire) this.drawWire(this.wire);
    this.minimap.draw(this.camera, screen, this.palette());
    this.times.last = performance.now() - begin;
    this.times.most = Math.max(this.times.most, this.times.last);
    this.times.frames++;
  }

  private drawWire({ from, to }: { from: { x: number; y: number }; to: { x: number; y: number } }): void {
    const { context } = this;
    context.strokeStyle = this.palette().accent;
    context.lineWidth = 2;
    context.setLineDash([6, 4]);
    context.beginPath();
    context.moveTo(from.x, from.y);
    context.lineTo(to.x, to.y);
    context.stroke();
    context.setLineDash([]);
  }

  private listen(): void {
    const { canvas } = this;
    const on = <K extends keyof HTMLElementEventMap>(name: K, handle: (event: HTMLElementEventMap[K]) => void, options?: AddEventListenerOptions) => {
      canvas.addEventListener(name, handle, options);
      this.stops.push(() => canvas.removeEventListener(name, handle));
    };
    on("pointerdown", (event) => this.down(event));
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.up(event));
    on("pointercancel", (event) => this.pointers.delete(event.pointerId));
    on("pointerleave", () => (this.store.hovered.value = -1));
    on("wheel", (event) => this.wheel(event), { passive: false });
    on("dblclick", (event) => this.doubleClick(event));
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(canvas);
    this.stops.push(() => observer.disconnect());
  }

  private at(event: MouseEvent): { x: number; y: number } {
    const bounds = this.canvas.getBoundingClientRect();
    return { x: event.clientX - bounds.left, y: event.clientY - bounds.top };
  }

  private plane(event: MouseEvent): { x: number; y: number } {
    const { x, y } = this.at(event);
    return { x: this.camera.x + x / this.camera.zoom, y: this.camera.y + y / this.camera.zoom };
  }

  private down(event: PointerEvent): void {
    cancelAnimationFrame(this.motion);
    this.pointers.set(event.pointerId, this.at(event));
    if (event.button > 1) return;
    this.canvas.setPointerCapture(event.pointerId);
    const { x, y } = this.plane(event);
    const wires = event.altKey && this.store.entry.value?.editable && this.scene;
    this.drag = { ...this.at(event), moved: false, box: wires ? boxAt(this.scene!, x, y) : -1 };
  }

  private move(event: PointerEvent): void {
    const at = this.at(event);
    const before = this.pointers.get(event.pointerId);
    if (before) this.pointers.set(event.pointerId, at);
    if (this.pointers.size === 2 && before) return this.pinch(event.pointerId, before, at);
    if (this.drag && before) {
      if (!this.drag.moved && Math.hypot(at.x - this.drag.x, at.y - this.drag.y) < CLICK_REACH) return;
      this.drag.moved = true;
      if (this.drag.box >= 0) {
        this.wire = { from: { x: this.drag.x, y: this.drag.y }, to: at };
        this.canvas.style.cursor = "crosshair";
        return this.draw();
      }
      this.canvas.style.cursor = "grabbing";
      this.panBy(before.x - at.x, before.y - at.y);
      return;
    }
    this.hover(event);
  }

  private pinch(moving: number, before: { x: number; y: number }, at: { x: number; y: number }): void {
    const other = [...this.pointers].find(([id]) => id !== moving)?.[1];
    if (!other) return;
    const factor = Math.hypot(at.x - other.x, at.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
    this.camera = zoomed(this.camera, factor, other, this.leastZoom());
    if (this.drag) this.drag.moved = true;
    this.draw();
  }

  private hover(event: PointerEvent): void {
    if (!this.scene) return;
    const { x, y } = this.plane(event);
    const box = boxAt(this.scene, x, y);
    this.store.hovered.value = box;
    const isLeaf = box >= 0 && !this.store.open.value[box];
    const value = isLeaf ? -1 : valueAt(this.scene, x, y, 6 / this.camera.zoom);
    this.canvas.style.cursor = isLeaf || value >= 0 ? "pointer" : "grab";
    this.canvas.title = value >= 0 ? this.valueTip(value) : "";
  }

  private valueTip(value: number): string {
    const model = this.store.model.value!;
    const graph = model.graphs.findLast((each) => each.valueBase <= value)!;
    const index = value - graph.valueBase;
    return [text(model, graph.values.name[index]), text(model, graph.values.type[index])].filter(Boolean).join("\n");
  }

  private up(event: PointerEvent): void {
    const { drag } = this;
    this.pointers.delete(event.pointerId);
    this.drag = null;
    this.wire = null;
    this.canvas.style.cursor = "grab";
    if (drag?.moved && drag.box >= 0 && this.scene) {
      const { x, y } = this.plane(event);
      const to = boxAt(this.scene, x, y);
      if (to >= 0 && to !== drag.box) this.store.rewireByDrag(drag.box, to);
      return this.draw();
    }
    if (!drag || drag.moved || !this.scene || event.button !== 0) return;
    this.click(event);
  }

  private click(event: PointerEvent): void {
    const { store, scene } = this;
    const { x, y } = this.plane(event);
    const box = boxAt(scene!, x, y);
    const tree = store.tree.value!;
    const isOpen = box >= 0 && store.open.value[box] === 1;
    const adds = event.shiftKey || event.metaKey || event.ctrlKey;
    if (box >= 0 && !isOpen) {
      const part = rectangleOf(scene!, box)!;
      const isChevron = tree.children.start[box + 1]! > tree.children.start[box]! && x > part.x + part.width - 24 && y < part.y + 24;
      if (isChevron) void store.toggle(box, event.altKey);
      else store.selectBox(box, adds);
      return;
    }
    const value = valueAt(scene!, x, y, 6 / this.camera.zoom);
    if (value >= 0) {
      const graph = store.model.value!.graphs.findLast((each) => each.valueBase <= value)!;
      void store.selectValue(graph.index, value - graph.valueBase);
    } else if (isOpen) {
      const part = rectangleOf(scene!, box)!;
      if (y < part.y + 26 && x < part.x + 24) void store.toggle(box, event.altKey);
      else if (y < part.y + 26) store.selectBox(box, adds);
      else store.clearSelection();
    } else store.clearSelection();
  }

  private doubleClick(event: MouseEvent): void {
    if (!this.scene) return;
    const { x, y } = this.plane(event);
    const box = boxAt(this.scene, x, y);
    if (box > 0) void this.store.toggle(box, event.altKey);
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    cancelAnimationFrame(this.motion);
    const lines = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? this.screen.height : 1;
    if (event.ctrlKey || event.metaKey) {
      const speed = WHEEL_SPEED * (Math.abs(event.deltaY) < 40 ? 4 : 1);
      this.camera = zoomed(this.camera, Math.exp(-event.deltaY * lines * speed), this.at(event), this.leastZoom());
      this.draw();
    } else if (event.shiftKey) this.panBy((event.deltaX || event.deltaY) * lines, 0);
    else this.panBy(event.deltaX * lines, event.deltaY * lines);
  }
}
