/** The page begins here; in a worker the same script is the layout. */

import { signal } from "@preact/signals";
import { render } from "preact";
import { EmbeddedSource, embedded, type Source } from "../data/source.ts";
import { ServerSource, takeToken } from "../data/server.ts";
import { measureOf, ROW_SIZE, TITLE_SIZE } from "../graph/faces.ts";
import { LayoutClient } from "../layout/client.ts";
import { serveLayout } from "../layout/worker.ts";
import { SANS } from "../theme/palette.ts";
import { App } from "./App.tsx";
import { Store } from "./store.ts";
import { Theme } from "./theme.ts";

function measured(): (character: string, isTitle: boolean) => number {
  const context = document.createElement("canvas").getContext("2d")!;
  return (character, isTitle) => {
    context.font = isTitle ? `600 ${TITLE_SIZE}px ${SANS}` : `400 ${ROW_SIZE}px ${SANS}`;
    return context.measureText(character).width;
  };
}

function begin(): void {
  let source: Source;
  let address = location.hash.slice(1);
  const data = embedded(document);
  if (data) source = new EmbeddedSource(data);
  else {
    const { token, rest } = takeToken(location, sessionStorage);
    address = rest;
    history.replaceState(null, "", rest ? `#${rest}` : location.pathname);
    source = new ServerSource(token);
  }
  const script = document.getElementById("intaglio-script")?.textContent ?? null;
  const store = new Store(source, new LayoutClient(script), measureOf(measured()));
  const theme = new Theme();
  const dialog = signal<"none" | "palette" | "help">("none");
  render(<App store={store} theme={theme} dialog={dialog} />, document.getElementById("page")!);
  void store.start(address);
}

if (typeof document === "undefined") serveLayout(globalThis as unknown as DedicatedWorkerGlobalScope);
else begin();
