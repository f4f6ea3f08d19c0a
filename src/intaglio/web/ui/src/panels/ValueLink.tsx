/** A value as a link, with its type and who is at its other end. */

import type { Page } from "../app/actions.ts";
import { CONSTANT, entries, type Graph, INITIALIZER, resolve, text } from "../data/model.ts";
import { bytes } from "../app/overlays.ts";

export function ValueLink({ page, graph, value, shows }: { page: Page; graph: Graph; value: number; shows: "maker" | "readers" | "none" }) {
  const { store } = page;
  const model = store.model.value!;
  const at = resolve(model, graph, value);
  const { values, nodes } = at.graph;
  const kind = values.kind[at.value];
  const name = text(model, values.name[at.value]);
  const typed = Object.hasOwn(store.typed.value, name) ? store.typed.value[name] : undefined;
  const ends = shows === "maker" ? [values.maker[at.value]!].filter((node) => node >= 0) : shows === "readers" ? [...entries(values.readers, at.value)] : [];
  return (
    <>
      <button class="link value" onClick={() => void store.selectValue(at.graph.index, at.value)}>
        {name || "(no name)"}
      </button>
      <span class="type">{typed ?? text(model, values.type[at.value])}</span>
      {(kind === INITIALIZER || kind === CONSTANT) && (
        <span class="quiet">
          {kind === CONSTANT ? "constant" : "weight"}
          {values.bytes[at.value] ? ` · ${bytes(values.bytes[at.value]!)}` : ""}
        </span>
      )}
      {ends.slice(0, 8).map((node) => (
        <button key={node} class="link end" onClick={() => void store.selectNode(nodes.id[node]!, "if needed")}>
          {shows === "maker" ? "from " : "to "}
          {text(model, nodes.op[node])} <span class="quiet">{text(model, nodes.name[node])}</span>
        </button>
      ))}
      {ends.length > 8 && <span class="quiet">and {ends.length - 8} more</span>}
    </>
  );
}
