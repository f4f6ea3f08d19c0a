/** What the page knows and shows. Panels read signals; everything that changes them is a method here. */

import { batch, computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { type Scene, sceneOf } from "../canvas/scene.ts";
import { decode, entries, type Graph, type Model, type Place, resolve, text } from "../data/model.ts";
import type { EditResult, ModelEntry, ModelsJson, StructureJson } from "../data/protocol.ts";
import { type ModelId, type Source, SourceError } from "../data/source.ts";
import { type Face, faceOf, type Measure, sizesOf } from "../graph/faces.ts";
import { allOpen, firstOpen, groupKey, revealing, shownBox, toggled, twins } from "../graph/folding.ts";
import { isGroup, NODE, type Tree, treeOf } from "../graph/tree.ts";
import type { LayoutClient } from "../layout/client.ts";
import { type Found, Search } from "../search/search.ts";
import { addressOf, History, placeAt, type Where } from "./history.ts";
import { Overlays } from "./overlays.ts";

export type Selected =
  | { readonly kind: "node"; readonly id: number }
  | { readonly kind: "value"; readonly graph: number; readonly index: number }
  | { readonly kind: "group"; readonly box: number };

export interface Message {
  readonly text: string;
  readonly remedy?: string;
  readonly isFault: boolean;
}

export type PanelName = "details" | "tools" | "run" | "diff" | "source" | "edit";
const NOTHING: Found = { nodes: [], values: [], milliseconds: 0 };

export class Store {
  readonly source: Source;
  readonly models: Signal<ModelsJson | null> = signal(null);
  readonly modelId: Signal<ModelId> = signal(0);
  readonly model: Signal<Model | null> = signal(null);
  readonly failure: Signal<string | null> = signal(null);
  readonly busy: Signal<string | null> = signal("Opening the model");
  readonly message: Signal<Message | null> = signal(null);
  readonly graphIndex: Signal<number> = signal(0);
  readonly scene: Signal<Scene | null> = signal(null);
  readonly selected: Signal<Selected | null> = signal(null);
  /** Ids of the nodes that were picked together; the selected one is among them. */
  readonly picked: Signal<ReadonlySet<number>> = signal(new Set());
  readonly hovered: Signal<number> = signal(-1);
  readonly query: Signal<string> = signal("");
  readonly panel: Signal<PanelName> = signal("details");
  readonly showsWeights: Signal<boolean> = signal(true);
  readonly showsLeft: Signal<boolean> = signal(true);
  readonly showsRight: Signal<boolean> = signal(true);
  readonly revision: Signal<number> = signal(0);
  readonly undoText: Signal<string | null> = signal(null);
  readonly redoText: Signal<string | null> = signal(null);
  readonly isDirty: Signal<boolean> = signal(false);
  /** A value that was dragged onto a node, to be read by it. */
  readonly dropped: Signal<{ readonly node: number; readonly value: string } | null> = signal(null);
  readonly layoutTime: Signal<number> = signal(0);
  /** Types for sizes that were typed in, by the names of values. */
  readonly typed: Signal<Readonly<Record<string, string>>> = signal({});
  readonly historyState: Signal<{ back: boolean; forward: boolean }> = signal({ back: false, forward: false });
  readonly tree: Signal<Tree | null> = signal(null);
  readonly open: Signal<Uint8Array> = signal(new Uint8Array());
  readonly search: ReadonlySignal<Search | null>;
  readonly found: ReadonlySignal<Found>;
  readonly entry: ReadonlySignal<ModelEntry | null>;
  readonly overlays: Overlays;
  /** Set by the canvas: brings a box into view. */
  reveal: (box: number, how: "centre" | "if needed" | "keep") => void = () => undefined;
  /** Set by the canvas: keeps a box where it is on the screen over the next layout. */
  anchor: (box: number) => void = () => undefined;
  resetView: () => void = () => undefined;
  private readonly layout: LayoutClient;
  private readonly measure: Measure;
  private history = new History({ graph: 0 });
  private faces: (Face | undefined)[] = [];
  private layoutNumber = 0;

  constructor(source: Source, layout: LayoutClient, measure: Measure) {
    this.source = source;
    this.layout = layout;
    this.measure = measure;
    this.overlays = new Overlays(this);
    this.search = computed(() => (this.model.value ? new Search(this.model.value) : null));
    this.found = computed(() => {
      const query = this.query.value.trim();
      const found = query && this.search.value ? this.search.value.find(query, { cost: this.overlays.time.value }) : NOTHING;
      if (query) measured("search", found.milliseconds);
      return found;
    });
    this.entry = computed(() => this.models.value?.models.find((each) => each.id === this.modelId.value) ?? null);
    let shows = this.showsWeights.peek();
    effect(() => {
      if (this.showsWeights.value === shows) return;
      shows = this.showsWeights.value;
      void this.layOut(true);
    });
  }

  /** Load the list of models and the first of them, at the place that an address means. */
  async start(address: string): Promise<void> {
    try {
      this.models.value = await this.source.models();
      const first = this.models.value.models[0];
      if (!first) throw new SourceError("There is no model to show.");
      await this.show(first.id, placeAt(address));
    } catch (error) {
      this.failure.value = describe(error);
      this.busy.value = null;
    }
  }

  /** Show a model of the list. */
  async show(id: ModelId, where: Where = { graph: 0 }): Promise<void> {
    this.busy.value = "Reading the model";
    const json = await this.source.structure(id);
    this.busy.value = "Laying out the graph";
    await new Promise((done) => setTimeout(done));
    batch(() => {
      this.modelId.value = id;
      this.overlays.clear();
      this.typed.value = {};
      const entry = this.models.value?.models.find((each) => each.id === id);
      this.undoText.value = entry?.undo ?? null;
      this.redoText.value = entry?.redo ?? null;
      this.isDirty.value = entry?.saved === false;
    });
    this.use(json);
    const graph = this.model.value!.graphs[where.graph] ? where.graph : 0;
    this.history = new History({ graph });
    await this.enter(graph, false);
    this.resetView();
    this.busy.value = null;
    await this.goTo(where, "centre");
    const notices = this.entry.value?.notices ?? [];
    if (notices.length) this.say(notices.join("\n"));
    if (json.checked === false && this.source.kind === "server") void this.lookForFaults();
  }

  /** Large models are shown before anybody looked for faults. */
  private async lookForFaults(): Promise<void> {
    const { faults, revision } = await this.source.faults(this.modelId.value).catch(() => ({ faults: [], revision: -1 }));
    const model = this.model.value;
    if (model && faults.length && revision === this.revision.value) this.model.value = { ...model, faults };
  }

  /** Ask whether the model's file changed meanwhile; called when the page comes to the front. */
  async look(): Promise<void> {
    if (this.source.kind !== "server" || !this.model.value) return;
    const models = await this.source.models().catch(() => null);
    const entry = models?.models.find((each) => each.id === this.modelId.value);
    if (entry?.changed_on_disk && !this.entry.value?.changed_on_disk) this.say("The file was changed on disk meanwhile. Saving will not write over it without asking.", true);
    if (models) this.models.value = models;
  }

  private use(json: StructureJson): void {
    this.model.value = decode(json);
    this.revision.value = json.revision;
  }

  get graph(): Graph | null {
    return this.model.value?.graphs[this.graphIndex.value] ?? null;
  }

  /** Show a graph of the model by itself. */
  async enter(index: number, visits = true): Promise<void> {
    const model = this.model.value;
    const graph = model?.graphs[index];
    if (!model || !graph) return;
    const tree = treeOf(model, graph);
    batch(() => {
      this.graphIndex.value = index;
      this.tree.value = tree;
      this.open.value = firstOpen(tree);
      this.selected.value = null;
      this.picked.value = new Set();
    });
    await this.layOut(true);
    if (visits) {
      this.remember();
      this.resetView();
    }
  }

  /** What is written on a box; worked out when it is first drawn. */
  face = (box: number): Face => {
    const known = this.faces[box];
    if (known) return known;
    const face = faceOf(this.model.value!, this.tree.value!, box, { weights: this.showsWeights.value });
    this.faces[box] = face;
    return face;
  };

  private async layOut(isNew: boolean): Promise<void> {
    const tree = this.tree.value;
    const model = this.model.value;
    if (!tree || !model) return;
    const number = ++this.layoutNumber;
    const begin = performance.now();
    if (isNew) this.faces = new Array<Face | undefined>(tree.count);
    const answer = isNew
      ? await this.layout.graph(tree, sizesOf(model, tree, this.measure, { weights: this.showsWeights.value }), this.open.value)
      : await this.layout.open(this.open.value);
    if (number !== this.layoutNumber) return;
    this.layoutTime.value = performance.now() - begin;
    this.scene.value = sceneOf(answer.picture);
    measured("layout", answer.milliseconds);
    if (!isNew) measured("fold", this.layoutTime.value);
    (globalThis as Record<string, unknown>).intaglioTimes = { layout: answer.milliseconds, total: this.layoutTime.value };
  }

  /** Open or close a group; with `all`, those that are built like it too. */
  async toggle(box: number, all = false): Promise<void> {
    const tree = this.tree.value;
    const model = this.model.value;
    if (!tree || !model || !isGroup(tree, box)) return;
    this.anchor(box);
    let open = toggled(tree, this.open.value, box);
    if (all) for (const twin of twins(model, tree, box)) if (open[twin] !== open[box]) open = toggled(tree, open, twin);
    this.open.value = open;
    await this.layOut(false);
  }

  /** Open or close all groups. */
  async toggleAll(isOpen: boolean): Promise<void> {
    const tree = this.tree.value;
    if (!tree) return;
    this.open.value = allOpen(tree, isOpen);
    await this.layOut(false);
    this.resetView();
  }

  /** Go to the graph that a node is in, if it is another; returns whether the node is there. */
  private async graphOf(place: Place): Promise<void> {
    if (this.tree.value?.boxOfNode.has(this.model.value!.graphs[place.graph]!.nodes.id[place.index]!)) return;
    let graph = this.model.value!.graphs[place.graph]!;
    while (graph.kind === "body" && graph.owner) {
      const owner = this.model.value!.placeOfNode.get(graph.owner.node);
      if (!owner) break;
      graph = this.model.value!.graphs[owner.graph]!;
    }
    await this.enter(graph.index, false);
  }

  /** Select a node and bring it into view. */
  async selectNode(id: number, how: "centre" | "if needed" | "keep" = "if needed", adds = false): Promise<void> {
    const place = this.model.value?.placeOfNode.get(id);
    if (!place) return;
    await this.graphOf(place);
    const tree = this.tree.value!;
    const box = tree.boxOfNode.get(id)!;
    const picked = new Set(adds ? this.picked.value : []);
    if (adds && picked.has(id)) picked.delete(id);
    else picked.add(id);
    batch(() => {
      this.picked.value = picked;
      this.selected.value = picked.has(id) ? { kind: "node", id } : null;
      if (this.panel.value !== "source" && this.panel.value !== "edit") this.panel.value = "details";
    });
    await this.showBox(box, how);
    this.remember();
  }

  private async showBox(box: number, how: "centre" | "if needed" | "keep"): Promise<void> {
    const open = revealing(this.tree.value!, this.open.value, [box]);
    if (open !== this.open.value) {
      this.open.value = open;
      await this.layOut(false);
    }
    this.reveal(box, how);
  }

  /** Select a value; its maker or its first reader comes into view. */
  async selectValue(graphIndex: number, index: number, how: "centre" | "if needed" | "keep" = "keep"): Promise<void> {
    const model = this.model.value;
    const graph = model?.graphs[graphIndex];
    if (!model || !graph || index < 0 || index >= graph.values.count) return;
    const at = resolve(model, graph, index);
    batch(() => {
      this.picked.value = new Set();
      this.selected.value = { kind: "value", graph: at.graph.index, index: at.value };
      this.panel.value = "details";
    });
    const node = at.graph.values.maker[at.value]! >= 0 ? at.graph.values.maker[at.value]! : entries(at.graph.values.readers, at.value)[0];
    if (how !== "keep" && node !== undefined) {
      await this.graphOf({ graph: at.graph.index, index: node });
      const box = this.tree.value!.boxOfNode.get(at.graph.nodes.id[node]!);
      if (box !== undefined) await this.showBox(box, how);
    }
    this.remember();
  }

  selectGroup(box: number): void {
    batch(() => {
      this.picked.value = new Set();
      this.selected.value = { kind: "group", box };
      this.panel.value = "details";
    });
    this.remember();
  }

  /** Select what a box of the canvas stands for. */
  selectBox(box: number, adds = false): void {
    const tree = this.tree.value!;
    const graph = this.model.value!.graphs[tree.graph[box]!]!;
    if (tree.kind[box] === NODE) void this.selectNode(graph.nodes.id[tree.item[box]!]!, "keep", adds);
    else if (isGroup(tree, box) || tree.kind[box] === 2 || tree.kind[box] === 3) this.selectGroup(box);
    else void this.selectValue(graph.index, tree.item[box]!);
  }

  /** A box was dragged onto another: offer to let it read the first result of the box. */
  rewireByDrag(from: number, to: number): void {
    const tree = this.tree.value!;
    const model = this.model.value!;
    const graph = model.graphs[tree.graph[from]!]!;
    const target = model.graphs[tree.graph[to]!]!;
    if (tree.kind[to] !== NODE) return this.say("Drag onto a node: one of its inputs will read the value.");
    const isNode = tree.kind[from] === NODE;
    const value = isNode ? entries(graph.nodes.outputs, tree.item[from]!)[0] : tree.kind[from] === 4 ? tree.item[from] : undefined;
    if (value === undefined || value < 0) return this.say("Drag from a node or an input: its value is what will be read.");
    const node = target.nodes.id[tree.item[to]!]!;
    this.showsRight.value = true;
    this.panel.value = "details";
    void this.selectNode(node, "keep").then(() => (this.dropped.value = { node, value: text(model, graph.values.name[value]) }));
  }

  clearSelection(): void {
    batch(() => {
      this.selected.value = null;
      this.picked.value = new Set();
    });
    this.remember();
  }

  /** Where the page is now. */
  where(): Where {
    const graph = this.graphIndex.value;
    const selected = this.selected.value;
    const model = this.model.value;
    const tree = this.tree.value;
    if (!selected || !model || !tree) return { graph };
    if (selected.kind === "node") return { graph, node: selected.id };
    if (selected.kind === "group") return { graph, group: groupKey(model, tree, selected.box) };
    return { graph, value: text(model, model.graphs[selected.graph]!.values.name[selected.index]), valueGraph: selected.graph };
  }

  private remember(): void {
    if (this.history.visit(this.where())) this.tellAddress("push");
    this.historyState.value = { back: this.history.canGoBack, forward: this.history.canGoForward };
  }

  /** Frames without an address of their own refuse this; back and forward work without it. */
  private tellAddress(how: "push" | "replace"): void {
    try {
      const address = `#${addressOf(this.history.current)}`;
      if (how === "push") globalThis.history.pushState(null, "", address);
      else globalThis.history.replaceState(null, "", address);
    } catch {
      return;
    }
  }

  /** Go back (-1) or forward (1). */
  async step(by: number): Promise<void> {
    const where = this.history.go(by);
    if (!where) return;
    this.tellAddress("replace");
    await this.goTo(where, "centre");
    this.historyState.value = { back: this.history.canGoBack, forward: this.history.canGoForward };
  }

  /** Go to a place, such as one that an address means. */
  async goTo(where: Where, how: "centre" | "if needed"): Promise<void> {
    const model = this.model.value;
    if (!model) return;
    if (where.graph !== this.graphIndex.value && model.graphs[where.graph]) await this.enter(where.graph, false);
    if (where.node !== undefined) return this.selectNode(where.node, how);
    if (where.value !== undefined) {
      const graph = model.graphs[where.valueGraph ?? where.graph];
      const index = graph ? graph.values.name.findIndex((name) => text(model, name) === where.value) : -1;
      if (graph && index >= 0) return this.selectValue(graph.index, index, how);
    }
    if (where.group !== undefined) {
      const tree = this.tree.value!;
      for (let box = 1; box < tree.count; box++)
        if (isGroup(tree, box) && groupKey(model, tree, box) === where.group) {
          await this.showBox(box, how);
          return this.selectGroup(box);
        }
    }
    batch(() => {
      this.selected.value = null;
      this.picked.value = new Set();
    });
  }

  /** Take in what an edit, an undo or a redo changed. */
  async changed(result: EditResult): Promise<void> {
    const old = this.model.value;
    const tree = this.tree.value;
    const keys = new Set<string>();
    if (old && tree) for (let box = 1; box < tree.count; box++) if (this.open.value[box]) keys.add(groupKey(old, tree, box));
    this.revision.value = result.revision;
    this.undoText.value = result.undo;
    this.redoText.value = result.redo;
    if (!result.changed && !result.structure) return;
    this.isDirty.value = true;
    const json = result.structure ?? (await this.source.structure(this.modelId.value));
    const selected = this.selected.value;
    this.use({ ...json, faults: json.faults.length ? json.faults : result.faults });
    const model = this.model.value!;
    const graph = model.graphs[this.graphIndex.value] ?? model.graphs[0]!;
    const next = treeOf(model, graph);
    const open = new Uint8Array(next.count);
    for (let box = 1; box < next.count; box++) if (isGroup(next, box) && keys.has(groupKey(model, next, box))) open[box] = 1;
    batch(() => {
      this.graphIndex.value = graph.index;
      this.tree.value = next;
      this.open.value = open;
      this.picked.value = new Set([...this.picked.value].filter((id) => model.placeOfNode.has(id)));
      this.selected.value = selected?.kind === "node" && model.placeOfNode.has(selected.id) ? selected : null;
    });
    await this.layOut(true);
    const wanted = result.selection?.find((id) => model.placeOfNode.has(id));
    if (wanted !== undefined) await this.selectNode(wanted);
  }

  /** The boxes of the picture that stand for nodes: themselves or the closed groups that they are in. */
  boxesOf(ids: Iterable<number>): Set<number> {
    const tree = this.tree.value;
    const found = new Set<number>();
    if (tree)
      for (const id of ids) {
        const box = tree.boxOfNode.get(id);
        if (box !== undefined) found.add(shownBox(tree, this.open.value, box));
      }
    return found;
  }

  /** Say something at the lower edge of the page. */
  say(message: string, isFault = false, remedy?: string): void {
    this.message.value = { text: message, isFault, ...(remedy ? { remedy } : {}) };
  }

  /** Say why something failed. */
  fail(error: unknown): void {
    this.say(describe(error), true, error instanceof SourceError ? error.remedy : undefined);
  }
}

/** Leave a time where the browser's own tools show it. */
function measured(what: string, milliseconds: number): void {
  const end = performance.now();
  performance.measure(`intaglio:${what}`, { start: Math.max(0, end - milliseconds), end });
}

/** The text of an error for a person. */
export function describe(error: unknown): string {
  if (error instanceof SourceError) return [error.message, error.where].filter(Boolean).join(" — ");
  return error instanceof Error ? error.message : String(error);
}
