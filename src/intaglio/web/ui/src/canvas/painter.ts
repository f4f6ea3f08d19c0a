/** Draws a scene: groups, curves, boxes, and text where it can be read. What is off the screen costs nothing. */

import { type Face, ROW_HEIGHT, ROW_SIZE, TITLE_HEIGHT, TITLE_SIZE } from "../graph/faces.ts";
import { type Palette, SANS, heatColour } from "../theme/palette.ts";
import type { Camera, Size } from "./camera.ts";
import { CurvePainter } from "./curves.ts";
import type { Scene } from "./scene.ts";

export const TEXT_ZOOM = 0.38;
const ROUND_ZOOM = 0.22;
const LABEL_ZOOM = 0.75;
/** Boxes with fewer pixels on a side are drawn as spots. */
const COARSE = 4;
const MOST_FAR = 1000;

export const ADDED = 1;
export const REMOVED = 2;
export const CHANGED = 3;

/** What is shown of a scene beside its boxes. Boxes by number; values by their number among all graphs. */
export interface Look {
  readonly selected: ReadonlySet<number>;
  readonly hovered: number;
  readonly upstream: ReadonlySet<number>;
  readonly downstream: ReadonlySet<number>;
  /** Boxes that a search found; others are dimmed. */
  readonly matches: ReadonlySet<number> | null;
  /** Heat from 0 to 1 and its text; NaN for boxes without. */
  readonly heat: Float32Array | null;
  readonly heatText: ((box: number) => string) | null;
  /** ADDED, REMOVED or CHANGED, 0 for none. */
  readonly marks: Uint8Array | null;
  readonly faulty: ReadonlySet<number>;
  readonly isFolder: (box: number) => boolean;
  readonly face: (box: number) => Face;
  readonly category: (box: number) => Face["category"];
  readonly edgeLabel: (value: number) => string;
}

export class Painter {
  private readonly context: CanvasRenderingContext2D;
  private readonly palette: Palette;
  private readonly scene: Scene;
  private readonly look: Look;
  private readonly camera: Camera;
  private readonly screen: Size;

  constructor(context: CanvasRenderingContext2D, palette: Palette, scene: Scene, look: Look, camera: Camera, screen: Size) {
    this.context = context;
    this.palette = palette;
    this.scene = scene;
    this.look = look;
    this.camera = camera;
    this.screen = screen;
  }

  /** Draw all; the context's transform is that of the screen's pixels. */
  paint(): void {
    const { context, camera, palette } = this;
    context.save();
    context.fillStyle = palette.ground;
    context.fillRect(0, 0, this.screen.width, this.screen.height);
    this.dots();
    context.scale(camera.zoom, camera.zoom);
    context.translate(-camera.x, -camera.y);
    this.groups();
    const curves = new CurvePainter(context, palette, this.scene, this.look, this.window(), camera.zoom);
    curves.paint();
    if (camera.zoom >= LABEL_ZOOM) curves.labels();
    this.leaves();
    context.restore();
  }

  private window(): { left: number; top: number; right: number; bottom: number } {
    const { camera, screen } = this;
    return { left: camera.x, top: camera.y, right: camera.x + screen.width / camera.zoom, bottom: camera.y + screen.height / camera.zoom };
  }

  private dots(): void {
    const { context, camera, screen, palette } = this;
    if (camera.zoom < 0.5) return;
    const step = 28 * camera.zoom;
    context.fillStyle = palette.dots;
    const left = -((camera.x * camera.zoom) % step) - step;
    const top = -((camera.y * camera.zoom) % step) - step;
    for (let y = top; y < screen.height; y += step) for (let x = left; x < screen.width; x += step) context.fillRect(x, y, 1.2, 1.2);
  }

