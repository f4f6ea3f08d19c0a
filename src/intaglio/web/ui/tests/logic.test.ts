import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { numbersFrom } from "../src/app/heat.ts";
import { addressOf, History, placeAt } from "../src/app/history.ts";
import { keyOf } from "../src/app/keys.ts";
import { bytes, microseconds, short } from "../src/app/overlays.ts";
import { between, fitting, isShown, opening, zoomed } from "../src/canvas/camera.ts";
import { clean, pngSize, svgOf } from "../src/canvas/export.ts";
import { sceneOf } from "../src/canvas/scene.ts";
import { elementsOf, half } from "../src/data/elements.ts";
import { EmbeddedSource } from "../src/data/source.ts";
import { takeToken } from "../src/data/server.ts";
import { collect } from "../src/edit/AddNode.tsx";
import { partOf } from "../src/edit/clipboard.ts";
import { argumentOf, attributes, attributeValue, shape } from "../src/edit/forms.ts";
import { descendants } from "../src/edit/selecting.ts";
import { faceOf, measureOf, sizesOf } from "../src/graph/faces.ts";
import { allOpen } from "../src/graph/folding.ts";
import { treeOf } from "../src/graph/tree.ts";
import { Nest } from "../src/layout/nested.ts";
import { outlineRows } from "../src/panels/outline.ts";
import { arrangePixels, nested } from "../src/panels/RunInput.tsx";
import { reportText } from "../src/panels/ToolsPanel.tsx";
import { placeOf } from "../src/panels/TensorView.tsx";
import { parse, Search, sizesIn } from "../src/search/search.ts";
import { DARK, LIGHT } from "../src/theme/palette.ts";
import { blocks, modelOf, structureOf } from "./models.ts";

describe("search", () => {
  const model = modelOf(blocks(5));
  const search = new Search(model);
  const names = (query: string, cost: ReadonlyMap<number, number> | null = null) => search.find(query, { cost }).nodes.map((id) => model.strings[model.graphs[0]!.nodes.name[id]!]);

  it.each([
    ["op:conv", ["conv0", "conv1", "conv2", "conv3", "conv4"]],
    ["relu3", ["relu3"]],
    ["op:add name:4", ["add4"]],
    ["in:layer2/inner", ["relu2"]],
    ["type:float16", ["add0"]],
    ["shape:3x8x8", ["add0"]],
    ["shape:?x8", ["add0"]],
    ["shape:8x3", []],
    ["nothing at all", []],
    ["", []],
  ])("%s", (query, wanted) => expect(names(query)).toEqual(wanted));

  it("puts exact names first", () => {
    const own = modelOf({ inputs: ["x"], outputs: ["y"], nodes: [{ op: "ConvTranspose", inputs: ["x"], outputs: ["z"] }, { op: "Conv", inputs: ["z"], outputs: ["y"] }] });
    expect(new Search(own).find("conv").nodes).toEqual([1, 0]);
  });

  it("finds what is unused, and the slowest tenth", () => {
    const own = modelOf({ inputs: ["x"], outputs: ["y"], nodes: [{ op: "Neg", inputs: ["x"], outputs: ["z"] }, { op: "Abs", inputs: ["x"], outputs: ["y"] }] });
    expect(new Search(own).find("is:unused").nodes).toEqual([0]);
    expect(names("is:slow", new Map([[3, 9], [4, 1], [5, 2]]))).toEqual(["conv1"]);
    expect(names("is:slow")).toEqual([]);
  });

  it("finds weights and inputs as values", () => {
    const found = search.find("w3").values;
    expect(found.map(({ graph, index }) => model.strings[model.graphs[graph]!.values.name[index]!])).toEqual(["w3"]);
    expect(search.find("is:weight").values).toHaveLength(5);
  });

  it("reads fields and sizes", () => {
    expect(parse("op:Conv x")).toEqual([{ field: "op", word: "conv" }, { field: "", word: "x" }]);
    expect(parse("https://x")).toEqual([{ field: "", word: "https://x" }]);
    expect(sizesIn("float32[batch, 3, 8]")).toEqual(["batch", "3", "8"]);
  });
});

