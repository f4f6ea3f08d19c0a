/** The panel of the model: what the file says of itself, its inputs and outputs, sizes to type in, operators, faults. */

import { useSignal } from "@preact/signals";
import type { Page } from "../app/actions.ts";
import { describe } from "../app/store.ts";
import { type Graph, type Model, text } from "../data/model.ts";
import { sizesIn } from "../search/search.ts";
import { Bars } from "./GroupDetails.tsx";
import { ProfileView } from "./ProfileView.tsx";
import { ValueLink } from "./ValueLink.tsx";

export function ModelDetails({ page }: { page: Page }) {
  const { store } = page;
  const model = store.model.value!;
  const graph = model.graphs[store.graphIndex.value]!;
  return (
    <article>
      <header class="heading">
        <span class="chip">{graph.kind === "main" ? "model" : graph.kind}</span>
        <h2>{(graph.kind === "main" ? model.file || model.name : graph.name) || "graph"}</h2>
      </header>
      <FaultList page={page} model={model} />
      <dl class="table">
        {model.about.map(([name, value]) => (
          <div class="entry" key={name}>
            <dt>{name}</dt>
            <dd class="value">{value}</dd>
          </div>
        ))}
      </dl>
      <Ends page={page} graph={graph} title="Inputs" values={graph.inputs} />
      <Ends page={page} graph={graph} title="Outputs" values={graph.outputs} />
      {graph.kind === "main" && <Sizes page={page} graph={graph} />}
      {graph.kind === "main" && <ProfileView page={page} />}
      <section>
        <h3>Operators</h3>
        <Bars rows={operators(model)} choose={(name) => (store.query.value = `op:${name}`)} />
      </section>
      <Functions page={page} model={model} />
    </article>
  );
}

function FaultList({ page, model }: { page: Page; model: Model }) {
  if (!model.faults.length) return null;
  return (
    <section>
      <h3>Faults</h3>
      <ul class="fault-list">
        {model.faults.slice(0, 100).map((fault, place) => (
          <li key={place}>
            {fault.node === null ? (
              fault.text
            ) : (
              <button class="link" onClick={() => void page.store.selectNode(fault.node!, "centre")}>
                {fault.text}
              </button>
            )}
          </li>
        ))}
        {model.faults.length > 100 && <li>and {model.faults.length - 100} more</li>}
      </ul>
    </section>
  );
}

function Ends({ page, graph, title, values }: { page: Page; graph: Graph; title: string; values: Int32Array }) {
  if (!values.length) return null;
  return (
    <section>
      <h3>{title}</h3>
      <ul class="plain ends">
        {Array.from(values.slice(0, 300), (value, place) => (
          <li key={place}>{value < 0 ? <span class="quiet">left out</span> : <ValueLink page={page} graph={graph} value={value} shows="none" />}</li>
        ))}
        {values.length > 300 && <li class="quiet">and {values.length - 300} more</li>}
      </ul>
    </section>
  );
}

/** The names of sizes that the inputs leave open. */
export function openSizes(model: Model, graph: Graph): string[] {
  const found = new Set<string>();
  for (const value of graph.inputs)
    for (const size of value < 0 ? [] : sizesIn(text(model, graph.values.type[value]))) if (/^[A-Za-z_][\w.]*$/.test(size)) found.add(size);
  return [...found];
}

function Sizes({ page, graph }: { page: Page; graph: Graph }) {
  const { store } = page;
  const names = openSizes(store.model.value!, graph);
  const dims = useSignal<Record<string, string>>({});
  const fault = useSignal("");
  const missing = store.source.missing("types");
  if (!names.length) return null;
  const apply = async (event: Event) => {
    event.preventDefault();
    const wanted = Object.fromEntries(names.flatMap((name) => (dims.value[name] ? [[name, Number(dims.value[name])]] : [])));
    try {
      store.typed.value = Object.keys(wanted).length ? await store.source.types(store.modelId.value, wanted) : {};
      fault.value = "";
    } catch (error) {
      fault.value = describe(error);
    }
  };
  return (
    <section>
      <h3>Sizes</h3>
      <form class="sizes" onSubmit={apply}>
        {names.map((name) => (
          <label key={name}>
            <span>{name}</span>
            <input type="number" min={0} step={1} disabled={missing !== null} title={missing ?? undefined} value={dims.value[name] ?? ""} onInput={(event) => (dims.value = { ...dims.value, [name]: event.currentTarget.value })} />
          </label>
        ))}
        <button disabled={missing !== null} title={missing ?? "Show all shapes for these sizes"}>
          Show shapes
        </button>
      </form>
      {fault.value && <p class="bad">{fault.value}</p>}
    </section>
  );
}

function operators(model: Model): [string, number][] {
  const counts = new Map<string, number>();
  for (const graph of model.graphs)
    for (const op of graph.nodes.op) {
      const name = text(model, op);
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
  return [...counts].sort((a, b) => b[1] - a[1]);
}

function Functions({ page, model }: { page: Page; model: Model }) {
  const functions = model.graphs.filter((graph) => graph.kind === "function");
  if (!functions.length) return null;
  return (
    <section>
      <h3>Functions</h3>
      <ul class="plain">
        {functions.slice(0, 200).map((graph) => (
          <li key={graph.index}>
            <button class="link" onClick={() => void page.store.enter(graph.index)}>
              {graph.name} <span class="quiet">{graph.nodes.count} nodes</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
