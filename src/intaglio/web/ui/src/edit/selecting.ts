/** Sets of nodes that an edit is about. */

import { entries, type Model } from "../data/model.ts";

/** Nodes and all that read what they make, directly or not, in their graphs; readers come first. */
export function descendants(model: Model, ids: readonly number[]): number[] {
  const found = new Set<number>(ids);
  for (const id of found) {
    const place = model.placeOfNode.get(id);
    const graph = place && model.graphs[place.graph];
    if (!graph) continue;
    for (const value of entries(graph.nodes.outputs, place.index))
      if (value >= 0) for (const reader of entries(graph.values.readers, value)) found.add(graph.nodes.id[reader]!);
  }
  return [...found].reverse();
}
