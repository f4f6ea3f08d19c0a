/** A model as the page holds it: columns of numbers, lists in flat arrays, and a table of strings. */

import { type Lists, listsOf } from "../layout/layered.ts";
import type { Fault, GraphJson, ScopesJson, StructureJson } from "./protocol.ts";

export const CATEGORIES = ["other", "product", "attention", "norm", "activation", "pool", "shape", "quantise", "control", "function"] as const;
export type Category = (typeof CATEGORIES)[number];

export const INTERMEDIATE = 0;
export const INPUT = 1;
export const OUTPUT = 2;
export const INITIALIZER = 3;
export const CONSTANT = 4;
export const OUTSIDE = 5;

export interface Nodes {
  readonly count: number;
  readonly id: Int32Array;
  readonly name: Int32Array;
  readonly op: Int32Array;
  readonly domain: Int32Array;
  readonly scope: Int32Array;
  readonly category: Uint8Array;
  readonly label: Int32Array;
  readonly inputs: Lists;
  readonly outputs: Lists;
  /** The indices of the graphs inside of a node, by the node's place. */
  readonly bodies: ReadonlyMap<number, readonly number[]>;
}

export interface Values {
  readonly count: number;
  readonly name: Int32Array;
  readonly type: Int32Array;
  readonly kind: Uint8Array;
  readonly bytes: Float64Array;
  /** The node that makes a value, -1 for none, and the nodes that read it, each once. */
  readonly maker: Int32Array;
  readonly readers: Lists;
}

export interface Graph {
  readonly index: number;
  readonly name: string;
  readonly domain: string;
  readonly kind: "main" | "body" | "function";
  readonly scope: number;
  readonly owner: { readonly node: number; readonly attribute: string } | null;
  readonly inputs: Int32Array;
  readonly outputs: Int32Array;
  readonly nodes: Nodes;
  readonly values: Values;
  /** The numbers of this graph's first node and value among those of all graphs. */
  readonly nodeBase: number;
  readonly valueBase: number;
}

export interface Scopes {
  readonly parent: Int32Array;
  readonly name: Int32Array;
  readonly graph: Int32Array;
  readonly kind: Uint8Array;
  readonly repeats: Int32Array;
}

/** Where a node or value is: its graph and its place in the graph's columns. */
export interface Place {
  readonly graph: number;
  readonly index: number;
}

export interface Model {
  readonly revision: number;
  readonly name: string;
  readonly file: string;
  readonly about: readonly (readonly [string, string])[];
  readonly faults: readonly Fault[];
  readonly strings: readonly string[];
  readonly graphs: readonly Graph[];
  readonly scopes: Scopes;
  readonly schema: Readonly<Record<string, { inputs: string[]; outputs: string[] }>>;
  readonly nodeCount: number;
  readonly valueCount: number;
  readonly placeOfNode: ReadonlyMap<number, Place>;
}

/** The model of what a server or a file holds; raises an Error that a person can read where it makes no sense. */
export function decode(json: StructureJson): Model {
  if (json.format !== 1) throw new Error(`This page reads structures of format 1, not ${json.format}. Load the page again.`);
  const graphs: Graph[] = [];
  const placeOfNode = new Map<number, Place>();
  let nodeCount = 0;
  let valueCount = 0;
  for (const each of json.graphs) {
    const graph = decodeGraph(each, json.strings, graphs.length, nodeCount, valueCount);
    graph.nodes.id.forEach((id, index) => placeOfNode.set(id, { graph: graph.index, index }));
    nodeCount += graph.nodes.count;
    valueCount += graph.values.count;
    graphs.push(graph);
  }
  const { revision, name, file, about, faults, strings, schema } = json;
  return { revision, name, file, about, faults, strings, graphs, schema, scopes: decodeScopes(json.scopes), nodeCount, valueCount, placeOfNode };
}

function decodeScopes(json: ScopesJson): Scopes {
  return {
    parent: Int32Array.from(json.parent),
    name: Int32Array.from(json.name),
    graph: Int32Array.from(json.graph),
    kind: Uint8Array.from(json.kind),
    repeats: Int32Array.from(json.repeats),
  };
}

function decodeGraph(json: GraphJson, strings: readonly string[], index: number, nodeBase: number, valueBase: number): Graph {
  const nodes = decodeNodes(json);
  return {
    index,
    name: strings[json.name] ?? "",
    domain: json.domain === undefined ? "" : (strings[json.domain] ?? ""),
    kind: json.kind,
    scope: json.scope ?? -1,
    owner: json.owner && { node: json.owner[0], attribute: strings[json.owner[1]] ?? "" },
    inputs: Int32Array.from(json.inputs),
    outputs: Int32Array.from(json.outputs),
    nodes,
    values: decodeValues(json, nodes),
    nodeBase,
    valueBase,
  };
}

