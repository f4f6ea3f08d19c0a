/** Everything that a person can do by name or key: the palette, the help sheet and the keyboard share this list. */

import type { Signal } from "@preact/signals";
import { offer, pngOf, svgOf } from "../canvas/export.ts";
import { lookOf } from "../canvas/look.ts";
import type { Viewer } from "../canvas/viewer.ts";
import { entries, resolve } from "../data/model.ts";
import { isGroup } from "../graph/tree.ts";
import { HEATS } from "./overlays.ts";
import type { Store } from "./store.ts";
import type { Theme } from "./theme.ts";
import { loadHeat } from "./heat.ts";
import { copy, paste } from "../edit/clipboard.ts";
import { edit, redo, save, undo } from "../edit/editing.ts";

export interface Action {
  readonly name: string;
  readonly keys?: string;
  readonly group: "Go" | "View" | "Graph" | "Edit" | "Export" | "Page";
  readonly run: () => unknown;
  /** Why it cannot be done now; null where it can. */
  readonly disabled?: string | null;
}

export interface Page {
  readonly store: Store;
  readonly theme: Theme;
  readonly dialog: Signal<"none" | "palette" | "help">;
  readonly viewer: () => Viewer | null;
  readonly focusSearch: () => void;
}

/** The list of actions for the state of this moment. */
export function actionsOf(page: Page): Action[] {
  return [...goActions(page), ...viewActions(page), ...graphActions(page), ...editActions(page), ...exportActions(page), ...pageActions(page)];
}

function goActions({ store, focusSearch }: Page): Action[] {
  return [
    { name: "Search", keys: "/", group: "Go", run: focusSearch },
    { name: "Back", keys: "Alt+Left", group: "Go", run: () => store.step(-1), disabled: store.historyState.value.back ? null : "There is nothing before this." },
    { name: "Forward", keys: "Alt+Right", group: "Go", run: () => store.step(1), disabled: store.historyState.value.forward ? null : "There is nothing after this." },
    { name: "To the node before (its first producer)", keys: "Up", group: "Go", run: () => walk(store, -1) },
    { name: "To the node after (its first reader)", keys: "Down", group: "Go", run: () => walk(store, 1) },
    { name: "To the neighbour on the left", keys: "Left", group: "Go", run: () => sideways(store, -1) },
    { name: "To the neighbour on the right", keys: "Right", group: "Go", run: () => sideways(store, 1) },
    { name: "Clear the selection", keys: "Escape", group: "Go", run: () => store.clearSelection() },
  ];
}

function viewActions({ store, viewer }: Page): Action[] {
  return [
    { name: "Show all of the graph", keys: "f", group: "View", run: () => viewer()?.fit() },
    { name: "Natural size", keys: "1", group: "View", run: () => viewer()?.zoomTo(1) },
    { name: "Zoom in", keys: "+", group: "View", run: () => viewer()?.zoomBy(1.3) },
    { name: "Zoom out", keys: "-", group: "View", run: () => viewer()?.zoomBy(1 / 1.3) },
    { name: "Show the selected box", keys: "c", group: "View", run: () => centre(store) },
    { name: "Left panel", keys: "[", group: "View", run: () => (store.showsLeft.value = !store.showsLeft.value) },
    { name: "Right panel", keys: "]", group: "View", run: () => (store.showsRight.value = !store.showsRight.value) },
    { name: "Weights in boxes", keys: "w", group: "View", run: () => (store.showsWeights.value = !store.showsWeights.value) },
    ...HEATS.map(([kind, name]) => ({ name: `Heat: ${name.toLowerCase()}`, group: "View" as const, run: () => loadHeat(store, kind) })),
  ];
}

function graphActions({ store }: Page): Action[] {
  return [
    { name: "Fold or unfold the selected group", keys: "Enter", group: "Graph", run: () => fold(store, false) },
    { name: "Fold or unfold it and those that are built like it", keys: "Shift+Enter", group: "Graph", run: () => fold(store, true) },
    { name: "Unfold everything", keys: "e", group: "Graph", run: () => store.toggleAll(true) },
    { name: "Fold everything", keys: "Shift+E", group: "Graph", run: () => store.toggleAll(false) },
    { name: "To the main graph", keys: "Home", group: "Graph", run: () => store.enter(0) },
  ];
}

function editActions({ store }: Page): Action[] {
  const readOnly = store.entry.value?.editable ? null : "Start `intaglio view --edit MODEL` to change the model.";
  return [
    { name: "Undo", keys: "Ctrl+Z", group: "Edit", run: () => undo(store), disabled: readOnly ?? (store.undoText.value ? null : "There is nothing to undo.") },
    { name: "Redo", keys: "Ctrl+Shift+Z", group: "Edit", run: () => redo(store), disabled: readOnly ?? (store.redoText.value ? null : "There is nothing to redo.") },
    { name: "Save", keys: "Ctrl+S", group: "Edit", run: () => save(store), disabled: readOnly },
    { name: "Copy the selected nodes", keys: "Ctrl+C", group: "Edit", run: () => copy(store), disabled: readOnly },
    { name: "Paste", keys: "Ctrl+V", group: "Edit", run: () => paste(store), disabled: readOnly },
    { name: "Delete the selected nodes", keys: "Delete", group: "Edit", run: () => remove(store), disabled: readOnly },
    { name: "Edit", group: "Edit", run: () => open(store, "edit"), disabled: readOnly },
  ];
}

