/** A form for any command of the editor, made of what the server says about its parameters. */

import { useSignal } from "@preact/signals";
import type { Page } from "../app/actions.ts";
import { describe } from "../app/store.ts";
import { CONSTANT, type Graph, INITIALIZER, type Model, text } from "../data/model.ts";
import type { CommandJson, ParameterJson } from "../data/protocol.ts";
import { base64 } from "../panels/RunInput.tsx";
import { edit } from "./editing.ts";
import { argumentOf, type FieldValue } from "./forms.ts";

export const TYPES = ["float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool", "string", "complex64", "complex128"];
const MOST_NAMES = 4000;

const HINTS: Record<string, string> = {
  shape: "1, 3, height, ?  (? for any size)",
  shapes: "input = 1, 3, n — each on a line of its own",
  values: "names with commas between them",
  texts: "names with commas between them",
  names: "old = new — each on a line of its own",
  integers: "0, 2, 1",
  size: "a number, a name, or ? for any",
  attributes: "axis = 1 — each on a line of its own",
  "attribute value": "a number, a list, or a text; nothing takes it away",
  array: "[[1, 2], [3, 4]] or a .npy file",
};

export function CommandForm({ page, command, preset = {}, done }: { page: Page; command: CommandJson; preset?: Record<string, string>; done?: () => void }) {
  const values = useSignal<Record<string, FieldValue>>({ ...preset });
  const dtype = useSignal("float32");
  const fault = useSignal("");
  const set = (name: string, value: FieldValue) => (values.value = { ...values.value, [name]: value });
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      const given: Record<string, unknown> = {};
      for (const parameter of command.parameters) {
        const value = argumentOf(parameter, values.value[parameter.name], dtype.value);
        if (value !== undefined) given[parameter.name] = value;
      }
      fault.value = "";
      if (await edit(page.store, [{ name: command.name, arguments: given }])) done?.();
    } catch (error) {
      fault.value = describe(error);
    }
  };
  return (
    <form class="form command" onSubmit={submit}>
      <p class="hint">{command.doc.split("\n\n")[0]}</p>
      {command.parameters.map((parameter) => (
        <Field key={parameter.name} page={page} parameter={parameter} value={values.value[parameter.name]} set={(value) => set(parameter.name, value)} />
      ))}
      {command.parameters.some((each) => each.kind === "array") && (
        <label>
          <span>type of typed elements</span>
          <select value={dtype.value} onChange={(event) => (dtype.value = event.currentTarget.value)}>
            {TYPES.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
      )}
      {fault.value && (
        <p class="bad" role="alert">
          {fault.value}
        </p>
      )}
      <button class="primary">{title(command.name)}</button>
    </form>
  );
}

/** The name of a command for a person. */
export function title(name: string): string {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function Field({ page, parameter, value, set }: { page: Page; parameter: ParameterJson; value: FieldValue; set: (value: FieldValue) => void }) {
  const { kind, name } = parameter;
  const shown = typeof value === "string" ? value : "";
  const label = `${name.replaceAll("_", " ")}${parameter.required ? "" : " (may be left out)"}`;
  const hint = HINTS[kind];
  const options = optionsOf(page, kind);
  const isLong = ["array", "attributes", "shapes", "names"].includes(kind);
  const id = `names-${kind}`;
  return (
    <label>
      <span>{label}</span>
      {kind === "flag" ? (
        <input type="checkbox" checked={shown === "yes"} onChange={(event) => set(event.currentTarget.checked ? "yes" : "no")} />
      ) : kind === "dtype" || kind === "model" ? (
        <select value={shown} onChange={(event) => set(event.currentTarget.value)}>
          <option value="">choose</option>
          {(options ?? []).map(([each, about]) => (
            <option key={each} value={each}>
              {about || each}
            </option>
          ))}
        </select>
      ) : isLong ? (
        <textarea rows={3} value={typeof value === "object" ? "(from a file)" : shown} placeholder={hint} onInput={(event) => set(event.currentTarget.value)} />
      ) : (
        <input type="text" spellcheck={false} value={shown} placeholder={hint} list={options ? id : undefined} onInput={(event) => set(event.currentTarget.value)} />
      )}
      {options && kind !== "dtype" && kind !== "model" && (
        <datalist id={id}>
          {options.slice(0, MOST_NAMES).map(([each, about]) => (
            <option key={each} value={each}>
              {about}
            </option>
          ))}
        </datalist>
      )}
      {kind === "array" && <input type="file" accept=".npy" aria-label={`${name} from a .npy file`} onChange={(event) => void takeFile(event.currentTarget, set)} />}
    </label>
  );
}

async function takeFile(input: HTMLInputElement, set: (value: FieldValue) => void): Promise<void> {
  const file = input.files?.[0];
  if (file) set({ npy: base64(new Uint8Array(await file.arrayBuffer())) });
}

function optionsOf(page: Page, kind: string): [string, string][] | null {
  const { store } = page;
  const model = store.model.value!;
  const graph = model.graphs[store.graphIndex.value]!;
  switch (kind) {
    case "dtype":
      return TYPES.map((each) => [each, ""]);
    case "model":
      return (store.models.value?.models ?? []).filter((each) => each.id !== store.modelId.value).map((each) => [String(each.id), each.file || each.name]);
    case "value":
    case "values":
      return valueNames(model, graph, () => true);
    case "initializer":
      return valueNames(model, graph, (index) => [INITIALIZER, CONSTANT].includes(graph.values.kind[index]!));
    case "input":
      return Array.from(graph.inputs, (index) => [text(model, graph.values.name[index]), text(model, graph.values.type[index])]);
    case "output":
      return Array.from(graph.outputs, (index) => [text(model, graph.values.name[index]), text(model, graph.values.type[index])]);
    case "function":
      return model.graphs.filter((each) => each.kind === "function").map((each) => [each.name, each.domain]);
    default:
      return null;
  }
}

function valueNames(model: Model, graph: Graph, fits: (index: number) => boolean): [string, string][] {
  const found: [string, string][] = [];
  for (let index = 0; index < graph.values.count && found.length < MOST_NAMES; index++)
    if (fits(index)) found.push([text(model, graph.values.name[index]), text(model, graph.values.type[index])]);
  return found.filter(([name]) => name);
}
