/** Finds nodes and values by what they are called, do, hold and cost. */

import { entries, type Graph, INITIALIZER, CONSTANT, INPUT, type Model, OUTPUT, text } from "../data/model.ts";

export interface Found {
  /** Ids of nodes, in the order of the model, exact names first. */
  readonly nodes: readonly number[];
  /** Values as pairs of a graph and a place in it. */
  readonly values: readonly { readonly graph: number; readonly index: number }[];
  readonly milliseconds: number;
}

/** What a search may ask beside the structure. */
export interface Known {
  /** Cost of nodes by id, such as their time; none where nobody measured. */
  readonly cost: ReadonlyMap<number, number> | null;
}

interface Term {
  readonly field: string;
  readonly word: string;
}

export const FIELDS: readonly (readonly [string, string])[] = [
  ["op:Conv", "an operator"],
  ["name:encoder", "a part of a name"],
  ["type:float16", "an element type of a result"],
  ["shape:3x224x224", "a shape of a result; ? stands for any size"],
  ["attr:group", "a shown attribute"],
  ["in:layer1", "a scope"],
  ["is:unused", "results that nobody reads"],
  ["is:slow", "the slowest tenth of what was measured"],
  ["is:faulty", "nodes with a fault"],
  ["is:weight", "weights and constants"],
];

/** The terms of a query; `field:word`, everything else is looked for everywhere. */
export function parse(query: string): Term[] {
  return (query.match(/\S+/g) ?? []).map((word) => {
    const [, field, rest] = /^(op|name|type|shape|attr|in|is|domain):(.*)$/i.exec(word) ?? [];
    return field ? { field: field.toLowerCase(), word: rest!.toLowerCase() } : { field: "", word: word.toLowerCase() };
  });
}

export class Search {
  private readonly model: Model;
  private readonly lower: string[];
  private readonly faulty: Set<number>;
  private readonly scopePath: string[];

  constructor(model: Model) {
    this.model = model;
    this.lower = model.strings.map((each) => each.toLowerCase());
    this.faulty = new Set(model.faults.flatMap((fault) => (fault.node === null ? [] : [fault.node])));
    this.scopePath = [];
    model.scopes.parent.forEach((parent, scope) => {
      this.scopePath.push(`${this.scopePath[parent] ?? ""}/${this.lower[model.scopes.name[scope]!] ?? ""}`);
    });
  }

  /** All nodes and values that every term of a query fits; nothing for an empty query. */
  find(query: string, known: Known = { cost: null }): Found {
    const begin = performance.now();
    const terms = parse(query);
    if (!terms.length) return { nodes: [], values: [], milliseconds: 0 };
    const tests = terms.map((term) => this.nodeTest(term, known));
    const valueTests = terms.map((term) => this.valueTest(term));
    const exact: number[] = [];
    const nodes: number[] = [];
    const values: { graph: number; index: number }[] = [];
    const whole = query.trim().toLowerCase();
    for (const graph of this.model.graphs) {
      for (let node = 0; node < graph.nodes.count; node++) {
        if (!tests.every((test) => test(graph, node))) continue;
        const isExact = this.lower[graph.nodes.name[node]!] === whole || this.lower[graph.nodes.op[node]!] === whole;
        (isExact ? exact : nodes).push(graph.nodes.id[node]!);
      }
      for (let value = 0; value < graph.values.count; value++)
        if (valueTests.every((test) => test(graph, value))) values.push({ graph: graph.index, index: value });
    }
    return { nodes: [...exact, ...nodes], values, milliseconds: performance.now() - begin };
  }

  /** Which strings hold a word, looked at once for each term. */
  private holds(word: string): (string: number) => boolean {
    const known = new Int8Array(this.lower.length);
    return (string) => {
      if (string < 0) return false;
      if (!known[string]) known[string] = this.lower[string]!.includes(word) ? 1 : -1;
      return known[string] === 1;
    };
  }

