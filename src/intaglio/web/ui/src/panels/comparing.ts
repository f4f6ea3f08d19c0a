/** Compares the shown model with another one. */

import type { Store } from "../app/store.ts";
import type { DiffJson } from "../data/protocol.ts";
import type { ModelId } from "../data/source.ts";

/** A difference with the two models that it is between. */
export interface Compared {
  readonly a: ModelId;
  readonly b: ModelId;
  readonly diff: DiffJson;
}

/** Ask how this model differs from another, and show it. */
export async function compareWith(store: Store, other: ModelId): Promise<void> {
  try {
    const a = store.modelId.value;
    const diff = await store.source.diff(a, other);
    store.overlays.compared.value = { a, b: other, diff };
    store.panel.value = "diff";
    store.showsRight.value = true;
  } catch (error) {
    store.fail(error);
  }
}
