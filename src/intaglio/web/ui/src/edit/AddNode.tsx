/** A form for a new node, made of its operator's schema. */

import { useSignal } from "@preact/signals";
import type { Page } from "../app/actions.ts";
import { describe } from "../app/store.ts";
import { text } from "../data/model.ts";
import type { OperatorJson } from "../data/protocol.ts";
import { useRemote } from "../panels/remote.ts";
import { edit } from "./editing.ts";
import { attributeValue } from "./forms.ts";

export function AddNode({ page }: { page: Page }) {
  const { store } = page;
  const domain = useSignal("");
  const operator = useSignal("");
  const names = useRemote(() => store.source.operators(domain.value), [domain.value]);
  const isKnown = names.state === "done" && names.value.includes(operator.value);
  const schema = useRemote(() => (isKnown ? store.source.operator(domain.value, operator.value) : Promise.resolve(null)), [isKnown, operator.value, domain.value]);
  return (
    <div class="form">
      <label>
        <span>operator</span>
        <input type="text" list="operators" spellcheck={false} placeholder="Relu" value={operator.value} onInput={(event) => (operator.value = event.currentTarget.value.trim())} />
        <datalist id="operators">{names.state === "done" && names.value.map((each) => <option key={each} value={each} />)}</datalist>
      </label>
      <label>
        <span>domain (empty for ONNX)</span>
        <input type="text" spellcheck={false} value={domain.value} onInput={(event) => (domain.value = event.currentTarget.value.trim())} />
      </label>
      {operator.value && <NodeForm key={`${operator.value}-${isKnown}-${schema.state}`} page={page} operator={operator.value} domain={domain.value} schema={schema.state === "done" ? schema.value : null} />}
    </div>
  );
}

interface Port {
  readonly name: string;
  readonly doc: string;
}

function NodeForm({ page, operator, domain, schema }: { page: Page; operator: string; domain: string; schema: OperatorJson | null }) {
  const { store } = page;
  const inputs = useSignal<Record<string, string>>(firstInput(page, schema));
  const outputs = useSignal<Record<string, string>>({});
  const attributes = useSignal<Record<string, string>>({});
  const name = useSignal("");
  const fault = useSignal("");
  const ports = (list: OperatorJson["inputs"] | undefined, otherwise: string): Port[] =>
    list?.length ? list.map((each) => ({ name: each.name, doc: each.doc ?? each.description ?? "" })) : [{ name: otherwise, doc: "names with commas between them" }];
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      const made = collect(ports(schema?.outputs, "outputs"), outputs.value);
      if (!made.length) made.push(freshName(page, operator));
      const given = Object.fromEntries(Object.entries(attributes.value).filter(([, value]) => value.trim()).map(([key, value]) => [key, attributeValue(value)]));
      const selected = store.selected.value;
      const before = selected?.kind === "node" ? firstReader(page, selected.id) : undefined;
      await edit(store, [
        {
          name: "insert_node",
          arguments: { operator, domain, name: name.value, inputs: collect(ports(schema?.inputs, "inputs"), inputs.value), outputs: made, attributes: given, ...(before === undefined ? {} : { before }) },
        },
      ]);
    } catch (error) {
      fault.value = describe(error);
    }
  };
  const field = (port: Port, group: typeof inputs) => (
    <label key={port.name}>
      <span title={port.doc}>{port.name}</span>
      <input type="text" spellcheck={false} list="node-values" title={port.doc} value={group.value[port.name] ?? ""} onInput={(event) => (group.value = { ...group.value, [port.name]: event.currentTarget.value })} />
    </label>
  );
  return (
    <form class="form command" onSubmit={submit}>
      <ValueNames page={page} />
      {schema?.doc && (
        <details class="about">
          <summary>about {operator}</summary>
          <p class="prose">{schema.doc}</p>
        </details>
      )}
      <h3>Inputs</h3>
      {ports(schema?.inputs, "inputs").map((port) => field(port, inputs))}
      <h3>Outputs</h3>
      {ports(schema?.outputs, "outputs").map((port) => field(port, outputs))}
      {attributesOf(schema).length > 0 && <h3>Attributes</h3>}
      {attributesOf(schema).map((port) => field(port, attributes))}
      <label>
        <span>name of the node</span>
        <input type="text" spellcheck={false} value={name.value} onInput={(event) => (name.value = event.currentTarget.value)} />
      </label>
      {fault.value && <p class="bad">{fault.value}</p>}
      <button class="primary">Add {operator}</button>
    </form>
  );
}

function attributesOf(schema: OperatorJson | null): Port[] {
  const list = schema?.attributes ?? [];
  const all = Array.isArray(list) ? list : Object.entries(list).map(([name, rest]) => ({ name, ...(rest as object) }) as { name: string; doc?: string; description?: string });
  return all.map((each) => ({ name: each.name, doc: each.doc ?? each.description ?? "" }));
}

/** The names of ports in order; trailing empty ones are left out, and commas make several of one. */
export function collect(ports: readonly { readonly name: string }[], values: Readonly<Record<string, string>>): string[] {
  const found = ports.flatMap((port) => {
    const typed = values[port.name]?.trim() ?? "";
    return typed.includes(",") ? typed.split(",").map((each) => each.trim()) : [typed];
  });
  while (found.length && found.at(-1) === "") found.pop();
  return found;
}

/** The first input reads what the selected node makes. */
function firstInput(page: Page, schema: OperatorJson | null): Record<string, string> {
  const { store } = page;
  const model = store.model.value!;
  const selected = store.selected.value;
  const port = schema?.inputs[0]?.name ?? "inputs";
  if (selected?.kind === "value") return { [port]: text(model, model.graphs[selected.graph]!.values.name[selected.index]) };
  const place = selected?.kind === "node" ? model.placeOfNode.get(selected.id) : undefined;
  const graph = place && model.graphs[place.graph];
  const made = graph?.nodes.outputs.items[graph.nodes.outputs.start[place!.index]!];
  return graph && made !== undefined && made >= 0 ? { [port]: text(model, graph.values.name[made]) } : {};
}

function firstReader(page: Page, id: number): number | undefined {
  const model = page.store.model.value!;
  const place = model.placeOfNode.get(id);
  const graph = place && model.graphs[place.graph];
  const made = graph?.nodes.outputs.items[graph.nodes.outputs.start[place!.index]!];
  const reader = graph && made !== undefined && made >= 0 ? graph.values.readers.items[graph.values.readers.start[made]!] : undefined;
  return graph && reader !== undefined && made !== undefined && graph.values.readers.start[made + 1]! > graph.values.readers.start[made]! ? graph.nodes.id[reader] : undefined;
}

/** A name that no value has yet. */
function freshName(page: Page, operator: string): string {
  const known = new Set(page.store.model.value!.strings);
  const stem = operator.toLowerCase();
  for (let number = 1; ; number++) if (!known.has(`${stem}_${number}`)) return `${stem}_${number}`;
}

function ValueNames({ page }: { page: Page }) {
  const model = page.store.model.value!;
  const graph = model.graphs[page.store.graphIndex.value]!;
  const names = Array.from(graph.values.name.subarray(0, 3000), (each) => text(model, each)).filter(Boolean);
  return (
    <datalist id="node-values">
      {names.map((each) => (
        <option key={each} value={each} />
      ))}
    </datalist>
  );
}
