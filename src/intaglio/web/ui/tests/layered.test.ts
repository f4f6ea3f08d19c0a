import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { orderLayers, SPACING } from "../src/layout/layered.ts";
import { placeLayers } from "../src/layout/placing.ts";

interface Vector {
  name: string;
  sizes: [number, number][];
  edges: [number, number][];
  shifts: [number, number][];
  bundles: number[];
  first: number[];
  last: number[];
  x: number[];
  y: number[];
  points: [number, number][][];
  width: number;
  height: number;
}

const vectors = JSON.parse(readFileSync(new URL("./vectors/layered.json", import.meta.url), "utf8")) as Vector[];

function layoutOf(vector: Vector) {
  const count = vector.sizes.length;
  const flags = (boxes: number[]) => Uint8Array.from({ length: count }, (_, box) => (boxes.includes(box) ? 1 : 0));
  const edges = { source: Int32Array.from(vector.edges, (e) => e[0]), target: Int32Array.from(vector.edges, (e) => e[1]) };
  const bundle = vector.bundles.length ? Int32Array.from(vector.bundles) : undefined;
  const ordering = orderLayers(count, edges, { bundle, first: flags(vector.first), last: flags(vector.last) });
  const shift = vector.shifts.length ? Float64Array.from(vector.shifts.flat()) : undefined;
  return placeLayers(ordering, { width: Float64Array.from(vector.sizes, (s) => s[0]), height: Float64Array.from(vector.sizes, (s) => s[1]), shift }, { ...SPACING, straightens: false });
}

describe("the layout places boxes where Python's drawing does", () => {
  it.each(vectors.map((vector) => [vector.name, vector] as const))("%s", (_, vector) => {
    const layout = layoutOf(vector);
    const near = (found: ArrayLike<number>, wanted: number[]) => {
      expect(found.length).toBe(wanted.length);
      wanted.forEach((each, place) => expect(found[place]).toBeCloseTo(each, 4));
    };
    near(layout.x, vector.x);
    near(layout.y, vector.y);
    near([layout.width, layout.height], [vector.width, vector.height]);
    near(layout.points, vector.points.flat(2));
  });
});