function exportActions({ store, theme }: Page): Action[] {
  const name = () => store.model.value?.file || "model";
  const svg = () => store.scene.value && offer(`${name()}.svg`, new Blob([svgOf(store.scene.value, theme.palette.value, store.face, name())], { type: "image/svg+xml" }));
  const png = async () => store.scene.value && offer(`${name()}.png`, await pngOf(store.scene.value, theme.palette.value, lookOf(store)));
  return [
    { name: "Picture as SVG", group: "Export", run: svg },
    { name: "Picture as PNG", group: "Export", run: () => png().catch((error) => store.fail(error)) },
    { name: "Generated source beside the graph", group: "Export", run: () => open(store, "source"), disabled: store.source.missing("source") },
  ];
}

function pageActions({ store, theme, dialog }: Page): Action[] {
  return [
    { name: "All actions", keys: "Ctrl+K", group: "Page", run: () => (dialog.value = "palette") },
    { name: "Keys", keys: "?", group: "Page", run: () => (dialog.value = "help") },
    { name: "Dark or light", keys: "d", group: "Page", run: () => theme.toggle() },
    { name: "Tools", group: "Page", run: () => open(store, "tools"), disabled: store.source.missing("tools") },
    { name: "Run the model", keys: "r", group: "Page", run: () => open(store, "run"), disabled: store.source.missing("run") },
    { name: "Compare two models", group: "Page", run: () => open(store, "diff"), disabled: store.source.missing("diff") },
  ];
}

function open(store: Store, panel: Store["panel"]["value"]): void {
  store.showsRight.value = true;
  store.panel.value = panel;
}

function remove(store: Store): unknown {
  const ids = [...store.picked.value];
  return ids.length ? edit(store, ids.map((node) => ({ name: "delete_node", arguments: { node } }))) : store.say("Select nodes first.");
}

function centre(store: Store): void {
  const selected = store.selected.value;
  const box = selected?.kind === "group" ? selected.box : [...store.boxesOf(store.picked.value)][0];
  if (box !== undefined) store.reveal(box, "centre");
}

function fold(store: Store, all: boolean): void {
  const selected = store.selected.value;
  const tree = store.tree.value;
  if (!tree) return;
  if (selected?.kind === "group") return void store.toggle(selected.box, all);
  const box = selected?.kind === "node" ? tree.boxOfNode.get(selected.id) : undefined;
  if (box === undefined) return;
  if (isGroup(tree, box)) return void store.toggle(box, all);
  const outer = tree.parent[box]!;
  if (outer > 0) void store.toggle(outer, all).then(() => store.selectGroup(outer));
}

/** Select the first producer or reader of the selected node. */
function walk(store: Store, direction: number): void {
  const model = store.model.value;
  const selected = store.selected.value;
  if (!model) return;
  if (selected?.kind !== "node") {
    const first = store.graph?.nodes.id[0];
    if (first !== undefined) void store.selectNode(first);
    return;
  }
  const place = model.placeOfNode.get(selected.id)!;
  const graph = model.graphs[place.graph]!;
  const values = entries(direction < 0 ? graph.nodes.inputs : graph.nodes.outputs, place.index);
  for (const value of values) {
    if (value < 0) continue;
    const at = resolve(model, graph, value);
    const node = direction < 0 ? at.graph.values.maker[at.value]! : (entries(at.graph.values.readers, at.value)[0] ?? -1);
    if (node >= 0) return void store.selectNode(at.graph.nodes.id[node]!);
  }
}

/** Select the next box to the left or right at about the same height. */
function sideways(store: Store, direction: number): void {
  const scene = store.scene.value;
  const tree = store.tree.value;
  const model = store.model.value;
  const from = [...store.boxesOf(store.picked.value)][0];
  const place = from === undefined ? undefined : scene?.placeOfBox.get(from);
  if (!scene || !tree || !model || place === undefined) return;
  const { picture } = scene;
  const y = picture.y[place]! + picture.height[place]! / 2;
  let nearest = Infinity;
  let found = -1;
  for (const leaf of scene.leafPlaces) {
    const gap = (picture.x[leaf]! - picture.x[place]!) * direction;
    if (gap <= 0 || gap >= nearest || picture.y[leaf]! > y + 30 || picture.y[leaf]! + picture.height[leaf]! < y - 30) continue;
    nearest = gap;
    found = picture.box[leaf]!;
  }
  if (found >= 0) {
    store.selectBox(found);
    store.reveal(found, "if needed");
  }
}
