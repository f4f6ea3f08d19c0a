/** The page: bar, panels, canvas, and what lies over them. */

import type { Signal } from "@preact/signals";
import "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Viewer } from "../canvas/viewer.ts";
import { Bar } from "../panels/Bar.tsx";
import { HelpDialog, PaletteDialog } from "../panels/Dialogs.tsx";
import { Left } from "../panels/Left.tsx";
import { Right } from "../panels/Right.tsx";
import { Notices, Status } from "../panels/Status.tsx";
import { actionsOf, type Page } from "./actions.ts";
import { placeAt } from "./history.ts";
import { listenToKeys } from "./keys.ts";
import type { Store } from "./store.ts";
import type { Theme } from "./theme.ts";

export function App({ store, theme, dialog }: { store: Store; theme: Theme; dialog: Signal<"none" | "palette" | "help"> }) {
  const viewer = useRef<Viewer | null>(null);
  const page = useMemo<Page>(
    () => ({ store, theme, dialog, viewer: () => viewer.current, focusSearch: () => focusSearch(store) }),
    [store, theme, dialog],
  );
  useEffect(() => listenToKeys(page), [page]);
  useEffect(() => {
    const back = () => void store.goTo(placeAt(location.hash), "centre");
    addEventListener("popstate", back);
    return () => removeEventListener("popstate", back);
  }, [store]);
  useEffect(() => warnBeforeLeaving(store), [store]);
  useEffect(() => {
    const look = () => void store.look();
    addEventListener("focus", look);
    return () => removeEventListener("focus", look);
  }, [store]);
  const title = store.model.value?.file || store.model.value?.name;
  useEffect(() => {
    document.title = title ? `${title} · Intaglio` : "Intaglio";
  }, [title]);
  return (
    <div class="page">
      <Bar page={page} />
      <main class="work">
        {store.showsLeft.value && <Left page={page} />}
        <Stage page={page} viewer={viewer} />
        {store.showsRight.value && <Right page={page} />}
      </main>
      <Status page={page} />
      {dialog.value === "palette" && <PaletteDialog page={page} actions={actionsOf(page)} />}
      {dialog.value === "help" && <HelpDialog page={page} actions={actionsOf(page)} />}
    </div>
  );
}

function focusSearch(store: Store): void {
  store.showsLeft.value = true;
  requestAnimationFrame(() => document.getElementById("search")?.focus());
}

function warnBeforeLeaving(store: Store): () => void {
  const warn = (event: BeforeUnloadEvent) => {
    if (store.isDirty.value && store.source.kind === "server") event.preventDefault();
  };
  addEventListener("beforeunload", warn);
  return () => removeEventListener("beforeunload", warn);
}

function Stage({ page, viewer }: { page: Page; viewer: { current: Viewer | null } }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const map = useRef<HTMLCanvasElement>(null);
  const { store, theme } = page;
  useEffect(() => {
    const made = new Viewer(canvas.current!, map.current!, store, () => theme.palette.value);
    viewer.current = made;
    return () => made.stop();
  }, [store, theme, viewer]);
  const model = store.model.value;
  const count = store.scene.value?.leafPlaces.length ?? 0;
  return (
    <section class="stage" aria-label="The graph">
      <canvas
        ref={canvas}
        id="graph"
        tabIndex={0}
        role="img"
        aria-label={model ? `The graph of ${model.file || model.name}: ${count} boxes. The list of nodes on the left has the same as text.` : "No graph yet"}
      />
      <Crumbs page={page} />
      <canvas ref={map} class="minimap" aria-hidden="true" title="The whole graph: click or drag to move" />
      <Notices page={page} />
    </section>
  );
}

/** The graphs around the shown one, and the way back. */
function Crumbs({ page }: { page: Page }) {
  const { store } = page;
  const model = store.model.value;
  const index = store.graphIndex.value;
  if (!model || index === 0) return null;
  const path: number[] = [];
  for (let at: number | undefined = index; at; ) {
    path.unshift(at);
    const owner: { node: number } | null = model.graphs[at]!.owner;
    at = owner ? model.placeOfNode.get(owner.node)?.graph : undefined;
  }
  return (
    <nav class="crumbs" aria-label="Where this graph is">
      <button onClick={() => void store.enter(0)}>Main graph</button>
      {path.map((each) => (
        <button key={each} aria-current={each === index ? "page" : undefined} onClick={() => void store.enter(each)}>
          {model.graphs[each]!.owner?.attribute ?? (model.graphs[each]!.name || "graph")}
        </button>
      ))}
    </nav>
  );
}