describe("history", () => {
  it("goes back and forward, and forgets what lay ahead", () => {
    const history = new History({ graph: 0 });
    expect(history.visit({ graph: 0 })).toBe(false);
    history.visit({ graph: 0, node: 1 });
    history.visit({ graph: 0, node: 2 });
    expect(history.go(-1)).toEqual({ graph: 0, node: 1 });
    history.visit({ graph: 0, node: 3 });
    expect([history.canGoBack, history.canGoForward, history.go(1)]).toEqual([true, false, undefined]);
  });

  it("keeps a bounded number of places", () => {
    const history = new History({ graph: 0 }, 10);
    for (let node = 0; node < 100; node++) history.visit({ graph: 0, node });
    let steps = 0;
    while (history.go(-1)) steps++;
    expect(steps).toBe(9);
  });

  it("goes through addresses", () => {
    const place = { graph: 2, node: 12, value: "a b&c", valueGraph: 1, group: "s0:/x" };
    expect(placeAt(`#${addressOf(place)}`)).toEqual(place);
    expect(placeAt("#node=<script>&graph=-1")).toEqual({ graph: 0, node: undefined, value: undefined, valueGraph: undefined, group: undefined });
  });

  it("takes the token out of the address and keeps it", () => {
    const kept = new Map<string, string>();
    const storage = { setItem: (key: string, value: string) => void kept.set(key, value), getItem: (key: string) => kept.get(key) ?? null } as unknown as Storage;
    expect(takeToken({ hash: "#token=secret&node=3" } as Location, storage)).toEqual({ token: "secret", rest: "node=3" });
    expect(takeToken({ hash: "#node=3" } as Location, storage)).toEqual({ token: "secret", rest: "node=3" });
  });
});

describe("cameras", () => {
  const screen = { width: 800, height: 600 };

  it("fits and opens", () => {
    expect(isShown(fitting(screen, { x: 0, y: 0, width: 5000, height: 90 }), screen, { x: 0, y: 0, width: 5000, height: 90 })).toBe(true);
    expect(opening(screen, { width: 300, height: 200 }, { x: 0, y: 0 }).zoom).toBe(1);
    expect(opening(screen, { width: 300, height: 2_000_000 }, { x: 150, y: 10 }).zoom).toBeGreaterThan(0.5);
  });

  it("zooms around a point and stays in bounds", () => {
    const camera = { x: 10, y: 20, zoom: 1 };
    const next = zoomed(camera, 2, { x: 100, y: 50 }, 0.01);
    expect([next.x + 100 / next.zoom, next.y + 50 / next.zoom]).toEqual([110, 70]);
    expect(zoomed(camera, 1e9, { x: 0, y: 0 }, 0.01).zoom).toBe(4);
    expect(between(camera, next, screen, 1).x).toBeCloseTo(next.x);
  });
});

