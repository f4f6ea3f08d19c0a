/** The source that is made of the model, beside the graph: the lines of the selected node are lit. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { offer } from "../canvas/export.ts";
import type { Page } from "../app/actions.ts";
import { JobView } from "./JobView.tsx";
import { useJob } from "./useJob.ts";

const LANGUAGES: readonly (readonly [string, string])[] = [
  ["native", "C that runs here"],
  ["c", "C to take away"],
  ["torch", "PyTorch"],
  ["python", "NumPy"],
  ["zig", "Zig"],
];
const MOST_LINES = 4000;

interface SourceResult {
  readonly files: { name: string; text: string }[];
  readonly lines?: Record<string, [string, number, number]>;
}

export function SourcePanel({ page }: { page: Page }) {
  const { store } = page;
  const job = useJob();
  const to = useSignal("native");
  const result = useSignal<SourceResult | null>(null);
  const file = useSignal(0);
  const model = store.modelId.value;
  const revision = store.revision.value;
  useEffect(() => {
    result.value = null;
    void job.start(async (progress, stop) => {
      result.value = (await store.source.sourceCode(model, to.value, progress, stop)) as SourceResult;
      file.value = 0;
    });
  }, [to.value, model, revision]);
  const shown = result.value?.files[file.value];
  return (
    <>
      <div class="buttons">
        <select aria-label="Language" value={to.value} onChange={(event) => (to.value = event.currentTarget.value)}>
          {LANGUAGES.map(([name, title]) => (
            <option key={name} value={name}>
              {title}
            </option>
          ))}
        </select>
        {result.value && result.value.files.length > 1 && (
          <select aria-label="File" value={file.value} onChange={(event) => (file.value = Number(event.currentTarget.value))}>
            {result.value.files.map((each, place) => (
              <option key={each.name} value={place}>
                {each.name}
              </option>
            ))}
          </select>
        )}
        {shown && <button onClick={() => offer(shown.name, new Blob([shown.text]))}>Download</button>}
      </div>
      <JobView job={job} />
      {shown && <Code page={page} text={shown.text} lines={result.value?.lines} name={shown.name} />}
    </>
  );
}

function Code({ page, text, lines, name }: { page: Page; text: string; lines: SourceResult["lines"]; name: string }) {
  const { store } = page;
  const frame = useRef<HTMLDivElement>(null);
  const selected = store.selected.value;
  const range = selected?.kind === "node" && lines && Object.hasOwn(lines, String(selected.id)) ? lines[String(selected.id)] : undefined;
  const isHere = range !== undefined && range[0] === name;
  const all = text.split("\n");
  const first = isHere ? Math.max(0, Math.min(range[1] - 40, all.length - MOST_LINES)) : 0;
  useEffect(() => {
    frame.current?.querySelector(".hit")?.scrollIntoView({ block: "center" });
  }, [range, name, text]);
  return (
    <>
      {selected?.kind === "node" && lines && !range && <p class="quiet">No lines are known for this node: it was folded into others or only moves memory.</p>}
      <div class="code" ref={frame} tabIndex={0} role="region" aria-label={name} style={{ counterReset: `line ${first}` }}>
        {all.slice(first, first + MOST_LINES).map((line, place) => (
          <div key={first + place} class={isHere && first + place + 1 >= range[1] && first + place + 1 <= range[2] ? "hit" : ""}>
            {line}
          </div>
        ))}
      </div>
      {all.length > MOST_LINES && <p class="quiet">{all.length.toLocaleString("en")} lines; {MOST_LINES.toLocaleString("en")} are shown. The download has all.</p>}
    </>
  );
}
