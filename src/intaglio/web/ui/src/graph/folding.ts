/** Which groups are open: chosen by a person, else so that a picture is not larger than an eye can take in. */

import { type Model, text } from "../data/model.ts";
import { around, BODY, isGroup, NODE, SCOPE, type Tree } from "./tree.ts";

/** So many boxes are shown at first where scopes allow it. */
export const FIRST_BOXES = 260;

/** A name for a group that stays the same over edits and reloads. */
export function groupKey(model: Model, tree: Tree, box: number): string {
  const item = tree.item[box]!;
  if (tree.kind[box] === NODE) return `n${model.graphs[tree.graph[box]!]!.nodes.id[item]}`;
  if (tree.kind[box] === BODY) return `g${item}`;
  const names: string[] = [];
  for (let scope = item; scope >= 0; scope = model.scopes.parent[scope]!) names.push(text(model, model.scopes.name[scope]));
  return `s${tree.graph[box]}:${names.reverse().join("/")}`;
}

/** The groups that are open before anybody chose: from the outermost inwards, as long as there is room. */
export function firstOpen(tree: Tree, room = FIRST_BOXES): Uint8Array {
  const open = new Uint8Array(tree.count);
  let shown = tree.children.start[1]! - tree.children.start[0]!;
  let wave = groupsIn(tree, 0);
  while (wave.length) {
    const next: number[] = [];
    for (const group of wave) {
      const size = tree.children.start[group + 1]! - tree.children.start[group]!;
      if (shown + size - 1 > room || tree.kind[group] === NODE) continue;
      open[group] = 1;
      shown += size - 1;
      next.push(...groupsIn(tree, group));
    }
    wave = next;
  }
  return open;
}

function groupsIn(tree: Tree, box: number): number[] {
  return Array.from(tree.children.items.subarray(tree.children.start[box], tree.children.start[box + 1])).filter((each) => isGroup(tree, each));
}

/** Open or close a group; a node that opens opens its bodies, of which there are few. */
export function toggled(tree: Tree, open: Uint8Array, box: number): Uint8Array {
  const next = open.slice();
  next[box] = open[box] ? 0 : 1;
  if (next[box] && tree.kind[box] === NODE) for (const body of groupsIn(tree, box)) next[body] = 1;
  return next;
}

/** Open all groups around boxes, so that they are on the canvas. */
export function revealing(tree: Tree, open: Uint8Array, boxes: Iterable<number>): Uint8Array {
  let next = open;
  for (const box of boxes)
    for (const outer of around(tree, box)) {
      if (next[outer]) continue;
      if (next === open) next = open.slice();
      next[outer] = 1;
    }
  return next;
}

/** All groups open, or none. */
export function allOpen(tree: Tree, isOpen: boolean): Uint8Array {
  const open = new Uint8Array(tree.count);
  if (isOpen) for (let box = 1; box < tree.count; box++) open[box] = isGroup(tree, box) ? 1 : 0;
  return open;
}

/** Groups that are built like a box, itself included: they fold together. */
export function twins(model: Model, tree: Tree, box: number): number[] {
  if (tree.kind[box] !== SCOPE) return [box];
  const { repeats } = model.scopes;
  const template = (scope: number) => (repeats[scope]! >= 0 ? repeats[scope]! : scope);
  const wanted = template(tree.item[box]!);
  const siblings = tree.children.items.subarray(tree.children.start[tree.parent[box]!], tree.children.start[tree.parent[box]! + 1]);
  return Array.from(siblings).filter((each) => tree.kind[each] === SCOPE && template(tree.item[each]!) === wanted);
}

/** The visible box that a box is in: itself, or the outermost closed group around it. */
export function shownBox(tree: Tree, open: Uint8Array, box: number): number {
  let shown = box;
  for (let outer = tree.parent[box]!; outer > 0; outer = tree.parent[outer]!) if (!open[outer]) shown = outer;
  return shown;
}