describe("forms", () => {
  const parameter = (kind: string, required = true) => ({ name: "p", kind, required });

  it.each([
    ["integer", "-3", -3],
    ["integers", "0, 2, 1", [0, 2, 1]],
    ["shape", "1, n, ?", [1, "n", null]],
    ["size", "?", null],
    ["size", "12", 12],
    ["values", "a, b", ["a", "b"]],
    ["values", "", []],
    ["names", "a = b\nc = d", { a: "b", c: "d" }],
    ["names", "a, b", ["a", "b"]],
    ["shapes", "x = 1, n", { x: [1, "n"] }],
    ["flag", "yes", true],
    ["array", "[1, 2]", { values: "[1, 2]", dtype: "int64" }],
    ["model", "m2", { model: "m2" }],
    ["node", "12", 12],
    ["node", "conv1", "conv1"],
    ["attributes", "axis = 1\nmode = linear", { axis: 1, mode: "linear" }],
  ])("%s %s", (kind, typed, wanted) => expect(argumentOf(parameter(kind), typed, "int64")).toEqual(wanted));

  it("leaves out what is empty and names what is missing", () => {
    expect(argumentOf(parameter("shape", false), "")).toBeUndefined();
    expect(() => argumentOf(parameter("integer"), "")).toThrow("p is missing");
    expect(() => argumentOf(parameter("integer"), "1.5")).toThrow(/whole number/);
    expect(() => attributes("axis")).toThrow(/no pair/);
  });

  it("reads attribute values", () => {
    expect(["1", "1.5", "[1, 2]", "1, 2", "linear", '"5"', ""].map(attributeValue)).toEqual([1, 1.5, [1, 2], [1, 2], "linear", "5", null]);
    expect(shape("[2x3]")).toEqual([2, 3]);
  });

  it("collects ports, without empty ones at the end", () => {
    const ports = [{ name: "A" }, { name: "B" }, { name: "C" }];
    expect(collect(ports, { A: "x", C: "" })).toEqual(["x"]);
    expect(collect(ports, { A: "x", C: "y" })).toEqual(["x", "", "y"]);
    expect(collect(ports, { A: "x, y" })).toEqual(["x", "y"]);
  });

  it("finds a node's children", () => {
    const model = modelOf(blocks(2));
    expect(descendants(model, [4]).sort()).toEqual([4, 5]);
    expect(descendants(model, [0])).toHaveLength(6);
  });
});

describe("tensors", () => {
  it("reads elements of bytes", () => {
    const data = btoa(String.fromCharCode(0, 0, 128, 63, 0, 0, 192, 127));
    expect(elementsOf(data, "float32", 0, 9)).toEqual([1, "NaN"]);
    expect(elementsOf(data, "uint8", 2, 2)).toEqual([128, 63]);
    expect(elementsOf(btoa(String.fromCharCode(255, 255, 255, 255, 255, 255, 255, 127)), "int64", 0, 1)).toEqual(["9223372036854775807"]);
    expect(elementsOf(data, "constructor", 0, 9)).toEqual([]);
    expect([half(0x3c00), half(0xc000), half(1), half(0x7c00)]).toEqual([1, -2, 2 ** -24, Infinity]);
  });

  it("names places and nests numbers", () => {
    expect(placeOf(13, [2, 3, 4])).toBe("1, 0, 1");
    expect(nested([1, 2, 3, 4], [2, 2])).toEqual([[1, 2], [3, 4]]);
    expect([...arrangePixels(Uint8ClampedArray.of(255, 0, 51, 255), 1, 1, 3, true, 255)]).toEqual([1, 0, 0.2]);
  });

  it("says numbers for people", () => {
    expect([microseconds(3.21), microseconds(1500), bytes(999), bytes(2_500_000), short(1234)]).toEqual(["3.2 µs", "1.50 ms", "999 B", "2.5 MB", "1.23 k"]);
  });
});

describe("overlays, outline, keys", () => {
  it("reads numbers by name or rows", () => {
    const ids = new Map([["conv", 4]]);
    expect(numbersFrom({ conv: 2, other: 3 }, ids)).toEqual(new Map([[4, 2]]));
    expect(numbersFrom([{ node: "conv", value: 7 }], ids)).toEqual(new Map([[4, 7]]));
    expect(() => numbersFrom({ x: 1 }, ids)).toThrow(/belongs to a node/);
  });

  it("lists open boxes with their levels", () => {
    const model = modelOf(blocks(2));
    const tree = treeOf(model, model.graphs[0]!);
    expect(outlineRows(tree, allOpen(tree, false))).toHaveLength(4);
    expect(Math.max(...outlineRows(tree, allOpen(tree, true)).map((row) => row.level))).toBe(3);
  });

  it("spells keys", () => {
    const event = { ctrlKey: false, metaKey: false, altKey: false, shiftKey: false };
    expect(keyOf({ ...event, key: "z", ctrlKey: true, shiftKey: true })).toBe("Ctrl+Shift+Z");
    expect(keyOf({ ...event, key: "ArrowLeft", altKey: true })).toBe("Alt+Left");
    expect(keyOf({ ...event, key: "?", shiftKey: true })).toBe("?");
    expect(keyOf({ ...event, key: "e" })).toBe("e");
  });
});