function decodeNodes(json: GraphJson): Nodes {
  const { nodes } = json;
  const place = new Map<number, number>();
  const bodies = new Map<number, number[]>();
  nodes.id.forEach((id, index) => place.set(id, index));
  for (const [id, graphs] of Object.entries(nodes.bodies)) bodies.set(place.get(Number(id)) ?? -1, graphs);
  return {
    count: nodes.id.length,
    id: Int32Array.from(nodes.id),
    name: Int32Array.from(nodes.name),
    op: Int32Array.from(nodes.op),
    domain: Int32Array.from(nodes.domain),
    scope: Int32Array.from(nodes.scope),
    category: Uint8Array.from(nodes.category, (each) => (each < CATEGORIES.length ? each : 0)),
    label: Int32Array.from(nodes.label),
    inputs: flat(nodes.inputs),
    outputs: flat(nodes.outputs),
    bodies,
  };
}

function decodeValues(json: GraphJson, nodes: Nodes): Values {
  const { values } = json;
  const count = values.name.length;
  const maker = new Int32Array(count).fill(-1);
  const reader: number[] = [];
  const read: number[] = [];
  const last = new Int32Array(count).fill(-1);
  for (let node = 0; node < nodes.count; node++) {
    for (const value of entries(nodes.outputs, node)) if (value >= 0) maker[value] = node;
    for (const value of entries(nodes.inputs, node)) {
      if (value < 0 || last[value] === node) continue;
      last[value] = node;
      reader.push(node);
      read.push(value);
    }
  }
  return {
    count,
    name: Int32Array.from(values.name),
    type: Int32Array.from(values.type),
    kind: Uint8Array.from(values.kind),
    bytes: Float64Array.from(values.bytes),
    maker,
    readers: listsOf(count, Int32Array.from(read), Int32Array.from(reader)),
  };
}

function flat(lists: readonly (readonly number[])[]): Lists {
  const start = new Int32Array(lists.length + 1);
  lists.forEach((list, index) => (start[index + 1] = start[index]! + list.length));
  return { start, items: Int32Array.from(lists.flat()) };
}

/** One of the lists in flat arrays. */
export function entries(lists: Lists, index: number): Int32Array {
  return lists.items.subarray(lists.start[index], lists.start[index + 1]);
}

/** The string of a number; empty for -1. */
export function text(model: Model, index: number | undefined): string {
  return index === undefined || index < 0 ? "" : (model.strings[index] ?? "");
}

/** A node's name, else what it makes, else its operator. */
export function nodeTitle(model: Model, graph: Graph, index: number): string {
  const name = text(model, graph.nodes.name[index]);
  if (name) return name;
  const made = entries(graph.nodes.outputs, index)[0];
  return (made === undefined || made < 0 ? "" : text(model, graph.values.name[made])) || text(model, graph.nodes.op[index]);
}

/** The key of a node's schema in `Model.schema`. */
export function schemaOf(model: Model, graph: Graph, index: number): { inputs: string[]; outputs: string[] } | undefined {
  return model.schema[`${text(model, graph.nodes.domain[index]) || "ai.onnx"}.${text(model, graph.nodes.op[index])}`];
}

/** The name of the port at a place of a list; the last name of a schema stands for all that follow. */
export function portName(names: readonly string[] | undefined, place: number): string {
  if (!names?.length) return "";
  return names[place] ?? `${names[names.length - 1]}.${place - names.length + 1}`;
}

/** The graph, and place in it, of a value that a body reads from outside; the value itself where nobody makes it. */
export function resolve(model: Model, graph: Graph, value: number): { graph: Graph; value: number } {
  let at = { graph, value };
  const name = graph.values.name[value];
  while (at.graph.values.kind[at.value] === OUTSIDE && at.graph.owner) {
    const owner = model.placeOfNode.get(at.graph.owner.node);
    const outer = owner && model.graphs[owner.graph];
    const found = outer ? valueByName(outer, name) : -1;
    if (!outer || found < 0) break;
    at = { graph: outer, value: found };
  }
  return at;
}

const valuesByName = new WeakMap<Graph, Map<number, number>>();

function valueByName(graph: Graph, name: number | undefined): number {
  let known = valuesByName.get(graph);
  if (!known) {
    known = new Map();
    for (let value = 0; value < graph.values.count; value++) known.set(graph.values.name[value]!, value);
    valuesByName.set(graph, known);
  }
  return name === undefined ? -1 : (known.get(name) ?? -1);
}
