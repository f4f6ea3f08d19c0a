/** The boxes of a graph as rows of a list: what is open on the canvas is open here. */

import { isGroup, type Tree } from "../graph/tree.ts";

export interface OutlineRow {
  readonly box: number;
  readonly level: number;
}

/** The rows of all boxes that are in open groups, in the order of the file. */
export function outlineRows(tree: Tree, open: Uint8Array): OutlineRow[] {
  const rows: OutlineRow[] = [];
  const stack: OutlineRow[] = [];
  const push = (box: number, level: number) => {
    for (let item = tree.children.start[box + 1]! - 1; item >= tree.children.start[box]!; item--) stack.push({ box: tree.children.items[item]!, level });
  };
  push(0, 1);
  while (stack.length) {
    const row = stack.pop()!;
    rows.push(row);
    if (open[row.box] && isGroup(tree, row.box)) push(row.box, row.level + 1);
  }
  return rows;
}