  private nodeTest({ field, word }: Term, known: Known): (graph: Graph, node: number) => boolean {
    const holds = this.holds(word);
    const outputs = (test: (graph: Graph, value: number) => boolean) => (graph: Graph, node: number) =>
      entries(graph.nodes.outputs, node).some((value) => value >= 0 && test(graph, value));
    switch (field) {
      case "op":
        return (graph, node) => holds(graph.nodes.op[node]!);
      case "domain":
        return (graph, node) => holds(graph.nodes.domain[node]!);
      case "name":
        return (graph, node) => holds(graph.nodes.name[node]!);
      case "attr":
        return (graph, node) => holds(graph.nodes.label[node]!);
      case "in":
        return (graph, node) => (this.scopePath[graph.nodes.scope[node]!] ?? "").includes(word);
      case "type":
        return outputs((graph, value) => holds(graph.values.type[value]!));
      case "shape": {
        const fits = this.shapeTest(word);
        return outputs((graph, value) => fits(graph.values.type[value]!));
      }
      case "is":
        return this.stateTest(word, known);
      default:
        return (graph, node) =>
          holds(graph.nodes.op[node]!) || holds(graph.nodes.name[node]!) || entries(graph.nodes.outputs, node).some((value) => value >= 0 && holds(graph.values.name[value]!));
    }
  }

  private stateTest(word: string, known: Known): (graph: Graph, node: number) => boolean {
    if (word === "unused") {
      const outputs = new Map(this.model.graphs.map((graph) => [graph, new Set(graph.outputs)]));
      return (graph, node) =>
        entries(graph.nodes.outputs, node).every((value) => value < 0 || (entries(graph.values.readers, value).length === 0 && !outputs.get(graph)!.has(value)));
    }
    if (word === "faulty") return (graph, node) => this.faulty.has(graph.nodes.id[node]!);
    if (word === "slow") {
      const limit = slowFrom(known.cost);
      return (graph, node) => (known.cost?.get(graph.nodes.id[node]!) ?? 0) >= limit;
    }
    return () => false;
  }

  private valueTest({ field, word }: Term): (graph: Graph, value: number) => boolean {
    const holds = this.holds(word);
    const kind = (graph: Graph, value: number) => graph.values.kind[value]!;
    const isOwn = (graph: Graph, value: number) => [INPUT, OUTPUT, INITIALIZER, CONSTANT].includes(kind(graph, value));
    switch (field) {
      case "name":
      case "":
        return (graph, value) => isOwn(graph, value) && holds(graph.values.name[value]!);
      case "type":
        return (graph, value) => isOwn(graph, value) && holds(graph.values.type[value]!);
      case "shape": {
        const fits = this.shapeTest(word);
        return (graph, value) => isOwn(graph, value) && fits(graph.values.type[value]!);
      }
      case "is":
        if (word === "weight") return (graph, value) => kind(graph, value) === INITIALIZER || kind(graph, value) === CONSTANT;
        if (word === "unused") return (graph, value) => kind(graph, value) !== OUTPUT && isOwn(graph, value) && !entries(graph.values.readers, value).length && !graph.outputs.includes(value);
        return () => false;
      default:
        return () => false;
    }
  }

  /** Whether a type's sizes begin or go on with those of a word such as 3x224x224, where ? is any size. */
  private shapeTest(word: string): (type: number) => boolean {
    const wanted = word.split(/[x×,]/).filter(Boolean);
    const known = new Map<number, boolean>();
    return (type) => {
      if (type < 0 || !wanted.length) return false;
      let fits = known.get(type);
      if (fits === undefined) known.set(type, (fits = hasSizes(sizesIn(this.lower[type]!), wanted)));
      return fits;
    };
  }
}

/** The sizes between the brackets of a type. */
export function sizesIn(type: string): string[] {
  const inside = /\[([^\]]*)\]/.exec(type)?.[1];
  return inside ? inside.split(/[,×]/).map((size) => size.trim()) : [];
}

function hasSizes(sizes: string[], wanted: string[]): boolean {
  for (let begin = 0; begin + wanted.length <= sizes.length; begin++) if (wanted.every((size, place) => size === "?" || size === sizes[begin + place])) return true;
  return false;
}

function slowFrom(cost: ReadonlyMap<number, number> | null): number {
  if (!cost?.size) return Infinity;
  const sorted = [...cost.values()].sort((a, b) => b - a);
  return Math.max(sorted[Math.floor(sorted.length / 10)] ?? Infinity, Number.MIN_VALUE);
}

/** The text of a row of results. */
export function valueTitle(model: Model, graph: number, index: number): string {
  return text(model, model.graphs[graph]!.values.name[index]);
}
