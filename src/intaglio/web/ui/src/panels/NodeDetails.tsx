/** The panel of a node: attributes with the operator's documentation, inputs, outputs, origin, cost. */

import { useSignal } from "@preact/signals";
import type { Page } from "../app/actions.ts";
import { entries, type Graph, type Model, nodeTitle, portName, schemaOf, text } from "../data/model.ts";
import type { AttributeJson, NodeJson } from "../data/protocol.ts";
import { CATEGORIES } from "../data/model.ts";
import { NodeEdits } from "../edit/NodeEdits.tsx";
import { useRemote } from "./remote.ts";
import { ValueLink } from "./ValueLink.tsx";

export function NodeDetails({ page, id }: { page: Page; id: number }) {
  const { store } = page;
  const model = store.model.value!;
  const place = model.placeOfNode.get(id);
  const remote = useRemote(() => store.source.node(store.modelId.value, id), [store.modelId.value, id, store.revision.value]);
  if (!place) return <p class="quiet">This node is gone.</p>;
  const graph = model.graphs[place.graph]!;
  const details = remote.state === "done" ? remote.value : null;
  return (
    <article>
      <Heading model={model} graph={graph} node={place.index} details={details} />
      <Faults page={page} id={id} />
      <Cost page={page} id={id} />
      {store.entry.value?.editable && <NodeEdits page={page} id={id} />}
      {details && <Attributes attributes={details.attributes} />}
      {remote.state === "failed" && <p class="quiet">{remote.reason}</p>}
      <Ports page={page} graph={graph} node={place.index} isInputs />
      <Ports page={page} graph={graph} node={place.index} isInputs={false} />
      <Bodies page={page} graph={graph} node={place.index} />
      {details && <Origin details={details} />}
      {details?.description && (
        <details class="fold">
          <summary>What {details.op} does</summary>
          <p class="prose">{details.description}</p>
        </details>
      )}
    </article>
  );
}

function Heading({ model, graph, node, details }: { model: Model; graph: Graph; node: number; details: NodeJson | null }) {
  const op = text(model, graph.nodes.op[node]);
  const domain = text(model, graph.nodes.domain[node]);
  const category = CATEGORIES[graph.nodes.category[node]!] ?? "other";
  return (
    <header class="heading">
      <span class={`chip c-${category}`}>{category}</span>
      <h2>{op}</h2>
      <p class="name">{nodeTitle(model, graph, node)}</p>
      <p class="quiet">
        {domain || "ai.onnx"}
        {details?.since ? ` · since version ${details.since}` : ""}
      </p>
      {details?.doc && <p class="prose">{details.doc}</p>}
    </header>
  );
}

function Faults({ page, id }: { page: Page; id: number }) {
  const own = page.store.model.value!.faults.filter((fault) => fault.node === id);
  if (!own.length) return null;
  return (
    <ul class="fault-list" role="alert">
      {own.map((fault) => (
        <li key={fault.text}>{fault.text}</li>
      ))}
    </ul>
  );
}

