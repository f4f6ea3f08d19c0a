/** Structures for tests, as the server sends them. */

import { decode, type Model } from "../src/data/model.ts";
import type { GraphJson, StructureJson } from "../src/data/protocol.ts";

export interface NodeSpec {
  readonly op: string;
  readonly name?: string;
  readonly inputs: string[];
  readonly outputs: string[];
  readonly scope?: string;
  readonly bodies?: number[];
  readonly id?: number;
}

export interface GraphSpec {
  readonly inputs: string[];
  readonly outputs: string[];
  readonly weights?: string[];
  readonly nodes: NodeSpec[];
  readonly owner?: [number, string];
  readonly types?: Record<string, string>;
}

/** The structure of graphs; scopes are paths such as a/b. */
export function structureOf(specs: GraphSpec[], extra: Partial<StructureJson> = {}): StructureJson {
  const strings: string[] = [];
  const string = (text: string) => {
    const known = strings.indexOf(text);
    return known >= 0 ? known : strings.push(text) - 1;
  };
  const scopes = { parent: [] as number[], name: [] as number[], graph: [] as number[], kind: [] as number[], repeats: [] as number[] };
  const rows = new Map<string, number>();
  const scope = (graph: number, path: string): number => {
    const key = `${graph}:${path}`;
    const known = rows.get(key);
    if (known !== undefined) return known;
    const parts = path.split("/");
    const parent = path === "" ? -1 : scope(graph, parts.slice(0, -1).join("/"));
    rows.set(key, scopes.parent.length);
    scopes.parent.push(parent);
    scopes.name.push(string(parts.at(-1)!));
    scopes.graph.push(graph);
    scopes.kind.push(0);
    scopes.repeats.push(-1);
    return scopes.parent.length - 1;
  };
  let id = 0;
  const graphs = specs.map((spec, index): GraphJson => {
    const names: string[] = [];
    const kinds: number[] = [];
    const value = (name: string, kind: number) => {
      if (!name) return -1;
      const known = names.indexOf(name);
      if (known >= 0) return known;
      kinds.push(kind);
      return names.push(name) - 1;
    };
    const inputs = spec.inputs.map((name) => value(name, 1));
    for (const name of spec.weights ?? []) value(name, 3);
    for (const node of spec.nodes) for (const name of node.outputs) value(name, spec.outputs.includes(name) ? 2 : 0);
    const ids = spec.nodes.map((node) => node.id ?? id++);
    return {
      id: index,
      name: string(`graph ${index}`),
      kind: index === 0 ? "main" : "body",
      scope: scope(index, ""),
      owner: spec.owner ? [spec.owner[0], string(spec.owner[1])] : null,
      inputs,
      nodes: {
        id: ids,
        name: spec.nodes.map((node) => string(node.name ?? "")),
        op: spec.nodes.map((node) => string(node.op)),
        domain: spec.nodes.map(() => string("")),
        scope: spec.nodes.map((node) => scope(index, node.scope ?? "")),
        category: spec.nodes.map(() => 0),
        label: spec.nodes.map(() => -1),
        inputs: spec.nodes.map((node) => node.inputs.map((name) => value(name, 5))),
        outputs: spec.nodes.map((node) => node.outputs.map((name) => value(name, 0))),
        bodies: Object.fromEntries(spec.nodes.flatMap((node, place) => (node.bodies ? [[String(ids[place]), node.bodies]] : []))),
      },
      outputs: spec.outputs.map((name) => value(name, 5)),
      values: { name: names.map(string), type: names.map((name) => (spec.types?.[name] ? string(spec.types[name]) : -1)), kind: kinds, bytes: kinds.map(() => 0) },
    };
  });
  return { format: 1, revision: 0, name: "test", file: "test.onnx", about: [], faults: [], strings, graphs, scopes, schema: {}, ...extra };
}

export function modelOf(...specs: GraphSpec[]): Model {
  return decode(structureOf(specs));
}

/** Blocks that follow one another: each a scope of three nodes with a skip around them. */
export function blocks(count: number): GraphSpec {
  const nodes: NodeSpec[] = [];
  let last = "x";
  for (let block = 0; block < count; block++) {
    const scope = `layer${block}`;
    nodes.push({ op: "Conv", name: `conv${block}`, inputs: [last, `w${block}`], outputs: [`c${block}`], scope });
    nodes.push({ op: "Relu", name: `relu${block}`, inputs: [`c${block}`], outputs: [`r${block}`], scope: `${scope}/inner` });
    nodes.push({ op: "Add", name: `add${block}`, inputs: [`r${block}`, last], outputs: [`a${block}`], scope });
    last = `a${block}`;
  }
  return { inputs: ["x"], outputs: [last], weights: nodes.flatMap((node) => node.inputs.filter((name) => name.startsWith("w"))), nodes, types: { x: "float32[n, 3, 8, 8]", a0: "float16[n, 3, 8, 8]" } };
}
