/**
 * Places for boxes in boxes: each open group is laid out by itself, from the innermost outwards, and only where it or
 * something inside of it changed. A value enters a group at a port on its upper edge and leaves at one on its lower edge.
 */

import { type Lists, type Ordering, listsBy, orderLayers, SPACING, type Spacing } from "./layered.ts";
import { type Boxes, cutLines, depths, type Pieces } from "./lines.ts";
import { placeLayers } from "./placing.ts";

export const MARGIN = 16;
export const HEADER = 26;
/** Between the ports of a group and its first and last boxes there is less room than between boxes. */
const PORT_GAP = 12;

/** The sizes of boxes while they are closed; `title` is the least width of an open group. */
export interface ClosedSizes {
  readonly width: Float64Array;
  readonly height: Float64Array;
  readonly title: Float64Array;
}

/** What is on the canvas: visible boxes, outer ones first, and the curves between them. */
export interface Picture {
  readonly box: Int32Array;
  readonly depth: Uint8Array;
  readonly isOpen: Uint8Array;
  readonly x: Float64Array;
  readonly y: Float64Array;
  readonly width: Float64Array;
  readonly height: Float64Array;
  readonly curveValue: Int32Array;
  readonly curveSource: Int32Array;
  readonly curveTarget: Int32Array;
  readonly curveStart: Int32Array;
  readonly points: Float64Array;
  readonly totalWidth: number;
  readonly totalHeight: number;
}

/** The graph of one group: its members, then ports of values that enter, then of those that leave. */
interface Local {
  readonly members: Int32Array;
  readonly entries: Int32Array;
  readonly exits: Int32Array;
  readonly pieces: Int32Array;
  readonly ordering: Ordering;
}

/** A group laid out: its size, its members' corners, its curves, and how far its ports are from its middle. */
interface Placed {
  readonly width: number;
  readonly height: number;
  readonly x: Float64Array;
  readonly y: Float64Array;
  readonly points: Float64Array;
  readonly pointStart: Int32Array;
  readonly entry: Map<number, number>;
  readonly exit: Map<number, number>;
}

export class Nest {
  readonly boxes: Boxes;
  private readonly sizes: ClosedSizes;
  private readonly spacing: Spacing;
  private readonly children: Lists;
  private readonly pieces: Pieces;
  private readonly depth: Int32Array;
  private readonly locals = new Map<number, Local>();
  private readonly placed = new Map<number, Placed>();
  private open: Uint8Array;

  constructor(boxes: Boxes, sizes: ClosedSizes, spacing: Spacing = SPACING) {
    this.boxes = boxes;
    this.sizes = sizes;
    this.spacing = spacing;
    this.children = listsBy(boxes.parent.length, boxes.parent);
    this.pieces = cutLines(boxes);
    this.depth = depths(boxes.parent);
    this.open = new Uint8Array(boxes.parent.length);
  }

  /** The picture with these groups open. What did not change since the last one is not laid out again. */
  picture(open: Uint8Array): Picture {
    this.forget(open);
    const visible = this.visible();
    for (let place = visible.length - 1; place >= 0; place--) {
      const box = visible[place]!;
      if (this.isOpen(box) && !this.placed.has(box)) this.placed.set(box, this.place(box));
    }
    return this.compose(visible);
  }

  private isOpen(box: number): boolean {
    return (box === 0 || this.open[box] === 1) && this.children.start[box + 1]! > this.children.start[box]!;
  }

  /** Drop the places of groups that hold one that opened or closed. */
  private forget(open: Uint8Array): void {
    const { parent } = this.boxes;
    for (let box = 0; box < open.length; box++) {
      if (open[box] === this.open[box]) continue;
      for (let outer = box; outer >= 0; outer = parent[outer]!) if (!this.placed.delete(outer) && outer !== box) break;
    }
    this.open = open.slice();
  }

  private visible(): number[] {
    const found = [0];
    for (let place = 0; place < found.length; place++) {
      const box = found[place]!;
      if (!this.isOpen(box)) continue;
      for (let item = this.children.start[box]!; item < this.children.start[box + 1]!; item++) found.push(this.children.items[item]!);
    }
    return found;
  }