function Cost({ page, id }: { page: Page; id: number }) {
  const { overlays, tree } = page.store;
  const heat = overlays.heat.value;
  const box = tree.value?.boxOfNode.get(id);
  const amount = box === undefined ? undefined : heat?.amount[box];
  if (!heat || amount === undefined || Number.isNaN(amount)) return null;
  const profile = overlays.kind.value === "time" ? overlays.profile.value : null;
  const rows = profile?.rows.filter((row) => (Array.isArray(row.id) ? row.id.includes(id) : row.id === id)) ?? [];
  return (
    <section class="cost">
      <strong>{overlays.describe(amount, heat.total)}</strong>
      {rows.map((row) => (
        <p key={row.name} class="quiet">
          kernel {row.name}
          {row.limit !== undefined && row.limit !== null ? ` · ${typeof row.limit === "number" ? `${(100 * row.limit).toFixed(0)} % of the machine's limit` : row.limit}` : ""}
        </p>
      ))}
    </section>
  );
}

function Attributes({ attributes }: { attributes: readonly AttributeJson[] }) {
  const given = attributes.filter((each) => each.value !== null);
  const left = attributes.filter((each) => each.value === null);
  if (!attributes.length) return null;
  return (
    <section>
      <h3>Attributes</h3>
      <dl class="table">
        {given.map((each) => (
          <Attribute key={each.name} attribute={each} />
        ))}
      </dl>
      {left.length > 0 && (
        <details class="fold">
          <summary>
            {left.length} left out
          </summary>
          <dl class="table">
            {left.map((each) => (
              <Attribute key={each.name} attribute={each} />
            ))}
          </dl>
        </details>
      )}
    </section>
  );
}

function Attribute({ attribute }: { attribute: AttributeJson }) {
  const isOpen = useSignal(false);
  const shown = attribute.value ?? (attribute.default ? `${attribute.default} (default)` : "—");
  return (
    <div class="entry">
      <dt>
        {attribute.doc ? (
          <button class="about" aria-expanded={isOpen.value} title={`${attribute.kind} · what it means`} onClick={() => (isOpen.value = !isOpen.value)}>
            {attribute.name}
          </button>
        ) : (
          attribute.name
        )}
      </dt>
      <dd>
        {attribute.full ? (
          <details>
            <summary class="value">{shown}</summary>
            <pre>{attribute.full}</pre>
          </details>
        ) : (
          <span class={attribute.value === null ? "quiet value" : "value"}>{shown}</span>
        )}
      </dd>
      {isOpen.value && <dd class="doc prose">{attribute.doc}</dd>}
    </div>
  );
}

function Ports({ page, graph, node, isInputs }: { page: Page; graph: Graph; node: number; isInputs: boolean }) {
  const model = page.store.model.value!;
  const values = entries(isInputs ? graph.nodes.inputs : graph.nodes.outputs, node);
  const schema = schemaOf(model, graph, node);
  const names = isInputs ? schema?.inputs : schema?.outputs;
  if (!values.length) return null;
  return (
    <section>
      <h3>{isInputs ? "Inputs" : "Outputs"}</h3>
      <dl class="table">
        {Array.from(values, (value, place) => (
          <div class="entry" key={place}>
            <dt>{portName(names, place) || place}</dt>
            <dd>{value < 0 ? <span class="quiet">left out</span> : <ValueLink page={page} graph={graph} value={value} shows={isInputs ? "maker" : "readers"} />}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Bodies({ page, graph, node }: { page: Page; graph: Graph; node: number }) {
  const model = page.store.model.value!;
  const op = text(model, graph.nodes.op[node]);
  const domain = text(model, graph.nodes.domain[node]);
  const inside = [...(graph.nodes.bodies.get(node) ?? [])];
  for (const each of model.graphs) if (each.kind === "function" && each.name === op && each.domain === domain) inside.push(each.index);
  if (!inside.length) return null;
  return (
    <section>
      <h3>Inside</h3>
      {inside.map((each) => (
        <button key={each} class="wide" onClick={() => void page.store.enter(each)}>
          Enter {model.graphs[each]?.owner?.attribute ?? model.graphs[each]?.name} · {model.graphs[each]?.nodes.count} nodes
        </button>
      ))}
    </section>
  );
}

function Origin({ details }: { details: NodeJson }) {
  const rows = [...Object.entries(details.origin ?? {}), ...Object.entries(details.metadata ?? {})].filter(([, value]) => value);
  if (!rows.length) return null;
  return (
    <details class="fold">
      <summary>Where it comes from</summary>
      <dl class="table">
        {rows.map(([name, value]) => (
          <div class="entry" key={name}>
            <dt>{name}</dt>
            <dd class="value">{typeof value === "string" ? value : JSON.stringify(value)}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
