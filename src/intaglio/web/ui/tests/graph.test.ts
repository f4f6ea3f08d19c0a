import { describe, expect, it } from "vitest";
import { entries, resolve, text } from "../src/data/model.ts";
import { faceOf, measureOf, short, sizesOf } from "../src/graph/faces.ts";
import { allOpen, firstOpen, groupKey, revealing, shownBox, toggled, twins } from "../src/graph/folding.ts";
import { isGroup, NODE, SCOPE, treeOf } from "../src/graph/tree.ts";
import { blocks, modelOf, structureOf } from "./models.ts";
import { decode } from "../src/data/model.ts";

const withBodies = () =>
  modelOf(
    {
      inputs: ["x", "go"],
      outputs: ["y"],
      nodes: [
        { op: "Relu", inputs: ["x"], outputs: ["r"] },
        { op: "If", inputs: ["go"], outputs: ["y"], bodies: [1, 2] },
      ],
    },
    { inputs: [], outputs: ["t"], owner: [1, "then_branch"], nodes: [{ op: "Neg", inputs: ["r"], outputs: ["t"], id: 10 }] },
    { inputs: [], outputs: ["r"], owner: [1, "else_branch"], nodes: [] },
  );

describe("structures", () => {
  it("knows makers and readers, each reader once", () => {
    const model = modelOf({ inputs: ["x"], outputs: ["y"], nodes: [{ op: "Add", inputs: ["x", "x"], outputs: ["y"] }] });
    const { values } = model.graphs[0]!;
    expect([...entries(values.readers, 0)]).toEqual([0]);
    expect([values.maker[0], values.maker[1]]).toEqual([-1, 0]);
  });

  it("finds values of bodies in the graph around", () => {
    const model = withBodies();
    const body = model.graphs[1]!;
    const at = resolve(model, body, body.nodes.inputs.items[0]!);
    expect(at.graph.index).toBe(0);
    expect(text(model, at.graph.values.name[at.value])).toBe("r");
  });

  it("refuses another format with a remedy", () => {
    expect(() => decode(structureOf([blocks(1)], { format: 2 }))).toThrow(/format 1, not 2.*Load the page again/);
  });
});

describe("trees of boxes", () => {
  it("has scopes around nodes, and parents before children", () => {
    const model = modelOf(blocks(2));
    const tree = treeOf(model, model.graphs[0]!);
    expect(Array.from(tree.kind).filter((kind) => kind === NODE)).toHaveLength(6);
    expect(Array.from(tree.kind).filter((kind) => kind === SCOPE)).toHaveLength(4);
    for (let box = 1; box < tree.count; box++) expect(tree.parent[box]!).toBeLessThan(box);
    expect(tree.inner[0]).toBe(6);
    expect(tree.lineSource).toHaveLength(2 * 4 + 1);
  });

  it("puts bodies inside of their node and joins them with what they read", () => {
    const model = withBodies();
    const tree = treeOf(model, model.graphs[0]!);
    const branch = tree.boxOfNode.get(1)!;
    const neg = tree.boxOfNode.get(10)!;
    expect(isGroup(tree, branch)).toBe(true);
    expect(tree.parent[tree.parent[neg]!]).toBe(branch);
    const lines = Array.from(tree.lineSource, (source, line) => [source, tree.lineTarget[line]]);
    expect(lines).toContainEqual([tree.boxOfNode.get(0), neg]);
  });
});

describe("folding", () => {
  const model = modelOf(blocks(50));
  const tree = treeOf(model, model.graphs[0]!);

  it("opens as much as there is room for", () => {
    expect(firstOpen(tree, 10_000).reduce((sum, each) => sum + each, 0)).toBe(100);
    expect(firstOpen(tree, 10).reduce((sum, each) => sum + each, 0)).toBe(0);
  });

  it("opens and closes one group", () => {
    const group = tree.boxOfScope.get(1)!;
    const open = toggled(tree, allOpen(tree, false), group);
    expect(Array.from(open).flatMap((each, box) => (each ? [box] : []))).toEqual([group]);
    expect(toggled(tree, open, group)[group]).toBe(0);
  });

  it("reveals a box in closed groups, and says which box stands for it", () => {
    const relu = tree.boxOfNode.get(1)!;
    const none = allOpen(tree, false);
    expect(tree.kind[shownBox(tree, none, relu)]).toBe(SCOPE);
    const open = revealing(tree, none, [relu]);
    expect(shownBox(tree, open, relu)).toBe(relu);
    expect(revealing(tree, open, [relu])).toBe(open);
  });

  it("names groups by their scopes", () => {
    const keys = new Set<string>();
    for (let box = 1; box < tree.count; box++) if (isGroup(tree, box)) keys.add(groupKey(model, tree, box));
    expect(keys.size).toBe(100);
    expect(keys).toContain("s0:/layer3/inner");
  });

  it("folds those that are built alike together", () => {
    const repeats = decode(structureOf([blocks(3)]));
    repeats.scopes.repeats.set([1], 3);
    const own = treeOf(repeats, repeats.graphs[0]!);
    expect(twins(repeats, own, own.boxOfScope.get(3)!)).toEqual([own.boxOfScope.get(1)!, own.boxOfScope.get(3)!]);
  });
});

describe("faces", () => {
  it("lists weights with the names of the schema, and hides them on demand", () => {
    const model = decode(structureOf([{ inputs: ["x"], outputs: ["y"], weights: ["w"], nodes: [{ op: "Conv", inputs: ["x", "w"], outputs: ["y"] }], types: { w: "float32[8, 3, 3, 3]" } }], { schema: { "ai.onnx.Conv": { inputs: ["X", "W", "B"], outputs: ["Y"] } } }));
    const tree = treeOf(model, model.graphs[0]!);
    const box = tree.boxOfNode.get(0)!;
    expect(faceOf(model, tree, box).rows).toEqual([{ name: "W", text: "float32[8, 3, 3, 3]", isWeight: true }]);
    expect(faceOf(model, tree, box, { weights: false }).rows).toEqual([]);
    const sizes = sizesOf(model, tree, measureOf(), { weights: true });
    expect(sizes.height[box]).toBeGreaterThan(sizesOf(model, tree, measureOf(), { weights: false }).height[box]!);
  });

  it("cuts long names and replaces what could turn text around", () => {
    expect(short("x".repeat(1_000_000))).toHaveLength(34);
    expect(short("a\u202eb\u0000c")).toBe("a\ufffdb\ufffdc");
  });
});