  private groups(): void {
    const { context, palette, scene, camera } = this;
    const { picture } = scene;
    const window = this.window();
    for (const place of scene.groups) {
      const [x, y, width, height] = [picture.x[place]!, picture.y[place]!, picture.width[place]!, picture.height[place]!];
      if (x > window.right || y > window.bottom || x + width < window.left || y + height < window.top) continue;
      const box = picture.box[place]!;
      context.fillStyle = palette.groups[(picture.depth[place]! - 1) % palette.groups.length]!;
      context.strokeStyle = this.look.hovered === box ? palette.muted : palette.groupLine;
      context.lineWidth = Math.max(1, 0.6 / camera.zoom);
      context.beginPath();
      context.roundRect(x, y, width, height, 10);
      context.fill();
      context.stroke();
      if (this.look.selected.has(box)) this.halo(box, x, y, width, height, 10);
      if (width * camera.zoom > 40) this.groupTitle(box, x, y, window);
    }
  }

  private groupTitle(box: number, x: number, y: number, window: { left: number; top: number }): void {
    const { context, palette, camera } = this;
    if (camera.zoom < TEXT_ZOOM * 0.7) return;
    const top = Math.max(y, Math.min(y, window.top));
    this.chevron(x + 14, top + 13, true, palette.groupText);
    context.fillStyle = palette.groupText;
    context.font = `600 ${TITLE_SIZE - 1}px ${SANS}`;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(this.look.face(box).title, x + 24, top + 13.5);
  }

  private leaves(): void {
    const { scene, camera, look } = this;
    const { picture } = scene;
    const window = this.window();
    const near = new Map<Face["category"], number[]>();
    const far = new Map<Face["category"], number[]>();
    const bounds: number[] = [];
    scene.leaves.search(
      window.left,
      window.top,
      window.right,
      window.bottom,
      (leaf) => listed(near, look.category(picture.box[scene.leafPlaces[leaf]!]!), scene.leafPlaces[leaf]!),
      COARSE / camera.zoom,
      (leaf, left, top, right, bottom) => {
        listed(far, look.category(picture.box[scene.leafPlaces[leaf]!]!), bounds.length);
        bounds.push(left, top, right, bottom);
      },
    );
    this.clusters(far, bounds);
    if (camera.zoom < ROUND_ZOOM) {
      for (const [category, places] of near) this.flat(category, places);
      this.farHalos();
    } else for (const [category, places] of near) this.cards(category, places);
  }

  /** What is too small to be told apart, as spots in the colour of one of it. */
  private clusters(far: ReadonlyMap<Face["category"], number[]>, bounds: readonly number[]): void {
    const { context, palette } = this;
    const pixel = 1 / this.camera.zoom;
    for (const [category, starts] of far) {
      context.fillStyle = palette.tints[category].line;
      context.beginPath();
      for (const at of starts) {
        const [left, top] = [bounds[at]!, bounds[at + 1]!];
        context.rect(left, top, Math.max(bounds[at + 2]! - left, pixel), Math.max(bounds[at + 3]! - top, pixel));
      }
      context.fill();
    }
  }

  /** Boxes of one category from far away: rectangles in its colour, or in that of what is shown of them. */
  private flat(category: Face["category"], places: readonly number[]): void {
    const { palette, look } = this;
    const { picture } = this.scene;
    const { heat, marks, matches } = look;
    if (!heat && !marks && !matches) return this.rectangles(places, palette.tints[category].line);
    const byColour = new Map<string, number[]>();
    const marked = ["", palette.added, palette.removed, palette.changed];
    for (const place of places) {
      const box = picture.box[place]!;
      const quiet = palette.tints.other.face;
      const colour = matches ? (matches.has(box) ? palette.match : quiet) : marks ? marked[marks[box]!] || quiet : (this.heat(box) ?? quiet);
      listed(byColour, colour, place);
    }
    for (const [colour, own] of byColour) this.rectangles(own, colour);
  }

  private rectangles(places: readonly number[], colour: string): void {
    const { context } = this;
    const { picture } = this.scene;
    const least = 1 / this.camera.zoom;
    context.fillStyle = colour;
    context.beginPath();
    for (const place of places) context.rect(picture.x[place]!, picture.y[place]!, Math.max(picture.width[place]!, least), Math.max(picture.height[place]!, least));
    context.fill();
  }

  /** Rings that are seen from far away: around what is selected, hovered or faulty. */
  private farHalos(): void {
    const { look, scene } = this;
    const { picture } = scene;
    for (const box of new Set([...look.selected, look.hovered, ...[...look.faulty].slice(0, MOST_FAR)])) {
      const place = scene.placeOfBox.get(box);
      if (place !== undefined && !picture.isOpen[place]) this.halo(box, picture.x[place]!, picture.y[place]!, picture.width[place]!, picture.height[place]!, 4);
    }
  }

