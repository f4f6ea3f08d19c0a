/** Something asked of the source: waiting, there, or failed. */

import { useEffect, useState } from "preact/hooks";
import { describe } from "../app/store.ts";

export type Remote<T> = { readonly state: "waiting" } | { readonly state: "done"; readonly value: T } | { readonly state: "failed"; readonly reason: string };

/** Ask again whenever a key changes; answers to old questions are dropped. */
export function useRemote<T>(ask: () => Promise<T>, keys: readonly unknown[]): Remote<T> {
  const [remote, setRemote] = useState<Remote<T>>({ state: "waiting" });
  useEffect(() => {
    let isCurrent = true;
    setRemote({ state: "waiting" });
    ask().then(
      (value) => isCurrent && setRemote({ state: "done", value }),
      (error: unknown) => isCurrent && setRemote({ state: "failed", reason: describe(error) }),
    );
    return () => {
      isCurrent = false;
    };
  }, keys as unknown[]);
  return remote;
}
