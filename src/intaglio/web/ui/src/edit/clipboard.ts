/** Copies the selected nodes, and puts them into the same model or another one that is open. */

import type { Store } from "../app/store.ts";
import { CONSTANT, entries, INITIALIZER, type Model, text } from "../data/model.ts";
import type { ModelId } from "../data/source.ts";
import { edit } from "./editing.ts";

/** A part of a model: what it makes of what. */
export interface Part {
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

/** What nodes of the main graph read from others, and what others or nobody reads of them; constants go along. */
export function partOf(model: Model, ids: Iterable<number>): Part {
  const graph = model.graphs[0]!;
  const chosen = new Set<number>();
  for (const id of ids) {
    const place = model.placeOfNode.get(id);
    if (place?.graph === 0) chosen.add(place.index);
  }
  const inputs = new Set<string>();
  const outputs = new Set<string>();
  for (const node of chosen) {
    for (const value of entries(graph.nodes.inputs, node)) {
      if (value < 0 || chosen.has(graph.values.maker[value]!)) continue;
      if (graph.values.kind[value] !== INITIALIZER && graph.values.kind[value] !== CONSTANT) inputs.add(text(model, graph.values.name[value]));
    }
    for (const value of entries(graph.nodes.outputs, node)) {
      if (value < 0) continue;
      const readers = [...entries(graph.values.readers, value)];
      if (!readers.length || readers.some((reader) => !chosen.has(reader)) || graph.outputs.includes(value)) outputs.add(text(model, graph.values.name[value]));
    }
  }
  return { inputs: [...inputs], outputs: [...outputs] };
}

let kept: { part: Part; model: ModelId } | null = null;

/** Keep the selected nodes for pasting. */
export function copy(store: Store): void {
  const part = partOf(store.model.value!, store.picked.value);
  if (!part.outputs.length) return store.say("Select nodes of the main graph first.");
  kept = { part, model: store.modelId.value };
  store.say(`${store.picked.value.size} ${store.picked.value.size === 1 ? "node" : "nodes"} copied`);
}

/** Put what was copied into the shown model. */
export async function paste(store: Store): Promise<void> {
  if (!kept) return store.say("Nothing was copied yet.");
  const { part, model } = kept;
  const known = new Set(store.model.value!.strings);
  let prefix = "copy_";
  for (let number = 2; part.outputs.some((name) => known.has(prefix + name)); number++) prefix = `copy${number}_`;
  const source = model === store.modelId.value ? {} : { source: { model: String(model) } };
  await edit(store, [{ name: "copy_part", arguments: { inputs: part.inputs, outputs: part.outputs, prefix, ...source } }]);
}