describe("safety", () => {
  const hostile = `<img src=x onerror=alert(1)>"&'\u0000\u202e]]>`;

  it("escapes names in pictures", () => {
    expect(clean(hostile)).toBe('&lt;img src=x onerror=alert(1)&gt;&quot;&amp;\'\ufffd\ufffd]]&gt;');
    const model = modelOf({ inputs: ["x"], outputs: ["y"], nodes: [{ op: hostile, inputs: ["x"], outputs: ["y"], scope: hostile.replace("/", "") }] });
    const tree = treeOf(model, model.graphs[0]!);
    const scene = sceneOf(new Nest(tree, sizesOf(model, tree, measureOf(), { weights: true })).picture(allOpen(tree, true)));
    const svg = svgOf(scene, LIGHT, (box) => faceOf(model, tree, box), hostile);
    expect(svg).not.toMatch(/<img|<script|\u0000|\u202e/);
    expect(svg.match(/<svg/g)).toHaveLength(1);
  });

  it("keeps PNG sizes within what browsers make", () => {
    const size = pngSize({ width: 80_000, height: 1_300_000 });
    expect(size.height).toBeLessThanOrEqual(16_000);
    expect(size.width * size.height).toBeLessThanOrEqual(60_000_000);
  });

  it("finds nothing by names of objects' own methods", async () => {
    const source = new EmbeddedSource({ structure: structureOf([blocks(1)]), weights: {} });
    await expect(source.tensor(0, "constructor", 0, 1)).rejects.toThrow(/without the contents/);
    await expect(source.run()).rejects.toThrow(/intaglio view MODEL/);
  });

  it("puts no text into the page as markup", () => {
    const files = readdirSync(new URL("../src/", import.meta.url), { recursive: true, encoding: "utf8" }).filter((name) => /\.tsx?$/.test(name));
    expect(files.length).toBeGreaterThan(30);
    for (const name of files) {
      const source = readFileSync(new URL(`../src/${name}`, import.meta.url), "utf8");
      expect(source, name).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/);
      expect(source, name).not.toMatch(/https?:\/\/(?!www\.w3\.org\/2000\/svg)/);
    }
  });
});

describe("colours", () => {
  const light = (hex: string) => {
    const part = (at: number) => {
      const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
      return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    };
    return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
  };
  const contrast = (a: string, b: string) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);

  it.each([["light", LIGHT], ["dark", DARK]] as const)("%s: text can be read on its face", (_, palette) => {
    for (const tint of Object.values(palette.tints)) expect(contrast(tint.text, tint.face)).toBeGreaterThanOrEqual(4.5);
    expect(contrast(palette.muted, palette.card)).toBeGreaterThanOrEqual(4.5);
    expect(contrast(palette.muted, palette.ground)).toBeGreaterThanOrEqual(4.5);
    for (const group of palette.groups) expect(contrast(palette.groupText, group)).toBeGreaterThanOrEqual(4.5);
  });
});

describe("copies and reports", () => {
  it("knows what a part reads and makes", () => {
    const model = modelOf(blocks(2));
    expect(partOf(model, [3, 4])).toEqual({ inputs: ["a0"], outputs: ["r1"] });
    expect(partOf(model, [0, 1, 2, 3, 4, 5])).toEqual({ inputs: ["x"], outputs: ["a1"] });
  });

  it("writes reports as lines", () => {
    expect(reportText({ nodes: { before: 3, after: 2 }, notes: [], rule: "x" })).toBe("nodes\n  before: 3\n  after: 2\nrule: x");
  });
});
