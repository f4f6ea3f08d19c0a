/** Lines cut where they cross the borders of groups. Each group lays out its own pieces. */

import { type Lists, listsBy } from "./layered.ts";

/** Boxes in boxes, box 0 around all, and the values that go from box to box. A parent has a lower number than its children. */
export interface Boxes {
  readonly parent: Int32Array;
  readonly lineSource: Int32Array;
  readonly lineTarget: Int32Array;
  readonly lineValue: Int32Array;
}

/** Pieces of lines: from a member of `group` or its upper border (-1) to a member or its lower border (-1). */
export interface Pieces {
  readonly group: Int32Array;
  readonly source: Int32Array;
  readonly target: Int32Array;
  readonly value: Int32Array;
  readonly byGroup: Lists;
}

/** How many boxes are around each box. */
export function depths(parent: Int32Array): Int32Array {
  const depth = new Int32Array(parent.length);
  for (let box = 1; box < parent.length; box++) depth[box] = depth[parent[box]!]! + 1;
  return depth;
}

/** Cut all lines; pieces of one value in one group are one. */
export function cutLines(boxes: Boxes): Pieces {
  const { parent, lineSource, lineTarget, lineValue } = boxes;
  const depth = depths(parent);
  const count = parent.length;
  const found: { group: number[]; source: number[]; target: number[]; value: number[] } = { group: [], source: [], target: [], value: [] };
  const known = new Set<number>();
  let value = -1;
  const add = (key: number, group: number, source: number, target: number) => {
    if (known.has(key)) return;
    known.add(key);
    found.group.push(group);
    found.source.push(source);
    found.target.push(target);
    found.value.push(value);
  };
  for (const line of linesByValue(lineValue)) {
    if (lineValue[line] !== value) known.clear();
    value = lineValue[line]!;
    let above = lineSource[line]!;
    let below = lineTarget[line]!;
    while (depth[above]! > depth[below]!) above = climb(above, below, parent, (box) => add(box, parent[box]!, box, -1));
    while (depth[below]! > depth[above]!) below = climb(below, above, parent, (box) => add(count + box, parent[box]!, -1, box));
    if (above < 0 || below < 0 || above === below) continue;
    while (parent[above] !== parent[below]) {
      add(above, parent[above]!, above, -1);
      add(count + below, parent[below]!, -1, below);
      above = parent[above]!;
      below = parent[below]!;
    }
    add(2 * count + above * count + below, parent[above]!, above, below);
  }
  const group = Int32Array.from(found.group);
  return {
    group,
    source: Int32Array.from(found.source),
    target: Int32Array.from(found.target),
    value: Int32Array.from(found.value),
    byGroup: listsBy(count, group),
  };
}

/** One step out of a box; where the other end lies around it the piece ends at its parent's border. */
function climb(box: number, other: number, parent: Int32Array, add: (box: number) => void): number {
  if (parent[box] !== other) add(box);
  return parent[box]!;
}

/** Numbers of lines so that those of one value follow one another; mostly they do already. */
function linesByValue(values: Int32Array): Int32Array {
  const order = new Int32Array(values.length);
  let isSorted = true;
  for (let line = 0; line < order.length; line++) {
    order[line] = line;
    if (line && values[line]! < values[line - 1]!) isSorted = false;
  }
  return isSorted ? order : order.sort((a, b) => values[a]! - values[b]! || a - b);
}
