/** Run the model with random, typed or dropped inputs, look at any tensor, and compare with another runtime. */

import { useSignal } from "@preact/signals";
import type { Page } from "../app/actions.ts";
import { entries, text } from "../data/model.ts";
import type { TensorJson } from "../data/protocol.ts";
import { JobView } from "./JobView.tsx";
import { openSizes } from "./ModelDetails.tsx";
import { type InputChoice, InputField, payloadOf } from "./RunInput.tsx";
import { Tensor, TensorView } from "./TensorView.tsx";
import { useJob } from "./useJob.ts";

type Named = TensorJson & { name: string };

export interface RunResult {
  /** The run, for the rest of its tensors. */
  readonly job?: string;
  readonly inputs: Named[];
  readonly outputs: Named[];
  readonly tensors: Named[];
  readonly against?: {
    readonly equal: boolean;
    readonly rows: { name: string; id: number | null; is_equal: boolean; absolute?: unknown; relative?: unknown }[];
    readonly first: { tensor: string; id: number | null } | null;
  };
}

export function RunPanel({ page }: { page: Page }) {
  const { store } = page;
  const model = store.model.value!;
  const graph = model.graphs[0]!;
  const job = useJob();
  const inputs = useSignal<Record<string, InputChoice>>({});
  const dims = useSignal<Record<string, string>>({});
  const seed = useSignal("0");
  const against = useSignal("");
  const result = useSignal<RunResult | null>(null);
  const names = Array.from(graph.inputs, (value) => value).filter((value) => value >= 0);
  const submit = (event: Event) => {
    event.preventDefault();
    void job.start(async (progress, stop) => {
      const given: Record<string, unknown> = {};
      for (const value of names) {
        const name = text(model, graph.values.name[value]);
        const choice = inputs.value[name];
        if (choice && choice.kind !== "random") given[name] = await payloadOf(choice, text(model, graph.values.type[value]));
      }
      const sizes = Object.fromEntries(Object.entries(dims.value).filter(([, size]) => size !== "").map(([name, size]) => [name, Number(size)]));
      const request = { inputs: given, dims: sizes, seed: Number(seed.value), tensors: watched(page), ...(against.value ? { against: against.value } : {}) };
      result.value = (await store.source.run(store.modelId.value, request, progress, stop)) as RunResult;
    });
  };
  return (
    <>
      <form class="form" onSubmit={submit}>
        {names.map((value) => {
          const name = text(model, graph.values.name[value]);
          const choice = inputs.value[name] ?? { kind: "random" as const };
          return <InputField key={value} name={name} type={text(model, graph.values.type[value])} choice={choice} set={(next) => (inputs.value = { ...inputs.value, [name]: next })} />;
        })}
        <div class="sizes">
          {openSizes(model, graph).map((name) => (
            <label key={name}>
              <span>{name}</span>
              <input type="number" min={0} placeholder="1" value={dims.value[name] ?? ""} onInput={(event) => (dims.value = { ...dims.value, [name]: event.currentTarget.value })} />
            </label>
          ))}
          <label>
            <span>seed</span>
            <input type="number" min={0} value={seed.value} onInput={(event) => (seed.value = event.currentTarget.value)} />
          </label>
        </div>
        <label>
          <span>Compare with</span>
          <select value={against.value} onChange={(event) => (against.value = event.currentTarget.value)}>
            <option value="">nothing</option>
            <option value="ort">ONNX Runtime</option>
            <option value="reference">the reference</option>
          </select>
        </label>
        <p class="hint">Values of the selected nodes are shown too.</p>
        <button class="primary" disabled={job.isRunning.value}>
          Run
        </button>
      </form>
      <JobView job={job} />
      {result.value && <Results page={page} result={result.value} />}
    </>
  );
}

/** The names of the values of what is selected: a run keeps them. */
function watched(page: Page): string[] {
  const { store } = page;
  const model = store.model.value!;
  const found = new Set<string>();
  for (const id of store.picked.value) {
    const place = model.placeOfNode.get(id);
    const graph = place && model.graphs[place.graph];
    if (graph?.kind === "main") for (const value of entries(graph.nodes.outputs, place!.index)) if (value >= 0) found.add(text(model, graph.values.name[value]));
  }
  const selected = store.selected.value;
  if (selected?.kind === "value" && selected.graph === 0 && model.graphs[0]!.values.kind[selected.index]! < 3) found.add(text(model, model.graphs[0]!.values.name[selected.index]));
  return [...found].filter(Boolean);
}

function Results({ page, result }: { page: Page; result: RunResult }) {
  const { against } = result;
  return (
    <>
      {against && (
        <section class="cost" role="status">
          <strong>{against.equal ? "The answers agree." : "The answers differ."}</strong>
          {against.first && (
            <p>
              First difference:{" "}
              <button class="link" onClick={() => against.first!.id !== null && void page.store.selectNode(against.first!.id, "centre")}>
                {against.first.tensor}
              </button>
            </p>
          )}
          <ul class="plain">
            {against.rows.slice(0, 100).map((row) => (
              <li key={row.name}>
                {row.name} <span class="quiet">{row.is_equal ? "agrees" : "differs"}{row.absolute !== undefined ? ` · absolute ${String(row.absolute)}` : ""}{row.relative !== undefined ? ` · relative ${String(row.relative)}` : ""}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {[...result.outputs, ...result.tensors.filter((each) => !result.outputs.some((output) => output.name === each.name))].slice(0, 40).map((tensor, place) => (
        <details key={place} class="fold" open={place === 0}>
          <summary>
            <span class="value">{tensor.name}</span> <span class="type">{`${tensor.dtype}[${tensor.shape.join(", ")}]`}</span>
          </summary>
          {(tensor.total ?? 0) > (tensor.values?.length ?? 0) && result.job ? (
            <TensorView page={page} name={tensor.name} run={result.job} />
          ) : (
            <Tensor tensor={{ ...tensor, start: tensor.start ?? 0, values: tensor.values ?? [], total: tensor.total ?? 0 }} />
          )}
        </details>
      ))}
    </>
  );
}
