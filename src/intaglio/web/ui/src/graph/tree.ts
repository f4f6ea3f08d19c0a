/** Boxes in boxes for one graph: scopes around nodes, bodies inside of nodes, and the values that go from box to box. */

import { entries, type Graph, INITIALIZER, CONSTANT, type Model, resolve } from "../data/model.ts";
import type { Boxes } from "../layout/lines.ts";
import { type Lists, listsBy } from "../layout/layered.ts";

export const ROOT = 0;
export const NODE = 1;
export const SCOPE = 2;
export const BODY = 3;
export const ENTRY = 4;
export const EXIT = 5;

export interface Tree extends Boxes {
  readonly root: Graph;
  readonly count: number;
  /** What each box is, its graph, and its node, scope, graph or value there. */
  readonly kind: Uint8Array;
  readonly graph: Int32Array;
  readonly item: Int32Array;
  readonly children: Lists;
  /** How many nodes are inside of each box, a node counts itself. */
  readonly inner: Int32Array;
  /** The box of each node, scope and end of the model that is in the tree. */
  readonly boxOfNode: ReadonlyMap<number, number>;
  readonly boxOfScope: ReadonlyMap<number, number>;
  /** Values of the lines by their numbers among all graphs. */
  readonly valueCount: number;
}

/** The boxes of a graph and of everything in it. */
export function treeOf(model: Model, root: Graph): Tree {
  const builder = new Builder(model);
  builder.addBox(-1, ROOT, root.index, root.index);
  builder.addGraph(root, 0);
  return builder.tree(root);
}

class Builder {
  private readonly model: Model;
  private readonly parent: number[] = [];
  private readonly kind: number[] = [];
  private readonly graph: number[] = [];
  private readonly item: number[] = [];
  private readonly source: number[] = [];
  private readonly target: number[] = [];
  private readonly value: number[] = [];
  private readonly boxOfNode = new Map<number, number>();
  private readonly boxOfScope = new Map<number, number>();
  /** The boxes that make and end values, by the value's number among all graphs. */
  private readonly maker = new Map<number, number>();
  private readonly graphs: Graph[] = [];
  private readonly exits: { value: number; box: number; graph: Graph }[] = [];

  constructor(model: Model) {
    this.model = model;
  }

  addBox(parent: number, kind: number, graph: number, item: number): number {
    this.parent.push(parent);
    this.kind.push(kind);
    this.graph.push(graph);
    this.item.push(item);
    return this.parent.length - 1;
  }

  addGraph(graph: Graph, box: number): void {
    this.graphs.push(graph);
    for (const value of graph.inputs) {
      if (value < 0) continue;
      this.maker.set(graph.valueBase + value, this.addBox(box, ENTRY, graph.index, value));
    }
    if (graph.scope >= 0) this.boxOfScope.set(graph.scope, box);
    for (let node = 0; node < graph.nodes.count; node++) this.addNode(graph, node, this.scopeBox(graph, graph.nodes.scope[node]!, box));
    for (const value of graph.outputs) {
      if (value >= 0) this.exits.push({ value, graph, box: this.addBox(box, EXIT, graph.index, value) });
    }
  }

  private addNode(graph: Graph, node: number, around: number): void {
    const box = this.addBox(around, NODE, graph.index, node);
    this.boxOfNode.set(graph.nodes.id[node]!, box);
    for (const value of entries(graph.nodes.outputs, node)) if (value >= 0) this.maker.set(graph.valueBase + value, box);
    for (const body of graph.nodes.bodies.get(node) ?? []) {
      const inner = this.model.graphs[body];
      if (inner) this.addGraph(inner, this.addBox(box, BODY, body, body));
    }
  }

  private scopeBox(graph: Graph, scope: number, outermost: number): number {
    const known = this.boxOfScope.get(scope);
    if (known !== undefined) return known;
    const { scopes } = this.model;
    if (scope < 0 || scope === graph.scope || scopes.graph[scope] !== graph.index) return outermost;
    const box = this.addBox(this.scopeBox(graph, scopes.parent[scope]!, outermost), SCOPE, graph.index, scope);
    this.boxOfScope.set(scope, box);
    return box;
  }

  private addLines(graph: Graph): void {
    const { values, nodes } = graph;
    for (let value = 0; value < values.count; value++) {
      if (values.kind[value] === INITIALIZER || values.kind[value] === CONSTANT) continue;
      const at = resolve(this.model, graph, value);
      const number = at.graph.valueBase + at.value;
      const maker = this.maker.get(number);
      if (maker === undefined) continue;
      for (const node of entries(values.readers, value)) this.addLine(maker, this.boxOfNode.get(nodes.id[node]!)!, number);
    }
  }

  private addLine(source: number, target: number, value: number): void {
    if (source === target) return;
    this.source.push(source);
    this.target.push(target);
    this.value.push(value);
  }

  tree(root: Graph): Tree {
    for (const graph of this.graphs) this.addLines(graph);
    for (const exit of this.exits) {
      const at = resolve(this.model, exit.graph, exit.value);
      const maker = this.maker.get(at.graph.valueBase + at.value);
      if (maker !== undefined) this.addLine(maker, exit.box, at.graph.valueBase + at.value);
    }
    const parent = Int32Array.from(this.parent);
    const inner = new Int32Array(parent.length);
    for (let box = parent.length - 1; box > 0; box--) {
      if (this.kind[box] === NODE) inner[box]!++;
      inner[parent[box]!]! += inner[box]!;
    }
    return {
      root,
      count: parent.length,
      parent,
      kind: Uint8Array.from(this.kind),
      graph: Int32Array.from(this.graph),
      item: Int32Array.from(this.item),
      children: listsBy(parent.length, parent),
      inner,
      lineSource: Int32Array.from(this.source),
      lineTarget: Int32Array.from(this.target),
      lineValue: Int32Array.from(this.value),
      boxOfNode: this.boxOfNode,
      boxOfScope: this.boxOfScope,
      valueCount: this.model.valueCount,
    };
  }
}

/** Whether a box holds others. */
export function isGroup(tree: Tree, box: number): boolean {
  return tree.children.start[box + 1]! > tree.children.start[box]!;
}

/** The boxes around a box, the innermost first, without the outermost. */
export function around(tree: Tree, box: number): number[] {
  const found: number[] = [];
  for (let outer = tree.parent[box]!; outer > 0; outer = tree.parent[outer]!) found.push(outer);
  return found;
}
