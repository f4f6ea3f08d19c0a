/** How two models differ: what is new, missing and changed, in colour on the canvas and as a list. */

import { useSignal } from "@preact/signals";
import type { Page } from "../app/actions.ts";
import type { ModelId } from "../data/source.ts";
import { compareWith, type Compared } from "./comparing.ts";

export function DiffPanel({ page }: { page: Page }) {
  const { store } = page;
  const others = (store.models.value?.models ?? []).filter((each) => each.id !== store.modelId.value);
  const compared = store.overlays.compared.value;
  const wanted = useSignal("");
  if (!others.length) return <p class="quiet">Only one model is open. `intaglio view OLD NEW` opens two, and tools make others.</p>;
  const chosen = wanted.value || String(others[0]!.id);
  return (
    <>
      <div class="form">
        <label>
          <span>Compare with</span>
          <select value={chosen} onChange={(event) => (wanted.value = event.currentTarget.value)}>
            {others.map((each) => (
              <option key={each.id} value={String(each.id)}>
                {each.file || each.name}
              </option>
            ))}
          </select>
        </label>
        <p class="buttons">
          <button class="primary" onClick={() => void compareWith(store, others.find((each) => String(each.id) === chosen)!.id)}>
            Compare
          </button>
          {compared && <button onClick={() => (store.overlays.compared.value = null)}>Clear</button>}
        </p>
      </div>
      {compared && <Lists page={page} compared={compared} />}
    </>
  );
}

function Lists({ page, compared }: { page: Page; compared: Compared }) {
  const { store } = page;
  const { diff } = compared;
  const go = async (model: ModelId, id: number) => {
    try {
      if (store.modelId.value !== model) await store.show(model, { graph: 0, node: id });
      else await store.selectNode(id, "centre");
      store.panel.value = "diff";
    } catch (error) {
      store.fail(error);
    }
  };
  const isEqual = !diff.nodes.added.length && !diff.nodes.removed.length && !diff.nodes.changed.length && !diff.weights.length && !diff.interface.length;
  const became = diff.nodes.became ?? [];
  return (
    <>
      {isEqual && <p>The models are equal.</p>}
      <Ids title="New" mark="added" ids={diff.nodes.added} go={(id) => go(compared.b, id)} name={(id) => name(page, compared.b, id)} />
      <Ids title="Missing" mark="removed" ids={diff.nodes.removed} go={(id) => go(compared.a, id)} name={(id) => name(page, compared.a, id)} />
      {diff.nodes.changed.length > 0 && (
        <section>
          <h3 class="mark changed">Changed · {diff.nodes.changed.length}</h3>
          <ul class="plain">
            {diff.nodes.changed.slice(0, 300).map(({ a, b, what }) => (
              <li key={`${a}-${b}`}>
                <button class="link" onClick={() => void (store.modelId.value === compared.b ? go(compared.b, b) : go(compared.a, a))}>
                  {name(page, store.modelId.value, store.modelId.value === compared.b ? b : a)}
                </button>
                {what.map((each) => (
                  <span key={each} class="quiet">
                    {each}
                  </span>
                ))}
              </li>
            ))}
          </ul>
        </section>
      )}
      {became.length > 0 && (
        <section>
          <h3>Became one another</h3>
          <ul class="plain">
            {became.slice(0, 300).map(([a, b]) => (
              <li key={`${a}-${b}`}>
                <span>
                  <button class="link" onClick={() => void go(compared.a, a)}>
                    {name(page, compared.a, a)}
                  </button>
                  {" → "}
                  <button class="link" onClick={() => void go(compared.b, b)}>
                    {name(page, compared.b, b)}
                  </button>
                </span>
              </li>
            ))}
          </ul>
        </section>
      )}
      <Texts title="Weights" rows={diff.weights} />
      <Texts title="Inputs and outputs" rows={diff.interface} />
    </>
  );
}

/** A node of the shown model by its name, of another one by its number. */
function name(page: Page, model: ModelId, id: number): string {
  const { store } = page;
  const shown = store.model.value!;
  const place = model === store.modelId.value ? shown.placeOfNode.get(id) : undefined;
  const graph = place && shown.graphs[place.graph];
  return place && graph ? `${shown.strings[graph.nodes.op[place.index]!]} ${shown.strings[graph.nodes.name[place.index]!] ?? ""}` : `node ${id}`;
}

function Ids({ title, mark, ids, go, name: nameOf }: { title: string; mark: string; ids: readonly number[]; go: (id: number) => void; name: (id: number) => string }) {
  if (!ids.length) return null;
  return (
    <section>
      <h3 class={`mark ${mark}`}>
        {title} · {ids.length}
      </h3>
      <ul class="plain">
        {ids.slice(0, 300).map((id) => (
          <li key={id}>
            <button class="link" onClick={() => go(id)}>
              {nameOf(id)}
            </button>
          </li>
        ))}
        {ids.length > 300 && <li class="quiet">and {ids.length - 300} more</li>}
      </ul>
    </section>
  );
}

function Texts({ title, rows }: { title: string; rows: readonly unknown[] }) {
  if (!rows.length) return null;
  return (
    <section>
      <h3>
        {title} · {rows.length}
      </h3>
      <ul class="plain">
        {rows.slice(0, 200).map((row, place) => (
          <li key={place} class="value">
            {typeof row === "string" ? row : describe(row)}
          </li>
        ))}
      </ul>
    </section>
  );
}

function describe(row: unknown): string {
  return row && typeof row === "object"
    ? Object.values(row as Record<string, unknown>)
        .flat()
        .filter((each) => each !== null && each !== "")
        .join(" · ")
    : String(row);
}
