/** Changes to a model: each is a command that the server knows; the answer is what the page shows. */

import type { EditCommand, EditResult } from "../data/protocol.ts";
import { SourceError } from "../data/source.ts";
import type { Store } from "../app/store.ts";

/** Apply commands as one step. Returns whether it worked; what went wrong is shown. */
export async function edit(store: Store, commands: EditCommand[]): Promise<boolean> {
  return attempt(store, () => store.source.edit(store.modelId.value, store.revision.value, commands));
}

/** Take the last step back. */
export function undo(store: Store): Promise<boolean> {
  return attempt(store, () => store.source.undo(store.modelId.value, false), store.undoText.value ? `Undone: ${store.undoText.value}` : undefined);
}

/** Do again what was taken back. */
export function redo(store: Store): Promise<boolean> {
  return attempt(store, () => store.source.undo(store.modelId.value, true), store.redoText.value ? `Done again: ${store.redoText.value}` : undefined);
}

async function attempt(store: Store, act: () => Promise<EditResult>, said?: string): Promise<boolean> {
  try {
    const result = await act();
    await store.changed(result);
    const fault = result.faults[0];
    if (fault) store.say(`${result.faults.length} ${result.faults.length === 1 ? "fault" : "faults"}: ${fault.text}`, true);
    else if (said) store.say(said);
    return true;
  } catch (error) {
    if (error instanceof SourceError && error.status === 409) {
      await store.changed({ revision: -1, faults: [], changed: true, undo: store.undoText.value, redo: store.redoText.value, structure: await store.source.structure(store.modelId.value) });
      store.say("The model changed in another window. It was loaded again; nothing of yours was applied.", true);
    } else store.fail(error);
    return false;
  }
}

/** Save beside the model's file; asks before a file is written over. */
export async function save(store: Store, path: string | null = null, overwrite = false): Promise<void> {
  try {
    const saved = await store.source.save(store.modelId.value, path, overwrite);
    store.isDirty.value = false;
    store.say(`Saved as ${saved.path}`);
  } catch (error) {
    const exists = error instanceof SourceError && !overwrite && /exist|overwrite/i.test(`${error.message} ${error.remedy}`);
    if (exists && confirm(`${error.message}\n\nWrite over it?`)) return save(store, path, true);
    store.fail(error);
  }
}