  private heat(box: number): string | null {
    const heat = this.look.heat?.[box];
    return heat === undefined || Number.isNaN(heat) ? null : heatColour(heat, this.palette.isDark);
  }

  /** Boxes of one category from near by. */
  private cards(category: Face["category"], places: number[]): void {
    const { context, palette, look } = this;
    const { picture } = this.scene;
    const radius = category === "input" || category === "output" ? 13 : 7;
    const each = (draw: (place: number, x: number, y: number, width: number, height: number) => void) => {
      for (const place of places) draw(place, picture.x[place]!, picture.y[place]!, picture.width[place]!, picture.height[place]!);
    };
    context.beginPath();
    context.fillStyle = palette.shadow;
    each((_, x, y, width, height) => context.roundRect(x, y + 1.5, width, height, radius));
    context.fill();
    for (const isDim of [true, false]) {
      const group = places.filter((place) => (look.matches !== null && !look.matches.has(picture.box[place]!)) === isDim);
      if (!group.length) continue;
      context.globalAlpha = isDim ? 0.35 : 1;
      this.cardFaces(category, group, radius);
      if (this.camera.zoom >= TEXT_ZOOM) this.cardTexts(category, group);
      context.globalAlpha = 1;
    }
    each((place, x, y, width, height) => this.halo(picture.box[place]!, x, y, width, height, radius));
  }

  private cardFaces(category: Face["category"], places: number[], radius: number): void {
    const { context, palette } = this;
    const { picture } = this.scene;
    const tint = palette.tints[category];
    const isPlain = category === "input" || category === "output" || category === "fold";
    context.fillStyle = isPlain ? tint.face : palette.card;
    context.beginPath();
    for (const place of places) context.roundRect(picture.x[place]!, picture.y[place]!, picture.width[place]!, picture.height[place]!, radius);
    context.fill();
    if (!isPlain || this.look.heat) this.headers(places, tint.face, radius, isPlain);
    context.strokeStyle = tint.line;
    context.lineWidth = 1;
    if (category === "fold") context.setLineDash([4, 3]);
    context.beginPath();
    for (const place of places) context.roundRect(picture.x[place]!, picture.y[place]!, picture.width[place]!, picture.height[place]!, radius);
    context.stroke();
    context.setLineDash([]);
  }

  private headers(places: number[], colour: string, radius: number, isPlain: boolean): void {
    const { context } = this;
    const { picture } = this.scene;
    const shape = (place: number) => {
      const isWhole = picture.height[place]! <= TITLE_HEIGHT + 1;
      const height = isWhole ? picture.height[place]! : TITLE_HEIGHT;
      context.roundRect(picture.x[place]!, picture.y[place]!, picture.width[place]!, height, isWhole ? radius : [radius, radius, 0, 0]);
    };
    if (this.look.heat) {
      for (const place of places) {
        const heat = this.heat(picture.box[place]!);
        if (!heat && isPlain) continue;
        context.fillStyle = heat ?? this.palette.tints.other.face;
        context.beginPath();
        shape(place);
        context.fill();
      }
      return;
    }
    context.fillStyle = colour;
    context.beginPath();
    for (const place of places) shape(place);
    context.fill();
  }

  private cardTexts(category: Face["category"], places: number[]): void {
    const { context, palette, look } = this;
    const { picture } = this.scene;
    const isEnd = category === "input" || category === "output";
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.font = `600 ${TITLE_SIZE}px ${SANS}`;
    for (const place of places) {
      const box = picture.box[place]!;
      const heated = look.heat && this.heat(box);
      context.fillStyle = heated ? palette.text : look.heat && !isEnd ? palette.text : palette.tints[category].text;
      const [x, y, width] = [picture.x[place]!, picture.y[place]!, picture.width[place]!];
      context.fillText(look.face(box).title, x + 10, y + TITLE_HEIGHT / 2 + 0.5);
      if (look.isFolder(box)) this.chevron(x + width - 13, y + TITLE_HEIGHT / 2, false, palette.tints[category].text);
    }
    if (this.camera.zoom < TEXT_ZOOM * 1.25) return;
    context.font = `400 ${ROW_SIZE}px ${SANS}`;
    for (const place of places) this.rows(place, isEnd ? palette.tints[category].text : palette.text, isEnd ? palette.tints[category].text : palette.muted);
    if (look.heat) this.heatTexts(places);
  }

