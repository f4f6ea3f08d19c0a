/** What can be done to the selected nodes, in their panel. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Page } from "../app/actions.ts";
import { entries, text } from "../data/model.ts";
import { edit } from "./editing.ts";
import { attributeValue } from "./forms.ts";
import { descendants } from "./selecting.ts";

export function NodeEdits({ page, id }: { page: Page; id: number }) {
  const { store } = page;
  const dropped = store.dropped.value?.node === id ? store.dropped.value.value : "";
  const open = useSignal<"none" | "rename" | "attribute" | "rewire">("none");
  useEffect(() => {
    if (dropped) open.value = "rewire";
  }, [dropped, open]);
  const several = [...store.picked.value];
  const remove = (ids: readonly number[]) => edit(store, ids.map((node) => ({ name: "delete_node", arguments: { node } })));
  const toggle = (form: "rename" | "attribute" | "rewire") => (open.value = open.value === form ? "none" : form);
  return (
    <div class="edits">
      <div class="buttons">
        <button class="danger" onClick={() => void remove(several.length > 1 ? several : [id])}>
          Delete
        </button>
        <button class="danger" title="This node and all that need it" onClick={() => void remove(descendants(store.model.value!, several.length ? several : [id]))}>
          Delete with children
        </button>
        <button title="Its readers read its input" onClick={() => void edit(store, [{ name: "bypass_node", arguments: { node: id } }])}>
          Bypass
        </button>
        <button aria-expanded={open.value === "rename"} onClick={() => toggle("rename")}>
          Rename
        </button>
        <button aria-expanded={open.value === "attribute"} onClick={() => toggle("attribute")}>
          Attribute
        </button>
        <button aria-expanded={open.value === "rewire"} onClick={() => toggle("rewire")}>
          Rewire
        </button>
        <button onClick={() => (store.panel.value = "edit")}>More</button>
      </div>
      {open.value === "rename" && (
        <OneField label="new name" button="Rename" done={(name) => void edit(store, [{ name: "rename_node", arguments: { node: id, name } }])} />
      )}
      {open.value === "attribute" && <AttributeForm page={page} id={id} />}
      {open.value === "rewire" && <RewireForm key={`${id}-${dropped}`} page={page} id={id} dropped={dropped} />}
    </div>
  );
}

export function OneField({ label, button, done, start = "", names }: { label: string; button: string; done: (text: string) => void; start?: string; names?: readonly string[] }) {
  const value = useSignal(start);
  return (
    <form
      class="form command"
      onSubmit={(event) => {
        event.preventDefault();
        done(value.value.trim());
      }}
    >
      <label>
        <span>{label}</span>
        <input type="text" spellcheck={false} list={names ? `list-${label}` : undefined} value={value.value} onInput={(event) => (value.value = event.currentTarget.value)} />
        {names && (
          <datalist id={`list-${label}`}>
            {names.map((each) => (
              <option key={each} value={each} />
            ))}
          </datalist>
        )}
      </label>
      <button class="primary">{button}</button>
    </form>
  );
}

function AttributeForm({ page, id }: { page: Page; id: number }) {
  const { store } = page;
  const name = useSignal("");
  const value = useSignal("");
  return (
    <form
      class="form command"
      onSubmit={(event) => {
        event.preventDefault();
        void edit(store, [{ name: "set_attribute", arguments: { node: id, name: name.value.trim(), value: attributeValue(value.value) } }]);
      }}
    >
      <label>
        <span>attribute</span>
        <input type="text" spellcheck={false} value={name.value} onInput={(event) => (name.value = event.currentTarget.value)} />
      </label>
      <label>
        <span>value: a number, a list or a text; nothing takes it away</span>
        <input type="text" spellcheck={false} value={value.value} onInput={(event) => (value.value = event.currentTarget.value)} />
      </label>
      <button class="primary">Set attribute</button>
    </form>
  );
}

function RewireForm({ page, id, dropped }: { page: Page; id: number; dropped: string }) {
  const { store } = page;
  const model = store.model.value!;
  const place = model.placeOfNode.get(id)!;
  const graph = model.graphs[place.graph]!;
  const inputs = [...entries(graph.nodes.inputs, place.index)];
  const input = useSignal(0);
  const names = Array.from(graph.values.name.subarray(0, 3000), (each) => text(model, each)).filter(Boolean);
  return (
    <>
      <label class="form">
        <span class="quiet">input</span>
        <select value={input.value} onChange={(event) => (input.value = Number(event.currentTarget.value))}>
          {[...inputs, -1].map((value, number) => (
            <option key={number} value={number}>
              {number}: {value < 0 ? (number < inputs.length ? "left out" : "a new one") : text(model, graph.values.name[value])}
            </option>
          ))}
        </select>
      </label>
      <OneField
        label="value that it reads"
        button="Rewire"
        names={names}
        start={dropped}
        done={(value) => {
          store.dropped.value = null;
          void edit(store, [{ name: "rewire", arguments: { node: id, input: input.value, value } }]);
        }}
      />
    </>
  );
}
