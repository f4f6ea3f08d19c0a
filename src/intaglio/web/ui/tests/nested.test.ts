import { describe, expect, it } from "vitest";
import { measureOf, sizesOf } from "../src/graph/faces.ts";
import { allOpen, toggled } from "../src/graph/folding.ts";
import { treeOf } from "../src/graph/tree.ts";
import { Nest, type Picture } from "../src/layout/nested.ts";
import { cutLines } from "../src/layout/lines.ts";
import { boxAt, rectangleOf, sceneOf, valueAt } from "../src/canvas/scene.ts";
import { RectangleTree } from "../src/canvas/rtree.ts";
import { LayoutService } from "../src/layout/worker.ts";
import { blocks, modelOf } from "./models.ts";

const model = modelOf(blocks(6));
const tree = treeOf(model, model.graphs[0]!);
const sizes = sizesOf(model, tree, measureOf(), { weights: true });
const nest = () => new Nest(tree, sizes);

const frames = (picture: Picture) => new Map(Array.from(picture.box, (box, place) => [box, [picture.x[place]!, picture.y[place]!, picture.width[place]!, picture.height[place]!] as const]));

describe("boxes in boxes", () => {
  it("lies inside of its parent, and siblings do not overlap", () => {
    const all = frames(nest().picture(allOpen(tree, true)));
    for (const [box, [x, y, width, height]] of all) {
      if (box === 0) continue;
      const [px, py, pw, ph] = all.get(tree.parent[box]!)!;
      expect(x).toBeGreaterThanOrEqual(px - 1e-6);
      expect(y).toBeGreaterThanOrEqual(py - 1e-6);
      expect(x + width).toBeLessThanOrEqual(px + pw + 1e-6);
      expect(y + height).toBeLessThanOrEqual(py + ph + 1e-6);
      for (const [other, [ox, oy, ow, oh]] of all) {
        if (other <= box || tree.parent[other] !== tree.parent[box]) continue;
        expect(x + width <= ox || ox + ow <= x || y + height <= oy || oy + oh <= y).toBe(true);
      }
    }
  });

  it("gives the same picture after closing and opening again as at first", () => {
    const own = nest();
    const open = allOpen(tree, true);
    const before = own.picture(open);
    const group = tree.boxOfScope.get(1)!;
    const closed = own.picture(toggled(tree, open, group));
    expect(closed.box.length).toBeLessThan(before.box.length);
    expect(own.picture(open)).toEqual(before);
    expect(nest().picture(toggled(tree, open, group))).toEqual(closed);
  });

  it("keeps the order of boxes beside one another while a scope folds", () => {
    const own = nest();
    const order = (picture: Picture) => Array.from(picture.box).filter((box) => tree.parent[box] === 0).sort((a, b) => frames(picture).get(a)![1] - frames(picture).get(b)![1]);
    const open = allOpen(tree, true);
    expect(order(own.picture(toggled(tree, open, tree.boxOfScope.get(3)!)))).toEqual(order(own.picture(open)));
  });

  it("cuts lines at borders: pieces begin and end where the next ones do", () => {
    const pieces = cutLines(tree);
    const picture = nest().picture(allOpen(tree, true));
    expect(picture.curveValue.length).toBe(pieces.group.length);
    const ends = new Set<string>();
    const at = (point: number) => `${picture.points[2 * point]!.toFixed(1)},${picture.points[2 * point + 1]!.toFixed(1)}`;
    for (let curve = 0; curve < picture.curveValue.length; curve++) ends.add(at(picture.curveStart[curve + 1]! - 1));
    for (let curve = 0; curve < picture.curveValue.length; curve++) if (picture.curveSource[curve]! < 0) expect(ends).toContain(at(picture.curveStart[curve]!));
  });

  it("has no curve for a group that would read itself", () => {
    expect(cutLines({ parent: Int32Array.from([-1, 0, 1]), lineSource: Int32Array.from([1]), lineTarget: Int32Array.from([2]), lineValue: Int32Array.from([0]) }).group).toHaveLength(0);
  });
});

describe("the service", () => {
  it("answers with a picture, and with a reason where it has no graph", () => {
    const service = new LayoutService();
    expect(service.answer({ kind: "open", number: 1, open: new Uint8Array(1) }).error).toMatch(/no graph/);
    const answer = service.answer({ kind: "graph", number: 2, boxes: tree, sizes, open: allOpen(tree, false) });
    expect(answer.picture!.box.length).toBe(1 + 1 + 6 + 1);
  });
});

describe("scenes", () => {
  const scene = sceneOf(nest().picture(allOpen(tree, true)));

  it("finds the box at a point", () => {
    for (const id of [0, 7, 17]) {
      const box = tree.boxOfNode.get(id)!;
      const part = rectangleOf(scene, box)!;
      expect(boxAt(scene, part.x + part.width / 2, part.y + part.height / 2)).toBe(box);
    }
    expect(boxAt(scene, -50, -50)).toBe(-1);
  });

  it("finds the value near a point of its curve", () => {
    const { picture } = scene;
    const first = picture.curveStart[3]!;
    const found = valueAt(scene, picture.points[2 * first]!, picture.points[2 * first + 1]! + 2, 6);
    const here = Array.from(picture.curveValue).filter((_, curve) => picture.points[2 * picture.curveStart[curve]!] === picture.points[2 * first]);
    expect(here).toContain(found);
  });
});

describe("trees of rectangles", () => {
  it("finds what looking at all finds", () => {
    let state = 7;
    const random = () => (state = (state * 16807) % 2147483647) / 2147483647;
    const count = 1000;
    const left = Float64Array.from({ length: count }, () => random() * 1000);
    const top = Float64Array.from({ length: count }, () => random() * 9000);
    const bounds = { left, top, right: left.map((x) => x + random() * 90), bottom: top.map((y) => y + random() * 90) };
    const made = new RectangleTree(bounds);
    for (let turn = 0; turn < 50; turn++) {
      const [x, y, w, h] = [random() * 1000, random() * 9000, random() * 300, random() * 900];
      const found: number[] = [];
      made.search(x, y, x + w, y + h, (item) => found.push(item));
      const wanted = Array.from(left.keys()).filter((item) => bounds.left[item]! <= x + w && bounds.right[item]! >= x && bounds.top[item]! <= y + h && bounds.bottom[item]! >= y);
      expect(found.sort((a, b) => a - b)).toEqual(wanted);
    }
  });

  it("gives clusters in the place of what is too small", () => {
    const left = Float64Array.from({ length: 400 }, (_, item) => item % 20);
    const top = Float64Array.from({ length: 400 }, (_, item) => Math.floor(item / 20));
    const made = new RectangleTree({ left, top, right: left.map((x) => x + 1), bottom: top.map((y) => y + 1) });
    let clusters = 0;
    made.search(0, 0, 99, 99, () => expect.unreachable(), 1000, () => clusters++);
    expect(clusters).toBe(1);
  });

  it("works for nothing and for one", () => {
    const none = new Float64Array();
    new RectangleTree({ left: none, top: none, right: none, bottom: none }).search(0, 0, 1, 1, () => expect.unreachable());
    const one = Float64Array.of(0);
    expect(new RectangleTree({ left: one, top: one, right: one, bottom: one }).at(0, 0)).toEqual([0]);
  });
});
