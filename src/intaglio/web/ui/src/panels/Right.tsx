/** The panel on the right: details of what is selected, or one of the panels that act. */

import type { Page } from "../app/actions.ts";
import type { PanelName } from "../app/store.ts";
import { EditPanel } from "../edit/EditPanel.tsx";
import { Details } from "./Details.tsx";
import { DiffPanel } from "./DiffPanel.tsx";
import { Icon } from "./Icon.tsx";
import { RunPanel } from "./RunPanel.tsx";
import { SourcePanel } from "./SourcePanel.tsx";
import { ToolsPanel } from "./ToolsPanel.tsx";

const TITLES: Record<PanelName, string> = { details: "Details", tools: "Tools", run: "Run", diff: "Compare", source: "Source", edit: "Edit" };

export function Right({ page }: { page: Page }) {
  const { store } = page;
  const panel = store.panel.value;
  return (
    <aside class={`side right${panel === "source" ? " wide" : ""}`} aria-label={TITLES[panel]}>
      {panel !== "details" && (
        <div class="panel-head">
          <h2>{TITLES[panel]}</h2>
          <button class="icon" aria-label="Back to details" title="Back to details" onClick={() => (store.panel.value = "details")}>
            <Icon name="close" />
          </button>
        </div>
      )}
      <div class="panel-body" tabIndex={-1}>
        {panel === "details" && <Details page={page} />}
        {panel === "run" && <RunPanel page={page} />}
        {panel === "tools" && <ToolsPanel page={page} />}
        {panel === "diff" && <DiffPanel page={page} />}
        {panel === "source" && <SourcePanel page={page} />}
        {panel === "edit" && <EditPanel page={page} />}
      </div>
    </aside>
  );
}
