/** The lower edge of the page: counts and zoom; and notices over the canvas. */

import { useEffect } from "preact/hooks";
import { useSignal } from "@preact/signals";
import type { Page } from "../app/actions.ts";
import { ServerSource } from "../data/server.ts";
import { Icon } from "./Icon.tsx";

export function Status({ page }: { page: Page }) {
  const { store } = page;
  const model = store.model.value;
  const faults = model?.faults.length ?? 0;
  const next = () => {
    const ids = model!.faults.flatMap((fault) => (fault.node === null ? [] : [fault.node]));
    const selected = store.selected.value;
    const at = selected?.kind === "node" ? ids.indexOf(selected.id) : -1;
    const id = ids[(at + 1) % ids.length];
    if (id !== undefined) void store.selectNode(id, "centre");
    else store.clearSelection();
  };
  return (
    <footer class="status">
      {model && (
        <>
          <span>
            {model.nodeCount.toLocaleString("en")} nodes · {(store.scene.value?.leafPlaces.length ?? 0).toLocaleString("en")} boxes shown
          </span>
          {faults > 0 && (
            <button class="faults" onClick={next}>
              {faults} {faults === 1 ? "fault" : "faults"}
            </button>
          )}
        </>
      )}
      <span class="space" />
      {store.busy.value && <span role="status">{store.busy.value}…</span>}
      <Zoom page={page} />
    </footer>
  );
}

function Zoom({ page }: { page: Page }) {
  return (
    <span class="pair">
      <button class="icon" aria-label="Zoom out" title="Zoom out  -" onClick={() => page.viewer()?.zoomBy(1 / 1.3)}>
        <Icon name="minus" />
      </button>
      <button class="icon" aria-label="Show all of the graph" title="Show all  f" onClick={() => page.viewer()?.fit()}>
        <Icon name="fit" />
      </button>
      <button class="icon" aria-label="Zoom in" title="Zoom in  +" onClick={() => page.viewer()?.zoomBy(1.3)}>
        <Icon name="plus" />
      </button>
    </span>
  );
}

/** What is loading, missing or wrong, over the canvas. */
export function Notices({ page }: { page: Page }) {
  const { store } = page;
  const model = store.model.value;
  const isEmpty = model !== null && store.scene.value !== null && store.scene.value.leafPlaces.length === 0;
  const connection = store.source instanceof ServerSource ? store.source.connection.value : "fine";
  return (
    <>
      {store.failure.value && <Card title="The model could not be shown" text={store.failure.value} />}
      {!model && !store.failure.value && (
        <div class="loading" role="status">
          <span class="spinner" aria-hidden="true" />
          {store.busy.value ?? "Opening"}…
        </div>
      )}
      {isEmpty && <Card title="This graph has no nodes" text="" />}
      {connection === "lost" && (
        <p class="banner" role="alert">
          The server does not answer. This page goes on by itself when it is back; what you typed stays.
        </p>
      )}
      {connection === "refused" && (
        <p class="banner" role="alert">
          The server does not know this page. Open the address that <code>intaglio view</code> printed.
        </p>
      )}
      <Toast page={page} />
    </>
  );
}

function Card({ title, text }: { title: string; text: string }) {
  return (
    <div class="card notice" role="alert">
      <h2>{title}</h2>
      {text && <p>{text}</p>}
    </div>
  );
}

function Toast({ page }: { page: Page }) {
  const { message } = page.store;
  const held = useSignal(false);
  const shown = message.value;
  useEffect(() => {
    if (!shown || held.value) return;
    const timer = setTimeout(() => (message.value = null), shown.isFault ? 12_000 : 4_000);
    return () => clearTimeout(timer);
  }, [shown, held.value, message, held]);
  if (!shown) return null;
  return (
    <div class={`toast${shown.isFault ? " fault" : ""}`} role={shown.isFault ? "alert" : "status"} onMouseEnter={() => (held.value = true)} onMouseLeave={() => (held.value = false)}>
      <div>
        <p>{shown.text}</p>
        {shown.remedy && <p class="quiet">{shown.remedy}</p>}
      </div>
      <button class="icon" aria-label="Close" onClick={() => (message.value = null)}>
        <Icon name="close" />
      </button>
    </div>
  );
}
