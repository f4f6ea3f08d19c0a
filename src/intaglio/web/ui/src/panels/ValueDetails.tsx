/** The panel of a value: its type, who makes and reads it, and what a weight holds. */

import type { Page } from "../app/actions.ts";
import { bytes } from "../app/overlays.ts";
import { CONSTANT, entries, INITIALIZER, text } from "../data/model.ts";
import { ValueEdits } from "../edit/ValueEdits.tsx";
import { useRemote } from "./remote.ts";
import { TensorView } from "./TensorView.tsx";

const KINDS = ["value inside", "input of the model", "output of the model", "weight", "constant", "value from outside"];

export function ValueDetails({ page, graph: graphIndex, index }: { page: Page; graph: number; index: number }) {
  const { store } = page;
  const model = store.model.value!;
  const graph = model.graphs[graphIndex]!;
  const name = text(model, graph.values.name[index]);
  const missing = store.source.missing("values");
  const remote = useRemote(
    () => (missing ? Promise.resolve(null) : store.source.value(store.modelId.value, name)),
    [store.modelId.value, name, store.revision.value],
  );
  const kind = graph.values.kind[index]!;
  const details = remote.state === "done" ? remote.value : null;
  const typed = Object.hasOwn(store.typed.value, name) ? store.typed.value[name] : undefined;
  const rows: [string, string][] = [
    ["type", text(model, graph.values.type[index]) || "unknown"],
    ["for these sizes", typed ?? ""],
    ["declared", details?.declared && details.declared !== details.inferred ? details.declared : ""],
    ["inferred", details?.inferred && details.declared && details.declared !== details.inferred ? details.inferred : ""],
    ["elements", details?.elements ? details.elements.toLocaleString("en") : ""],
    ["size", graph.values.bytes[index] ? bytes(graph.values.bytes[index]!) : ""],
  ];
  const isStored = kind === INITIALIZER || kind === CONSTANT;
  return (
    <article>
      <header class="heading">
        <span class="chip">{KINDS[kind]}</span>
        <h2 class="name">{name || "(no name)"}</h2>
      </header>
      <dl class="table">
        {rows
          .filter(([, value]) => value)
          .map(([label, value]) => (
            <div class="entry" key={label}>
              <dt>{label}</dt>
              <dd class="value">{value}</dd>
            </div>
          ))}
      </dl>
      {store.entry.value?.editable && <ValueEdits page={page} name={name} kind={kind} graph={graphIndex} />}
      <Ends page={page} graph={graphIndex} index={index} />
      {isStored && <TensorView page={page} name={name} />}
    </article>
  );
}

function Ends({ page, graph: graphIndex, index }: { page: Page; graph: number; index: number }) {
  const { store } = page;
  const model = store.model.value!;
  const graph = model.graphs[graphIndex]!;
  const maker = graph.values.maker[index]!;
  const readers = [...entries(graph.values.readers, index)];
  const link = (node: number) => (
    <li key={node}>
      <button class="link" onClick={() => void store.selectNode(graph.nodes.id[node]!, "if needed")}>
        {text(model, graph.nodes.op[node])} <span class="quiet">{text(model, graph.nodes.name[node])}</span>
      </button>
    </li>
  );
  return (
    <>
      {maker >= 0 && (
        <section>
          <h3>Made by</h3>
          <ul class="plain">{link(maker)}</ul>
        </section>
      )}
      <section>
        <h3>Read by</h3>
        {readers.length ? (
          <ul class="plain">
            {readers.slice(0, 100).map(link)}
            {readers.length > 100 && <li class="quiet">and {readers.length - 100} more</li>}
          </ul>
        ) : (
          <p class="quiet">no node of this graph</p>
        )}
      </section>
    </>
  );
}