  private rows(place: number, colour: string, muted: string): void {
    const { context, look } = this;
    const { picture } = this.scene;
    const [x, y, width] = [picture.x[place]!, picture.y[place]!, picture.width[place]!];
    look.face(picture.box[place]!).rows.forEach((row, number) => {
      const middle = y + TITLE_HEIGHT + 3.5 + ROW_HEIGHT * (number + 0.5);
      if (row.name) {
        context.fillStyle = muted;
        context.fillText(row.name, x + 10, middle);
        context.textAlign = "right";
        context.fillStyle = colour;
        context.fillText(row.text, x + width - 10, middle);
        context.textAlign = "left";
      } else {
        context.fillStyle = muted;
        context.fillText(row.text, x + 10, middle);
      }
    });
  }

  /** The share of each hot box, on a flag at its right side. */
  private heatTexts(places: number[]): void {
    const { context, palette, look } = this;
    const { picture } = this.scene;
    context.font = `600 ${ROW_SIZE}px ${SANS}`;
    for (const place of places) {
      const text = look.heatText?.(picture.box[place]!) ?? "";
      if (!text) continue;
      context.fillStyle = palette.muted;
      context.fillText(text, picture.x[place]! + picture.width[place]! + 6, picture.y[place]! + TITLE_HEIGHT / 2);
    }
  }

  private chevron(x: number, y: number, isOpen: boolean, colour: string): void {
    const { context } = this;
    context.strokeStyle = colour;
    context.lineWidth = 1.6;
    context.beginPath();
    if (isOpen) {
      context.moveTo(x - 3.5, y - 2);
      context.lineTo(x, y + 2);
      context.lineTo(x + 3.5, y - 2);
    } else {
      context.moveTo(x - 2, y - 3.5);
      context.lineTo(x + 2, y);
      context.lineTo(x - 2, y + 3.5);
    }
    context.stroke();
  }

  /** Rings around what is selected, hovered, found, changed or faulty. */
  private halo(box: number, x: number, y: number, width: number, height: number, radius: number): void {
    const { look, palette, context, camera } = this;
    const ring = (colour: string, line: number, gap: number) => {
      const wide = Math.max(line, (line * 0.7) / camera.zoom);
      context.strokeStyle = colour;
      context.lineWidth = wide;
      context.beginPath();
      context.roundRect(x - gap, y - gap, width + 2 * gap, height + 2 * gap, radius + gap);
      context.stroke();
    };
    const mark = look.marks?.[box] ?? 0;
    if (mark) ring(mark === ADDED ? palette.added : mark === REMOVED ? palette.removed : palette.changed, 2.5, 1.5);
    if (look.matches?.has(box)) ring(palette.match, 1.5, 1.5);
    if (look.hovered === box && !look.selected.has(box)) ring(palette.accentSoft, 2, 1);
    if (look.selected.has(box)) {
      ring(palette.accentSoft, 5, 3);
      ring(palette.accent, 2, 0.5);
    }
    if (look.faulty.has(box)) this.fault(x + width, y);
  }

  private fault(x: number, y: number): void {
    const { context, palette, camera } = this;
    const size = Math.max(6, 3 / camera.zoom);
    context.fillStyle = palette.fault;
    context.beginPath();
    context.arc(x - 2, y + 2, size, 0, 7);
    context.fill();
    if (camera.zoom < TEXT_ZOOM) return;
    context.fillStyle = palette.card;
    context.fillRect(x - 2.9, y - 1.4, 1.8, 4);
    context.fillRect(x - 2.9, y + 3.6, 1.8, 1.8);
  }
}

function listed<K>(map: Map<K, number[]>, key: K, item: number): void {
  const list = map.get(key);
  if (list) list.push(item);
  else map.set(key, [item]);
}
