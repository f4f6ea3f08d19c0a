/** A picture made ready for drawing: trees over boxes and curves, and the place of each box. */

import type { Picture } from "../layout/nested.ts";
import type { Rectangle } from "./camera.ts";
import { type Rectangles, RectangleTree } from "./rtree.ts";

export interface Scene {
  readonly picture: Picture;
  /** Closed boxes and leaves, by their place in the picture. */
  readonly leaves: RectangleTree;
  readonly leafPlaces: Int32Array;
  readonly curves: RectangleTree;
  /** Open groups, outer ones first, by their place in the picture. */
  readonly groups: Int32Array;
  readonly placeOfBox: ReadonlyMap<number, number>;
}

export function sceneOf(picture: Picture): Scene {
  const leaves: number[] = [];
  const groups: number[] = [];
  const placeOfBox = new Map<number, number>();
  picture.box.forEach((box, place) => {
    placeOfBox.set(box, place);
    if (!picture.isOpen[place]) leaves.push(place);
    else if (box !== 0) groups.push(place);
  });
  const leafPlaces = Int32Array.from(leaves);
  return {
    picture,
    leafPlaces,
    leaves: new RectangleTree(boxBounds(picture, leafPlaces)),
    curves: new RectangleTree(curveBounds(picture)),
    groups: Int32Array.from(groups),
    placeOfBox,
  };
}

function boxBounds(picture: Picture, places: Int32Array): Rectangles {
  const pick = (of: (place: number) => number) => Float64Array.from(places, of);
  return {
    left: pick((place) => picture.x[place]!),
    top: pick((place) => picture.y[place]!),
    right: pick((place) => picture.x[place]! + picture.width[place]!),
    bottom: pick((place) => picture.y[place]! + picture.height[place]!),
  };
}

function curveBounds(picture: Picture): Rectangles {
  const count = picture.curveValue.length;
  const bounds = { left: new Float64Array(count), top: new Float64Array(count), right: new Float64Array(count), bottom: new Float64Array(count) };
  for (let curve = 0; curve < count; curve++) {
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let point = picture.curveStart[curve]!; point < picture.curveStart[curve + 1]!; point++) {
      const x = picture.points[2 * point]!;
      const y = picture.points[2 * point + 1]!;
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
    bounds.left[curve] = left;
    bounds.top[curve] = top;
    bounds.right[curve] = right;
    bounds.bottom[curve] = bottom;
  }
  return bounds;
}

/** Where a box is in the plane; undefined where it is in a closed group. */
export function rectangleOf(scene: Scene, box: number): Rectangle | undefined {
  const place = scene.placeOfBox.get(box);
  if (place === undefined) return undefined;
  const { picture } = scene;
  return { x: picture.x[place]!, y: picture.y[place]!, width: picture.width[place]!, height: picture.height[place]! };
}

/** The innermost box at a point; -1 for none. */
export function boxAt(scene: Scene, x: number, y: number): number {
  const leaf = scene.leaves.at(x, y)[0];
  if (leaf !== undefined) return scene.picture.box[scene.leafPlaces[leaf]!]!;
  const { picture, groups } = scene;
  for (let item = groups.length - 1; item >= 0; item--) {
    const place = groups[item]!;
    const inside = x >= picture.x[place]! && x <= picture.x[place]! + picture.width[place]!;
    if (inside && y >= picture.y[place]! && y <= picture.y[place]! + picture.height[place]!) return picture.box[place]!;
  }
  return -1;
}

/** The value whose curve passes near a point; -1 for none. */
export function valueAt(scene: Scene, x: number, y: number, reach: number): number {
  const { picture } = scene;
  let nearest = reach;
  let found = -1;
  for (const curve of scene.curves.at(x, y, reach))
    for (let point = picture.curveStart[curve]!; point + 1 < picture.curveStart[curve + 1]!; point++) {
      const gap = distance(picture.points, point, x, y);
      if (gap >= nearest) continue;
      nearest = gap;
      found = picture.curveValue[curve]!;
    }
  return found;
}

/** How far a point is from a piece of a curve, in the direction across. */
function distance(points: Float64Array, point: number, x: number, y: number): number {
  const [ax, ay, bx, by] = [points[2 * point]!, points[2 * point + 1]!, points[2 * point + 2]!, points[2 * point + 3]!];
  if (y < Math.min(ay, by) - 2 || y > Math.max(ay, by) + 2) return Infinity;
  const t = by === ay ? 0 : Math.min(1, Math.max(0, (y - ay) / (by - ay)));
  const bend = t * t * (3 - 2 * t);
  return Math.abs(ax + (bx - ax) * bend - x);
}
