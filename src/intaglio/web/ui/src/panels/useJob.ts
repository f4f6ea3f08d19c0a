/** Long work of the server: its progress, its end, and a way to stop it. */

import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { describe } from "../app/store.ts";
import type { Progress } from "../data/source.ts";

export interface Job {
  readonly isRunning: Signal<boolean>;
  readonly part: Signal<number | null>;
  readonly note: Signal<string>;
  readonly fault: Signal<string>;
  readonly start: (work: (progress: Progress, stop: AbortSignal) => Promise<void>) => Promise<void>;
  readonly stop: () => void;
}

export function useJob(): Job {
  const isRunning = useSignal(false);
  const part = useSignal<number | null>(null);
  const note = useSignal("");
  const fault = useSignal("");
  const control = useRef<AbortController | null>(null);
  useEffect(() => () => control.current?.abort(), []);
  const start: Job["start"] = async (work) => {
    control.current?.abort();
    const own = new AbortController();
    control.current = own;
    isRunning.value = true;
    fault.value = "";
    note.value = "";
    part.value = null;
    const progress: Progress = (done, text) => {
      part.value = done;
      note.value = text ?? "";
    };
    try {
      await work(progress, own.signal);
    } catch (error) {
      if (control.current === own && !own.signal.aborted) fault.value = describe(error);
    } finally {
      if (control.current === own) isRunning.value = false;
    }
  };
  return { isRunning, part, note, fault, start, stop: () => control.current?.abort() };
}