  private local(group: number): Local {
    const known = this.locals.get(group);
    if (known) return known;
    const { pieces } = this;
    const members = this.children.items.slice(this.children.start[group], this.children.start[group + 1]);
    const own = pieces.byGroup.items.slice(pieces.byGroup.start[group], pieces.byGroup.start[group + 1]);
    const number = new Map<number, number>();
    members.forEach((member, place) => number.set(member, place));
    const entry = new Map<number, number>();
    const exit = new Map<number, number>();
    for (const piece of own) if (pieces.source[piece]! < 0) numbered(entry, pieces.value[piece]!);
    for (const piece of own) if (pieces.target[piece]! < 0) numbered(exit, pieces.value[piece]!);
    const firstExit = members.length + entry.size;
    const count = firstExit + exit.size;
    const source = own.map((piece) => (pieces.source[piece]! < 0 ? members.length + entry.get(pieces.value[piece]!)! : number.get(pieces.source[piece]!)!));
    const target = own.map((piece) => (pieces.target[piece]! < 0 ? firstExit + exit.get(pieces.value[piece]!)! : number.get(pieces.target[piece]!)!));
    const first = new Uint8Array(count).fill(1, members.length, firstExit);
    const last = new Uint8Array(count).fill(1, firstExit);
    const bundle = own.map((piece) => pieces.value[piece]!);
    const ordering = orderLayers(count, { source, target }, { bundle, first, last }, this.spacing.orderSweeps);
    const local = { members, entries: Int32Array.from(entry.keys()), exits: Int32Array.from(exit.keys()), pieces: own, ordering };
    this.locals.set(group, local);
    return local;
  }

  private width(box: number): number {
    return this.isOpen(box) ? this.placed.get(box)!.width : this.sizes.width[box]!;
  }

  private height(box: number): number {
    return this.isOpen(box) ? this.placed.get(box)!.height : this.sizes.height[box]!;
  }

  /** Lay out what is in a group and find where its ports are. */
  private place(group: number): Placed {
    const local = this.local(group);
    const { members, entries, exits } = local;
    const count = members.length + entries.length + exits.length;
    const width = new Float64Array(count).fill(2);
    const height = new Float64Array(count);
    members.forEach((member, place) => {
      width[place] = this.width(member);
      height[place] = this.height(member);
    });
    const shift = this.shifts(local);
    const layout = placeLayers(local.ordering, { width, height, shift }, this.spacing);
    const isRoot = group === 0;
    const header = isRoot ? 0 : HEADER;
    const whole = Math.max(layout.width + 2 * MARGIN, isRoot ? 0 : this.sizes.title[group]!);
    const above = entries.length ? this.spacing.between - PORT_GAP : 0;
    const below = exits.length ? Math.min(this.spacing.between - PORT_GAP, MARGIN) : 0;
    const tall = layout.height + 2 * MARGIN + header - above - below;
    const left = (whole - layout.width) / 2;
    const top = MARGIN + header - above;
    const port = (place: number) => layout.x[place]! + left - whole / 2;
    const corners = members.map((_, place) => place);
    return {
      width: whole,
      height: tall,
      x: Float64Array.from(corners, (place) => layout.x[place]! - width[place]! / 2 + left),
      y: Float64Array.from(corners, (place) => layout.y[place]! - height[place]! / 2 + top),
      ...curves(local, this.pieces, { x: layout.x, y: layout.y, height, shift, points: layout.points, start: layout.pointStart }, left, top, tall),
      entry: new Map(Array.from(entries, (value, place) => [value, port(members.length + place)])),
      exit: new Map(Array.from(exits, (value, place) => [value, port(members.length + entries.length + place)])),
    };
  }

  /** How far from the middle of open groups the pieces begin and end. */
  private shifts(local: Local): Float64Array {
    const { pieces } = this;
    const shift = new Float64Array(2 * local.pieces.length);
    local.pieces.forEach((piece, place) => {
      const source = pieces.source[piece]!;
      const target = pieces.target[piece]!;
      const value = pieces.value[piece]!;
      if (source >= 0 && this.isOpen(source)) shift[2 * place] = this.placed.get(source)!.exit.get(value) ?? 0;
      if (target >= 0 && this.isOpen(target)) shift[2 * place + 1] = this.placed.get(target)!.entry.get(value) ?? 0;
    });
    return shift;
  }

