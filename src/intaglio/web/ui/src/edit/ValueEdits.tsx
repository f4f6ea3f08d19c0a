/** What can be done to the selected value, in its panel. */

import { useSignal } from "@preact/signals";
import type { Page } from "../app/actions.ts";
import { INITIALIZER, INPUT, OUTPUT } from "../data/model.ts";
import type { CommandJson } from "../data/protocol.ts";
import { useRemote } from "../panels/remote.ts";
import { CommandForm, title } from "./CommandForm.tsx";
import { edit } from "./editing.ts";

const FORMS: Record<number, readonly string[]> = {
  0: ["rename_value", "set_type", "set_dimension", "replace_by_constant"],
  [INPUT]: ["rename_value", "set_type", "set_dimension", "transpose_input"],
  [OUTPUT]: ["rename_value", "set_type", "set_dimension", "transpose_output"],
  [INITIALIZER]: ["rename_value", "set_initializer"],
};

export function ValueEdits({ page, name, kind, graph }: { page: Page; name: string; kind: number; graph: number }) {
  const { store } = page;
  const open = useSignal("");
  const commands = useRemote(() => store.source.commands(store.modelId.value), [store.modelId.value]);
  if (graph !== 0) return null;
  const command: CommandJson | undefined = commands.state === "done" ? commands.value.find((each) => each.name === open.value) : undefined;
  return (
    <div class="edits">
      <div class="buttons">
        {(FORMS[kind] ?? []).map((each) => (
          <button key={each} aria-expanded={open.value === each} onClick={() => (open.value = open.value === each ? "" : each)}>
            {title(each)}
          </button>
        ))}
        {kind === INPUT && (
          <button class="danger" onClick={() => void edit(store, [{ name: "remove_input", arguments: { name } }])}>
            Remove input
          </button>
        )}
        {kind === OUTPUT && (
          <button class="danger" onClick={() => void edit(store, [{ name: "remove_output", arguments: { name } }])}>
            Remove output
          </button>
        )}
        {kind === 0 && <button onClick={() => void edit(store, [{ name: "add_output", arguments: { name } }])}>Make it an output</button>}
        {kind === INITIALIZER && (
          <button class="danger" onClick={() => void edit(store, [{ name: "remove_initializer", arguments: { name } }])}>
            Remove
          </button>
        )}
      </div>
      {command && <CommandForm key={`${command.name}-${name}`} page={page} command={command} preset={{ name, value: name, old: name }} />}
    </div>
  );
}
