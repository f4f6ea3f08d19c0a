/** Numbers by node, shown as heat on the canvas: time, work, memory, or any that a person brings. */

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Compared } from "../panels/comparing.ts";
import type { ProfileJson, StatsJson } from "../data/protocol.ts";
import { isGroup, NODE } from "../graph/tree.ts";
import { ADDED, CHANGED, REMOVED } from "../canvas/painter.ts";
import type { Store } from "./store.ts";

export type HeatKind = "none" | "time" | "macs" | "parameters" | "bytes" | "custom";
export const HEATS: readonly (readonly [HeatKind, string])[] = [
  ["none", "No heat"],
  ["time", "Time (profile)"],
  ["macs", "Multiply-adds"],
  ["parameters", "Parameters"],
  ["bytes", "Bytes moved"],
  ["custom", "Numbers from a file"],
];

export interface Heat {
  /** From 0 to 1 by box, NaN where there is none. */
  readonly share: Float32Array;
  /** The number of each box and the sum of all. */
  readonly amount: Float64Array;
  readonly total: number;
}

export class Overlays {
  readonly kind: Signal<HeatKind> = signal("none");
  readonly profile: Signal<ProfileJson | null> = signal(null);
  readonly stats: Signal<StatsJson | null> = signal(null);
  readonly custom: Signal<ReadonlyMap<number, number> | null> = signal(null);
  readonly compared: Signal<Compared | null> = signal(null);
  readonly time: ReadonlySignal<ReadonlyMap<number, number> | null>;
  readonly numbers: ReadonlySignal<ReadonlyMap<number, number> | null>;
  readonly heat: ReadonlySignal<Heat | null>;
  readonly marks: ReadonlySignal<Uint8Array | null>;
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
    this.time = computed(() => (this.profile.value ? timeByNode(this.profile.value) : null));
    this.numbers = computed(() => this.byNode());
    this.heat = computed(() => this.byBox());
    this.marks = computed(() => this.changes());
  }

  clear(): void {
    this.kind.value = "none";
    this.profile.value = this.stats.value = this.custom.value = null;
  }

  private byNode(): ReadonlyMap<number, number> | null {
    const kind = this.kind.value;
    if (kind === "none") return null;
    if (kind === "time") return this.time.value;
    if (kind === "custom") return this.custom.value;
    const found = new Map<number, number>();
    for (const row of this.stats.value?.rows ?? []) {
      const amount = Number(row[kind]);
      if (row.id !== null && Number.isFinite(amount)) found.set(row.id, (found.get(row.id) ?? 0) + amount);
    }
    return found;
  }

  /** The sums of what is in each box; shares are of the hottest leaf, drawn along a root so that small ones are seen. */
  private byBox(): Heat | null {
    const numbers = this.numbers.value;
    const tree = this.store.tree.value;
    const model = this.store.model.value;
    if (!numbers || !tree || !model) return null;
    const amount = new Float64Array(tree.count).fill(NaN);
    let most = 0;
    let total = 0;
    for (let box = tree.count - 1; box > 0; box--) {
      if (tree.kind[box] === NODE) {
        const own = numbers.get(model.graphs[tree.graph[box]!]!.nodes.id[tree.item[box]!]!);
        if (own !== undefined) {
          amount[box] = (Number.isNaN(amount[box]!) ? 0 : amount[box]!) + own;
          total += own;
        }
      }
      if (Number.isNaN(amount[box]!)) continue;
      if (!isGroup(tree, box)) most = Math.max(most, amount[box]!);
      const outer = tree.parent[box]!;
      amount[outer] = (Number.isNaN(amount[outer]!) ? 0 : amount[outer]!) + amount[box]!;
    }
    const share = Float32Array.from(amount, (each) => (Number.isNaN(each) ? NaN : most > 0 ? Math.sqrt(Math.min(1, each / most)) : 0));
    return { share, amount, total };
  }

  private changes(): Uint8Array | null {
    const compared = this.compared.value;
    const tree = this.store.tree.value;
    const shown = this.store.modelId.value;
    if (!compared || !tree || (shown !== compared.a && shown !== compared.b)) return null;
    const { diff } = compared;
    const isFirst = shown === compared.a;
    const marks = new Uint8Array(tree.count);
    const mark = (id: number, kind: number) => {
      const box = tree.boxOfNode.get(id);
      for (let each = box ?? 0; each > 0; each = tree.parent[each]!) marks[each] = marks[each] && marks[each] !== kind ? CHANGED : kind;
    };
    for (const each of diff.nodes.changed) mark(isFirst ? each.a : each.b, CHANGED);
    for (const id of isFirst ? diff.nodes.removed : diff.nodes.added) mark(id, isFirst ? REMOVED : ADDED);
    return marks;
  }

  /** A number of the current kind for a person, with its share of all. */
  describe(amount: number, total: number): string {
    const kind = this.kind.value;
    const share = total > 0 ? ` · ${((100 * amount) / total).toFixed(amount / total < 0.0995 ? 1 : 0)} %` : "";
    const text = kind === "time" ? microseconds(amount) : kind === "bytes" ? bytes(amount) : short(amount);
    return `${text}${share}`;
  }
}

function timeByNode(profile: ProfileJson): Map<number, number> {
  const found = new Map<number, number>();
  for (const row of profile.rows) {
    const ids = row.id === null ? [] : Array.isArray(row.id) ? row.id : [row.id];
    for (const id of ids) found.set(id, (found.get(id) ?? 0) + row.us / ids.length);
  }
  return found;
}

/** A time for a person. */
export function microseconds(us: number): string {
  return us >= 1e6 ? `${(us / 1e6).toFixed(2)} s` : us >= 1e3 ? `${(us / 1e3).toFixed(2)} ms` : `${us.toFixed(us < 10 ? 1 : 0)} µs`;
}

/** A size for a person. */
export function bytes(size: number): string {
  const names = ["B", "kB", "MB", "GB", "TB"];
  let place = 0;
  let left = size;
  while (left >= 1000 && place + 1 < names.length) {
    left /= 1000;
    place++;
  }
  return `${place && left < 100 ? left.toFixed(1) : Math.round(left)} ${names[place]}`;
}

/** A count for a person: 1.2 M. */
export function short(count: number): string {
  const names = ["", " k", " M", " G", " T"];
  let place = 0;
  let left = count;
  while (Math.abs(left) >= 1000 && place + 1 < names.length) {
    left /= 1000;
    place++;
  }
  return `${Number.isInteger(left) && !place ? left : Number(left.toPrecision(3))}${names[place]}`;
}
