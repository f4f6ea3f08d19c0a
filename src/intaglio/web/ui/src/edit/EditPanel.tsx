/** Everything that changes a model: add a node by its schema, any command by its form, the script, save. */

import { useSignal } from "@preact/signals";
import { offer } from "../canvas/export.ts";
import type { Page } from "../app/actions.ts";
import { describe } from "../app/store.ts";
import { useRemote } from "../panels/remote.ts";
import { AddNode } from "./AddNode.tsx";
import { CommandForm, title } from "./CommandForm.tsx";
import { edit, save } from "./editing.ts";

export function EditPanel({ page }: { page: Page }) {
  const { store } = page;
  const commands = useRemote(() => store.source.commands(store.modelId.value), [store.modelId.value]);
  const chosen = useSignal("insert_node");
  const all = commands.state === "done" ? commands.value : [];
  const command = all.find((each) => each.name === chosen.value);
  return (
    <>
      <section>
        <label class="form">
          <span class="quiet">What to do</span>
          <select value={chosen.value} onChange={(event) => (chosen.value = event.currentTarget.value)}>
            {all.map((each) => (
              <option key={each.name} value={each.name}>
                {title(each.name)}
              </option>
            ))}
          </select>
        </label>
        {commands.state === "failed" && <p class="bad">{commands.reason}</p>}
        {chosen.value === "insert_node" ? <AddNode page={page} /> : command && <CommandForm key={command.name} page={page} command={command} preset={presetOf(page)} />}
      </section>
      <OpenAnother page={page} />
      <SaveForm page={page} />
    </>
  );
}

/** The selected node, value or input fills the fields that ask for one. */
function presetOf(page: Page): Record<string, string> {
  const { store } = page;
  const selected = store.selected.value;
  const model = store.model.value!;
  if (selected?.kind === "node") return { node: String(selected.id) };
  if (selected?.kind !== "value") return {};
  const name = model.strings[model.graphs[selected.graph]!.values.name[selected.index]!] ?? "";
  return { name, value: name, old: name };
}

/** Open another model for `merge` and `copy part`, and for pasting. */
function OpenAnother({ page }: { page: Page }) {
  const { store } = page;
  const take = async (input: HTMLInputElement) => {
    const file = input.files?.[0];
    if (!file) return;
    try {
      await store.source.upload(file.name, file);
      store.models.value = await store.source.models();
      store.say(`${file.name} is open: it can be compared, merged or copied from.`);
    } catch (error) {
      store.fail(error);
    }
  };
  return (
    <section>
      <h3>Another model</h3>
      <label class="form">
        <span class="hint">Open a file to merge with, to copy from, or to compare.</span>
        <input type="file" accept=".onnx" onChange={(event) => void take(event.currentTarget)} />
      </label>
    </section>
  );
}

function SaveForm({ page }: { page: Page }) {
  const { store } = page;
  const path = useSignal("");
  const script = async () => {
    try {
      const made = await store.source.script(store.modelId.value);
      offer(made.name, new Blob([made.text], { type: "text/x-python" }));
      if (made.arrays) offer(made.name.replace(/\.py$/, ".npz"), new Blob([Uint8Array.from(atob(made.arrays), (each) => each.charCodeAt(0))]));
    } catch (error) {
      store.say(describe(error), true);
    }
  };
  const download = async () => {
    try {
      offer(store.entry.value?.file || "model.onnx", await store.source.download(store.modelId.value));
    } catch (error) {
      store.fail(error);
    }
  };
  return (
    <section>
      <h3>Save</h3>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void save(store, path.value.trim() || null);
        }}
      >
        <label>
          <span>file beside the model (a new name where this is empty)</span>
          <input type="text" spellcheck={false} value={path.value} onInput={(event) => (path.value = event.currentTarget.value)} />
        </label>
        <div class="buttons">
          <button class="primary">Save</button>
          <button type="button" onClick={() => void download()}>
            Download
          </button>
          <button type="button" onClick={() => void script()}>
            Edits as a Python script
          </button>
          <button type="button" onClick={() => void edit(store, [{ name: "infer_types", arguments: {} }])}>
            Infer types
          </button>
        </div>
      </form>
    </section>
  );
}
