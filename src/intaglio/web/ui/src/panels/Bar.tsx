/** The bar at the top: which model, where in it, and the most used actions. */

import type { Page } from "../app/actions.ts";
import { loadHeat } from "../app/heat.ts";
import { HEATS, type HeatKind } from "../app/overlays.ts";
import type { PanelName } from "../app/store.ts";
import { redo, save, undo } from "../edit/editing.ts";
import { Icon } from "./Icon.tsx";

export function Bar({ page }: { page: Page }) {
  const { store, theme, dialog } = page;
  const history = store.historyState.value;
  return (
    <header class="bar">
      <button class="icon" aria-label="Left panel" aria-pressed={store.showsLeft.value} title="Left panel  [" onClick={() => (store.showsLeft.value = !store.showsLeft.value)}>
        <Icon name="left" />
      </button>
      <span class="brand" aria-hidden="true">
        Intaglio
      </span>
      <ModelChoice page={page} />
      <span class="pair">
        <button class="icon" aria-label="Back" title="Back  Alt+←" disabled={!history.back} onClick={() => void store.step(-1)}>
          <Icon name="back" />
        </button>
        <button class="icon" aria-label="Forward" title="Forward  Alt+→" disabled={!history.forward} onClick={() => void store.step(1)}>
          <Icon name="forward" />
        </button>
      </span>
      {store.entry.value?.editable && <EditButtons page={page} />}
      <span class="space" />
      <HeatChoice page={page} />
      <PanelButtons page={page} />
      <button class="icon" aria-label="All actions" title="All actions  Ctrl+K" onClick={() => (dialog.value = "palette")}>
        <Icon name="command" />
      </button>
      <button class="icon" aria-label={theme.palette.value.isDark ? "Light colours" : "Dark colours"} title="Dark or light  d" onClick={() => theme.toggle()}>
        <Icon name={theme.palette.value.isDark ? "sun" : "moon"} />
      </button>
      <button class="icon" aria-label="Keys" title="Keys  ?" onClick={() => (dialog.value = "help")}>
        <Icon name="help" />
      </button>
      <button class="icon" aria-label="Right panel" aria-pressed={store.showsRight.value} title="Right panel  ]" onClick={() => (store.showsRight.value = !store.showsRight.value)}>
        <Icon name="right" />
      </button>
    </header>
  );
}

function ModelChoice({ page }: { page: Page }) {
  const { store } = page;
  const models = store.models.value?.models ?? [];
  const model = store.model.value;
  if (models.length < 2) return <h1 class="file">{model?.file || model?.name || ""}</h1>;
  const choose = (value: string) => {
    const entry = models.find((each) => String(each.id) === value);
    if (entry) void store.show(entry.id).catch((error) => store.fail(error));
  };
  return (
    <select class="file" aria-label="Model" value={String(store.modelId.value)} onChange={(event) => choose(event.currentTarget.value)}>
      {models.map((each) => (
        <option key={each.id} value={String(each.id)}>
          {each.file || each.name}
        </option>
      ))}
    </select>
  );
}

function EditButtons({ page }: { page: Page }) {
  const { store } = page;
  return (
    <span class="pair">
      <button class="icon" aria-label="Undo" title={store.undoText.value ? `Undo: ${store.undoText.value}` : "Nothing to undo"} disabled={!store.undoText.value} onClick={() => void undo(store)}>
        <Icon name="undo" />
      </button>
      <button class="icon" aria-label="Redo" title={store.redoText.value ? `Redo: ${store.redoText.value}` : "Nothing to redo"} disabled={!store.redoText.value} onClick={() => void redo(store)}>
        <Icon name="redo" />
      </button>
      <button class="icon" aria-label="Save" title="Save  Ctrl+S" onClick={() => void save(store)}>
        <Icon name="save" />
        {store.isDirty.value && <span class="unsaved" />}
      </button>
    </span>
  );
}

function HeatChoice({ page }: { page: Page }) {
  const { store } = page;
  const kind = store.overlays.kind.value;
  return (
    <label class="choice" title="Colour boxes by a number">
      <Icon name="flame" />
      <select aria-label="Heat" value={kind} onChange={(event) => void loadHeat(store, event.currentTarget.value as HeatKind)}>
        {HEATS.map(([each, name]) => (
          <option key={each} value={each}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

const PANELS: readonly (readonly [PanelName, string, "run" | "tools" | "diff" | "source" | "edit"])[] = [
  ["run", "Run", "run"],
  ["tools", "Tools", "tools"],
  ["source", "Source", "source"],
  ["diff", "Compare", "diff"],
  ["edit", "Edit", "edit"],
];

function PanelButtons({ page }: { page: Page }) {
  const { store } = page;
  if (store.source.kind === "file") return null;
  return (
    <span class="segments" role="group" aria-label="Panels">
      {PANELS.map(([panel, name, feature]) => {
        const reason = feature === "edit" && !store.entry.value?.editable ? "Start `intaglio view --edit MODEL` to change the model." : store.source.missing(feature);
        const isShown = store.showsRight.value && store.panel.value === panel;
        const show = () => {
          store.showsRight.value = true;
          store.panel.value = isShown ? "details" : panel;
        };
        return (
          <button key={panel} aria-pressed={isShown} disabled={reason !== null} title={reason ?? name} onClick={show}>
            {name}
          </button>
        );
      })}
    </span>
  );
}
