/** What is written on a box, and how large that makes it. */

import { CATEGORIES, type Category, CONSTANT, entries, type Graph, INITIALIZER, type Model, nodeTitle, portName, schemaOf, text } from "../data/model.ts";
import type { ClosedSizes } from "../layout/nested.ts";
import { BODY, ENTRY, EXIT, isGroup, NODE, SCOPE, type Tree } from "./tree.ts";

export const TITLE_SIZE = 12.5;
export const ROW_SIZE = 10.5;
export const TITLE_HEIGHT = 24;
export const ROW_HEIGHT = 15;
const PADDING = 10;
const LONGEST = 34;
const MOST_ROWS = 5;

/** A row of a box: what it is called and what it is; `isWeight` rows can be hidden. */
export interface Row {
  readonly name: string;
  readonly text: string;
  readonly isWeight: boolean;
}

export interface Face {
  readonly title: string;
  readonly rows: readonly Row[];
  readonly category: Category | "input" | "output" | "fold";
}

/** Widths of the characters from space to tilde in thousandths of the type's size, and of all others. */
export interface Measure {
  readonly title: Float64Array;
  readonly row: Float64Array;
}

/** Measure characters with a function that returns the width of a text, or with widths of a common type. */
export function measureOf(width?: (character: string, isTitle: boolean) => number): Measure {
  const table = (isTitle: boolean) =>
    Float64Array.from({ length: 96 }, (_, place) => {
      const character = place === 95 ? "…" : String.fromCharCode(32 + place);
      return width ? width(character, isTitle) : isTitle ? 7.4 : 6;
    });
  return { title: table(true), row: table(false) };
}

/** How wide a text is. */
export function textWidth(table: Float64Array, text: string): number {
  let width = 0;
  for (let place = 0; place < text.length; place++) {
    const code = text.charCodeAt(place) - 32;
    width += code >= 0 && code < 95 ? table[code]! : table[95]!;
  }
  return width;
}

/** A text cut in its middle. */
export function short(text: string, most = LONGEST): string {
  const line = text.length > 4 * most ? text.slice(0, 2 * most) + text.slice(-2 * most) : text;
  const clean = line.replace(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  return clean.length <= most ? clean : `${clean.slice(0, most - 12)}…${clean.slice(-11)}`;
}

/** What colours a box, without what is written on it. */
export function categoryOf(model: Model, tree: Tree, box: number): Face["category"] {
  const kind = tree.kind[box];
  if (kind === NODE) return CATEGORIES[model.graphs[tree.graph[box]!]!.nodes.category[tree.item[box]!]!] ?? "other";
  return kind === ENTRY ? "input" : kind === EXIT ? "output" : "fold";
}

/** What is written on a box. */
export function faceOf(model: Model, tree: Tree, box: number, shows: { weights: boolean } = { weights: true }): Face {
  const graph = model.graphs[tree.graph[box]!]!;
  const item = tree.item[box]!;
  switch (tree.kind[box]) {
    case NODE:
      return nodeFace(model, graph, item, shows.weights);
    case ENTRY:
    case EXIT:
      return endFace(model, graph, item, tree.kind[box] === ENTRY);
    case SCOPE:
      return scopeFace(model, tree, box);
    default:
      return { title: short(tree.kind[box] === BODY ? graph.owner?.attribute || graph.name : graph.name), rows: [count(tree.inner[box]!)], category: "fold" };
  }
}

function endFace(model: Model, graph: Graph, value: number, isInput: boolean): Face {
  const type = text(model, graph.values.type[value]);
  return {
    title: short(text(model, graph.values.name[value])),
    rows: type ? [{ name: "", text: short(type), isWeight: false }] : [],
    category: isInput ? "input" : "output",
  };
}

function scopeFace(model: Model, tree: Tree, box: number): Face {
  const scope = tree.item[box]!;
  const template = model.scopes.repeats[scope]!;
  const rows = [count(tree.inner[box]!)];
  if (template >= 0) rows.push({ name: "", text: `same as ${short(text(model, model.scopes.name[template]), 20)}`, isWeight: false });
  return { title: short(text(model, model.scopes.name[scope])), rows, category: "fold" };
}

function count(nodes: number): Row {
  return { name: "", text: nodes === 1 ? "1 node" : `${nodes.toLocaleString("en")} nodes`, isWeight: false };
}

function nodeFace(model: Model, graph: Graph, node: number, weights: boolean): Face {
  const { nodes, values } = graph;
  const rows: Row[] = [];
  const label = text(model, nodes.label[node]);
  if (label) rows.push({ name: "", text: short(label), isWeight: false });
  const names = schemaOf(model, graph, node)?.inputs;
  if (weights)
    entries(nodes.inputs, node).forEach((value, place) => {
      const kind = value < 0 ? -1 : values.kind[value];
      if (kind !== INITIALIZER && kind !== CONSTANT) return;
      const type = text(model, values.type[value]) || text(model, values.name[value]);
      rows.push({ name: short(portName(names, place), 12), text: short(type, 28), isWeight: true });
    });
  if (rows.length > MOST_ROWS) rows.splice(MOST_ROWS - 1, rows.length, { name: "", text: `and ${rows.length - MOST_ROWS + 1} more`, isWeight: true });
  const op = text(model, nodes.op[node]);
  return { title: short(op || nodeTitle(model, graph, node)), rows, category: CATEGORIES[nodes.category[node]!] ?? "other" };
}

/** The sizes of all boxes while they are closed. */
export function sizesOf(model: Model, tree: Tree, measure: Measure, shows: { weights: boolean }): ClosedSizes {
  const width = new Float64Array(tree.count);
  const height = new Float64Array(tree.count);
  const title = new Float64Array(tree.count);
  for (let box = 0; box < tree.count; box++) {
    const face = faceOf(model, tree, box, shows);
    const folds = isGroup(tree, box) ? 18 : 0;
    let widest = textWidth(measure.title, face.title) + folds;
    for (const row of face.rows) widest = Math.max(widest, textWidth(measure.row, row.text) + (row.name ? textWidth(measure.row, row.name) + 12 : 0));
    width[box] = Math.max(56, Math.ceil(widest + 2 * PADDING));
    height[box] = TITLE_HEIGHT + (face.rows.length ? face.rows.length * ROW_HEIGHT + 7 : 0);
    title[box] = textWidth(measure.title, face.title) + 64;
  }
  return { width, height, title };
}
