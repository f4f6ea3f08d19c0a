/** Gets the numbers of an overlay and shows them. */

import { type HeatKind } from "./overlays.ts";
import type { Store } from "./store.ts";

/** Show heat of a kind; asks the source for its numbers where they are not there yet. */
export async function loadHeat(store: Store, kind: HeatKind): Promise<void> {
  const { overlays, source } = store;
  try {
    if (kind === "time" && !overlays.profile.value) {
      const missing = source.missing("profile");
      if (missing) return store.say(missing, true);
      store.busy.value = "Measuring the model";
      overlays.profile.value = await source.profile(store.modelId.value, {}, (_, note) => (store.busy.value = note || "Measuring the model"));
    } else if ((kind === "macs" || kind === "parameters" || kind === "bytes") && !overlays.stats.value) {
      const missing = source.missing("stats");
      if (missing) return store.say(missing, true);
      store.busy.value = "Counting";
      overlays.stats.value = await source.stats(store.modelId.value, {});
    } else if (kind === "custom") return pickNumbers(store);
    overlays.kind.value = kind;
  } catch (error) {
    store.fail(error);
  } finally {
    store.busy.value = null;
  }
}

/** Have a person choose a JSON file of numbers by node. */
function pickNumbers(store: Store): void {
  const input = document.createElement("input");
  input.type = "file";
  input.accept = ".json,application/json";
  input.onchange = async () => {
    try {
      const file = input.files?.[0];
      if (!file) return;
      store.overlays.custom.value = numbersFrom(JSON.parse(await file.text()), idsByName(store));
      store.overlays.kind.value = "custom";
    } catch (error) {
      store.fail(error);
    }
  };
  input.click();
}

function idsByName(store: Store): Map<string, number> {
  const model = store.model.value!;
  const found = new Map<string, number>();
  for (const graph of model.graphs)
    for (let node = 0; node < graph.nodes.count; node++) {
      const id = graph.nodes.id[node]!;
      found.set(String(id), id);
      const made = graph.nodes.outputs.items[graph.nodes.outputs.start[node]!];
      if (made !== undefined && made >= 0) found.set(model.strings[graph.values.name[made]!]!, id);
    }
  for (const graph of model.graphs)
    for (let node = 0; node < graph.nodes.count; node++) {
      const name = model.strings[graph.nodes.name[node]!];
      if (name) found.set(name, graph.nodes.id[node]!);
    }
  return found;
}

/** Numbers by node from `{"name": number}` or `[{"node" | "name" | "id": ..., "value": number}]`; raises where none fits. */
export function numbersFrom(json: unknown, ids: ReadonlyMap<string, number>): Map<number, number> {
  const pairs: [unknown, unknown][] = Array.isArray(json)
    ? json.map((row: Record<string, unknown>) => [row.node ?? row.name ?? row.id, row.value])
    : Object.entries((json ?? {}) as Record<string, unknown>);
  const found = new Map<number, number>();
  for (const [name, value] of pairs) {
    const id = ids.get(String(name));
    if (id !== undefined && typeof value === "number" && Number.isFinite(value)) found.set(id, value);
  }
  if (!found.size) throw new Error('No number in this file belongs to a node. It needs {"name of a node": number} or [{"node": ..., "value": number}].');
  return found;
}