  /** All groups' places in one, with places from the upper left corner of the whole. */
  private compose(visible: number[]): Picture {
    const at = new Map<number, number>(visible.map((box, place) => [box, place]));
    const count = visible.length;
    const x = new Float64Array(count);
    const y = new Float64Array(count);
    const isOpen = new Uint8Array(count);
    const open = visible.filter((box) => this.isOpen(box));
    let pieces = 0;
    let numbers = 0;
    for (const box of open) {
      pieces += this.locals.get(box)!.pieces.length;
      numbers += this.placed.get(box)!.points.length;
    }
    const curve = { value: new Int32Array(pieces), source: new Int32Array(pieces), target: new Int32Array(pieces), start: new Int32Array(pieces + 1) };
    const points = new Float64Array(numbers);
    let filled = 0;
    let piece = 0;
    for (const box of open) {
      const place = at.get(box)!;
      const placed = this.placed.get(box)!;
      const local = this.locals.get(box)!;
      isOpen[place] = 1;
      local.members.forEach((member, number) => {
        x[at.get(member)!] = x[place]! + placed.x[number]!;
        y[at.get(member)!] = y[place]! + placed.y[number]!;
      });
      for (let point = 0; point < placed.points.length; point += 2) {
        points[filled + point] = placed.points[point]! + x[place]!;
        points[filled + point + 1] = placed.points[point + 1]! + y[place]!;
      }
      local.pieces.forEach((own, number) => {
        curve.value[piece] = this.pieces.value[own]!;
        curve.source[piece] = this.pieces.source[own]!;
        curve.target[piece] = this.pieces.target[own]!;
        curve.start[++piece] = filled / 2 + placed.pointStart[number + 1]!;
      });
      filled += placed.points.length;
    }
    return {
      box: Int32Array.from(visible),
      depth: Uint8Array.from(visible, (box) => Math.min(255, this.depth[box]!)),
      isOpen,
      x,
      y,
      width: Float64Array.from(visible, (box) => this.width(box)),
      height: Float64Array.from(visible, (box) => this.height(box)),
      curveValue: curve.value,
      curveSource: curve.source,
      curveTarget: curve.target,
      curveStart: curve.start,
      points,
      totalWidth: this.width(0),
      totalHeight: this.height(0),
    };
  }
}

function numbered(map: Map<number, number>, key: number): void {
  if (!map.has(key)) map.set(key, map.size);
}

interface Raw {
  readonly x: Float64Array;
  readonly y: Float64Array;
  readonly height: Float64Array;
  readonly shift: Float64Array;
  readonly points: Float64Array;
  readonly start: Int32Array;
}

/** The curves of a group: from the lower edge of the source to the upper edge of the target, or from border to border. */
function curves(local: Local, pieces: Pieces, raw: Raw, left: number, top: number, tall: number): Pick<Placed, "points" | "pointStart"> {
  const { source, target } = local.ordering.edges;
  const found: number[] = [];
  const pointStart = new Int32Array(local.pieces.length + 1);
  const push = (x: number, y: number, from: number) => {
    const last = found.length - 2;
    if (last >= from && Math.abs(found[last]! - x) < 0.01 && Math.abs(found[last + 1]! - y) < 0.01) return;
    found.push(x, y);
  };
  local.pieces.forEach((piece, place) => {
    const turned = local.ordering.turned[place]!;
    const a = turned ? target[place]! : source[place]!;
    const b = turned ? source[place]! : target[place]!;
    const from = found.length;
    const side = raw.y[a]! <= raw.y[b]! ? 0.5 : -0.5;
    push(raw.x[a]! + raw.shift[2 * place]! + left, pieces.source[piece]! < 0 ? 0 : raw.y[a]! + side * raw.height[a]! + top, from);
    for (let point = raw.start[place]!; point < raw.start[place + 1]!; point++)
      push(raw.points[2 * point]! + left, raw.points[2 * point + 1]! + top, from);
    push(raw.x[b]! + raw.shift[2 * place + 1]! + left, pieces.target[piece]! < 0 ? tall : raw.y[b]! - side * raw.height[b]! + top, from);
    if (found.length - from < 4) found.push(found.at(-2)!, found.at(-1)! + 0.01);
    pointStart[place + 1] = found.length / 2;
  });
  return { points: Float64Array.from(found), pointStart };
}
