/** What of the store's state the canvas shows. */

import type { Store } from "../app/store.ts";
import { entries, resolve, text } from "../data/model.ts";
import { categoryOf } from "../graph/faces.ts";
import { shownBox } from "../graph/folding.ts";
import { isGroup, NODE } from "../graph/tree.ts";
import type { Look } from "./painter.ts";

const EMPTY: ReadonlySet<number> = new Set();

/** The look of this moment. What is costly is kept until what it depends on changes. */
export function lookOf(store: Store): Look {
  const tree = store.tree.value!;
  const model = store.model.value!;
  const heat = store.overlays.heat.value;
  const { upstream, downstream } = highlighted(store);
  return {
    selected: selectedBoxes(store),
    hovered: store.hovered.value,
    upstream,
    downstream,
    matches: store.query.value.trim() ? matches(store) : null,
    heat: heat?.share ?? null,
    heatText: heat ? (box) => (Number.isNaN(heat.amount[box]!) || !heat.amount[box] ? "" : store.overlays.describe(heat.amount[box]!, heat.total)) : null,
    marks: store.overlays.marks.value,
    faulty: faulty(store),
    isFolder: (box) => isGroup(tree, box),
    face: store.face,
    category: (box) => categoryOf(model, tree, box),
    edgeLabel: (value) => edgeLabel(store, value),
  };
}

function edgeLabel(store: Store, value: number): string {
  const model = store.model.value!;
  let graph = model.graphs[0]!;
  for (const each of model.graphs) if (each.valueBase <= value) graph = each;
  const index = value - graph.valueBase;
  const typed = store.typed.value;
  const name = text(model, graph.values.name[index]);
  const label = (Object.hasOwn(typed, name) ? typed[name] : undefined) ?? text(model, graph.values.type[index]);
  return label.length > 42 ? `${label.slice(0, 41)}…` : label;
}

function selectedBoxes(store: Store): ReadonlySet<number> {
  const selected = store.selected.value;
  const tree = store.tree.value!;
  const boxes = store.boxesOf(store.picked.value);
  if (selected?.kind === "group") boxes.add(selected.box);
  if (selected?.kind === "value" && selected.graph === tree.root.index)
    for (let box = 1; box < tree.count; box++)
      if (tree.kind[box]! >= 4 && tree.graph[box] === selected.graph && tree.item[box] === selected.index) boxes.add(shownBox(tree, store.open.value, box));
  return boxes;
}

let lastFaulty: { faults: unknown; open: unknown; boxes: ReadonlySet<number> } | null = null;

function faulty(store: Store): ReadonlySet<number> {
  const { faults } = store.model.value!;
  const open = store.open.value;
  if (lastFaulty?.faults === faults && lastFaulty.open === open) return lastFaulty.boxes;
  const boxes = store.boxesOf(faults.flatMap((fault) => (fault.node === null ? [] : [fault.node])));
  lastFaulty = { faults, open, boxes };
  return boxes;
}

let lastMatches: { found: unknown; open: unknown; boxes: ReadonlySet<number> } | null = null;

function matches(store: Store): ReadonlySet<number> {
  const found = store.found.value;
  const open = store.open.value;
  if (lastMatches?.found === found && lastMatches.open === open) return lastMatches.boxes;
  const boxes = store.boxesOf(found.nodes);
  lastMatches = { found, open, boxes };
  return boxes;
}

/** The values that go into what is selected, and those that come out, by their numbers among all graphs. */
function highlighted(store: Store): { upstream: ReadonlySet<number>; downstream: ReadonlySet<number> } {
  const model = store.model.value!;
  const selected = store.selected.value;
  if (selected?.kind === "value") {
    const graph = model.graphs[selected.graph]!;
    return { upstream: EMPTY, downstream: new Set([graph.valueBase + selected.index]) };
  }
  if (selected?.kind === "group") return groupValues(store, selected.box);
  const upstream = new Set<number>();
  const downstream = new Set<number>();
  for (const id of store.picked.value) {
    const place = model.placeOfNode.get(id);
    const graph = place && model.graphs[place.graph];
    if (!graph) continue;
    for (const value of entries(graph.nodes.inputs, place.index)) {
      if (value < 0) continue;
      const at = resolve(model, graph, value);
      upstream.add(at.graph.valueBase + at.value);
    }
    for (const value of entries(graph.nodes.outputs, place.index)) if (value >= 0) downstream.add(graph.valueBase + value);
  }
  return { upstream, downstream };
}

/** The values that cross the border of a group. */
function groupValues(store: Store, box: number): { upstream: ReadonlySet<number>; downstream: ReadonlySet<number> } {
  const tree = store.tree.value!;
  const inside = new Uint8Array(tree.count);
  for (let each = box; each < tree.count; each++) inside[each] = each === box || inside[tree.parent[each]!] ? 1 : 0;
  const upstream = new Set<number>();
  const downstream = new Set<number>();
  tree.lineValue.forEach((value, line) => {
    const from = inside[tree.lineSource[line]!];
    const to = inside[tree.lineTarget[line]!];
    if (to && !from) upstream.add(value);
    if (from && !to) downstream.add(value);
  });
  if (tree.kind[box] === NODE) return { upstream, downstream };
  return { upstream, downstream };
}
