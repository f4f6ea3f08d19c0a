/** Tools as buttons. What a tool makes is opened as another model and can be compared with this one. */

import { useSignal } from "@preact/signals";
import type { Page } from "../app/actions.ts";
import type { ModelId } from "../data/source.ts";
import { compareWith } from "./comparing.ts";
import { JobView } from "./JobView.tsx";
import { useJob } from "./useJob.ts";

interface Option {
  readonly name: string;
  readonly label: string;
  readonly kind: "number" | "text" | "choice" | "flag";
  readonly value: string;
  readonly choices?: readonly string[];
}

interface Tool {
  readonly name: string;
  readonly title: string;
  readonly about: string;
  readonly options: readonly Option[];
}

const TOOLS: readonly Tool[] = [
  { name: "simplify", title: "Simplify", about: "Folds constants and fuses operators.", options: [{ name: "exact", label: "bits stay the same", kind: "flag", value: "" }] },
  {
    name: "make-dynamic",
    title: "Make dynamic",
    about: "Gives an axis of the inputs a name in place of a number.",
    options: [
      { name: "name", label: "name", kind: "text", value: "batch" },
      { name: "axis", label: "axis", kind: "number", value: "0" },
    ],
  },
  { name: "set-opset", title: "Set opset", about: "Writes the model in another version of the operators.", options: [{ name: "version", label: "version", kind: "number", value: "21" }] },
  { name: "set-dtype", title: "Set element type", about: "Computes in another floating-point type.", options: [{ name: "to", label: "type", kind: "choice", value: "float16", choices: ["float16", "bfloat16", "float32"] }] },
  { name: "prune", title: "Prune", about: "Takes out what no output needs.", options: [] },
  { name: "dedupe", title: "Dedupe", about: "Keeps one of equal constants and of nodes that do the same.", options: [] },
  { name: "inline", title: "Inline", about: "Puts functions in place of their calls.", options: [] },
  { name: "lint", title: "Lint", about: "Looks for what is wrong or wasteful.", options: [] },
];

interface Made {
  readonly tool: string;
  readonly model: ModelId | null;
  readonly report: unknown;
}

export function ToolsPanel({ page }: { page: Page }) {
  const { store } = page;
  const job = useJob();
  const made = useSignal<Made | null>(null);
  const use = (tool: Tool, options: Record<string, unknown>) =>
    job.start(async (progress, stop) => {
      const found = (await store.source.tool(store.modelId.value, tool.name, options, progress, stop)) as Omit<Made, "tool">;
      made.value = { tool: tool.title, ...found };
      store.models.value = await store.source.models();
    });
  return (
    <>
      <JobView job={job} />
      {made.value && <Result page={page} made={made.value} />}
      {TOOLS.map((tool) => (
        <ToolForm key={tool.name} tool={tool} isBusy={job.isRunning.value} use={use} />
      ))}
    </>
  );
}

function ToolForm({ tool, isBusy, use }: { tool: Tool; isBusy: boolean; use: (tool: Tool, options: Record<string, unknown>) => void }) {
  const values = useSignal<Record<string, string>>(Object.fromEntries(tool.options.map((option) => [option.name, option.value])));
  const set = (name: string, value: string) => (values.value = { ...values.value, [name]: value });
  const submit = (event: Event) => {
    event.preventDefault();
    const options = Object.fromEntries(
      tool.options.map(({ name, kind }) => [name, kind === "number" ? Number(values.value[name]) : kind === "flag" ? values.value[name] === "yes" : values.value[name]]),
    );
    use(tool, options);
  };
  return (
    <form class="tool form" onSubmit={submit}>
      <h3>{tool.title}</h3>
      <p class="quiet">{tool.about}</p>
      {tool.options.map((option) => (
        <label key={option.name}>
          <span>{option.label}</span>
          {option.kind === "choice" ? (
            <select value={values.value[option.name]} onChange={(event) => set(option.name, event.currentTarget.value)}>
              {option.choices!.map((choice) => (
                <option key={choice}>{choice}</option>
              ))}
            </select>
          ) : option.kind === "flag" ? (
            <input type="checkbox" onChange={(event) => set(option.name, event.currentTarget.checked ? "yes" : "")} />
          ) : option.kind === "number" ? (
            <input type="number" value={values.value[option.name]} onInput={(event) => set(option.name, event.currentTarget.value)} />
          ) : (
            <input type="text" value={values.value[option.name]} onInput={(event) => set(option.name, event.currentTarget.value)} />
          )}
        </label>
      ))}
      <button disabled={isBusy}>{tool.title}</button>
    </form>
  );
}

function Result({ page, made }: { page: Page; made: Made }) {
  const { store } = page;
  const rows = Array.isArray(made.report) ? (made.report as Record<string, unknown>[]) : null;
  return (
    <section class="cost" role="status">
      <strong>{made.tool}: done</strong>
      {made.model !== null && (
        <p class="buttons">
          <button onClick={() => void store.show(made.model!).catch((error) => store.fail(error))}>Open the result</button>
          <button onClick={() => void compareWith(store, made.model!)}>Compare</button>
        </p>
      )}
      {rows ? (
        <ul class="plain">
          {rows.length === 0 && <li class="quiet">Nothing was found.</li>}
          {rows.slice(0, 200).map((row, place) => (
            <li key={place}>
              {typeof row.id === "number" ? (
                <button class="link" onClick={() => void store.selectNode(row.id as number, "centre")}>
                  {String(row.text)}
                </button>
              ) : (
                String(row.text)
              )}
              <span class="quiet">{[row.severity, row.rule, row.remedy].filter(Boolean).join(" · ")}</span>
            </li>
          ))}
        </ul>
      ) : (
        made.report !== null && <pre>{reportText(made.report)}</pre>
      )}
    </section>
  );
}

/** A report as lines: names with their values, what is empty left out. */
export function reportText(report: unknown, indent = ""): string {
  if (report === null || typeof report !== "object") return String(report);
  const isEmpty = (each: unknown) => each === null || each === "" || (Array.isArray(each) && !each.length);
  if (Array.isArray(report)) return report.map((each) => `${indent}- ${reportText(each, `${indent}  `)}`).join("\n");
  return Object.entries(report)
    .filter(([, value]) => !isEmpty(value))
    .map(([name, value]) => (typeof value === "object" ? `${indent}${name}\n${reportText(value, `${indent}  `)}` : `${indent}${name}: ${String(value)}`))
    .join("\n");
}
