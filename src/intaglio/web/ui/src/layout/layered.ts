/**
 * A layered layout: every edge goes down, from layer to layer. The same method as `intaglio.tools.drawing.layered`, cut in
 * two: `orderLayers` depends on edges only and is kept while scopes fold; `placeLayers` depends on sizes and is cheap.
 * Both have a fixed number of sweeps, each of them linear in boxes, edges and the layers that edges cross.
 */

export const LONGEST_CHAIN = 256;

export interface Edges {
  readonly source: Int32Array;
  readonly target: Int32Array;
}

export interface Wires {
  /** Edges of one source and one bundle share a line. */
  readonly bundle?: Int32Array | undefined;
  /** Boxes that lie above all others, and below. */
  readonly first?: Uint8Array | undefined;
  readonly last?: Uint8Array | undefined;
}

export interface Spacing {
  readonly beside: number;
  readonly between: number;
  readonly point: number;
  readonly orderSweeps: number;
  readonly placeSweeps: number;
  /** Whether chains of boxes with one neighbour on each side become upright where there is room, and layers without boxes take none. */
  readonly straightens: boolean;
}

export const SPACING: Spacing = { beside: 20, between: 34, point: 10, orderSweeps: 8, placeSweeps: 8, straightens: true };

/** Lists of numbers by number, in one array. */
export interface Lists {
  readonly start: Int32Array;
  readonly items: Int32Array;
}

/** Which vertex is in which layer, in which order. The first `boxes` vertices are boxes, the others points of edges. */
export interface Ordering {
  readonly boxes: number;
  readonly layer: Int32Array;
  readonly turned: Uint8Array;
  readonly edges: Edges;
  readonly joins: Joins;
  readonly above: Lists;
  readonly below: Lists;
  readonly members: Lists;
  /** The first point of the chain of each edge and their number. */
  readonly chain: Int32Array;
  readonly chainLength: Int32Array;
}

/** Pieces of edges between neighbouring layers. `edge` is the edge that first needed the piece. */
interface Joins {
  readonly upper: Int32Array;
  readonly lower: Int32Array;
  readonly edge: Int32Array;
}

export interface Layout {
  /** The centre of each box. */
  readonly x: Float64Array;
  readonly y: Float64Array;
  /** x and y of the points of all edges, and where those of each edge begin. */
  readonly points: Float64Array;
  readonly pointStart: Int32Array;
  readonly width: number;
  readonly height: number;
}

/** Whether each edge closes a cycle, in a search from the first box on. */
export function backEdges(count: number, edges: Edges): Uint8Array {
  const leaving = listsBy(count, edges.source);
  const turned = new Uint8Array(edges.source.length);
  const state = new Uint8Array(count);
  const stack = new Int32Array(count + 1);
  const next = leaving.start.slice(0, count);
  for (let root = 0; root < count; root++) {
    if (state[root]) continue;
    let top = 0;
    stack[0] = root;
    state[root] = 1;
    while (top >= 0) {
      const box = stack[top]!;
      if (next[box]! >= leaving.start[box + 1]!) {
        state[box] = 2;
        top--;
        continue;
      }
      const edge = leaving.items[next[box]!++]!;
      const target = edges.target[edge]!;
      if (state[target] === 1) turned[edge] = target !== box ? 1 : 0;
      else if (state[target] === 0) {
        state[target] = 1;
        stack[++top] = target;
      }
    }
  }
  return turned;
}

/** The layer of each box of a graph without cycles: below all that it reads, and near to its readers. */
export function layersOf(count: number, edges: Edges, wires: Wires = {}): Int32Array {
  const { first, last } = wires;
  const real = new Int32Array(edges.source.length);
  for (let edge = 0; edge < real.length; edge++) real[edge] = edges.source[edge] === edges.target[edge] ? -1 : edges.source[edge]!;
  const below = listsBy(count, real);
  const reads = new Int32Array(count);
  for (let edge = 0; edge < real.length; edge++) if (real[edge]! >= 0) reads[edges.target[edge]!]!++;
  const layer = new Int32Array(count);
  const hasFirst = first !== undefined && first.includes(1);
  if (hasFirst) for (let box = 0; box < count; box++) layer[box] = first[box] ? 0 : 1;
  const order = topological(count, edges, below, reads, layer);
  for (let place = order.length - 1; place >= 0; place--) {
    const box = order[place]!;
    const begin = below.start[box]!;
    const end = below.start[box + 1]!;
    if (end === begin || first?.[box] || reads[box]! >= end - begin + (reads[box]! <= 1 ? 1 : 0)) continue;
    let nearest = Infinity;
    for (let item = begin; item < end; item++) nearest = Math.min(nearest, layer[edges.target[below.items[item]!]!]!);
    layer[box] = Math.max(layer[box]!, nearest - 1);
  }
  if (last !== undefined && last.includes(1)) {
    const lowest = layer.reduce((most, each) => Math.max(most, each), 0) + 1;
    for (let box = 0; box < count; box++) if (last[box]) layer[box] = lowest;
  }
  return layer;
}

/** Boxes so that producers come first; moves `layer` below what each box reads. */
function topological(count: number, edges: Edges, below: Lists, reads: Int32Array, layer: Int32Array): Int32Array {
  const waiting = reads.slice();
  const order = new Int32Array(count);
  let filled = 0;
  for (let box = 0; box < count; box++) if (waiting[box] === 0) order[filled++] = box;
  for (let place = 0; place < filled; place++) {
    const box = order[place]!;
    for (let item = below.start[box]!; item < below.start[box + 1]!; item++) {
      const target = edges.target[below.items[item]!]!;
      if (layer[target]! <= layer[box]!) layer[target] = layer[box]! + 1;
      if (--waiting[target]! === 0) order[filled++] = target;
    }
  }
  return order.subarray(0, filled);
}

/** The layers of boxes and the order in each: all that does not depend on sizes. */
export function orderLayers(count: number, edges: Edges, wires: Wires = {}, sweeps = SPACING.orderSweeps): Ordering {
  const turned = backEdges(count, edges);
  const forward = { source: edges.source.slice(), target: edges.target.slice() };
  for (let edge = 0; edge < turned.length; edge++) {
    if (!turned[edge]) continue;
    forward.source[edge] = edges.target[edge]!;
    forward.target[edge] = edges.source[edge]!;
  }
  const cut = cutEdges(count, layersOf(count, forward, wires), forward, wires.bundle);
  const above = listsOf(cut.layer.length, cut.joins.lower, cut.joins.upper);
  const below = listsOf(cut.layer.length, cut.joins.upper, cut.joins.lower);
  const members = firstMembers(cut.layer, above, below);
  const ordering = { boxes: count, turned, edges: forward, above, below, members, ...cut };
  sweepOrder(ordering, sweeps);
  return ordering;
}

interface Cut {
  layer: Int32Array;
  joins: Joins;
  chain: Int32Array;
  chainLength: Int32Array;
}

/** Chains of points where edges cross layers; edges of one source and bundle share one. */
function cutEdges(count: number, layerOfBox: Int32Array, edges: Edges, bundle: Int32Array | undefined): Cut {
  const total = edges.source.length;
  const keys = chainKeys(edges, bundle);
  const longest = new Int32Array(keys.count);
  const chain = new Int32Array(total);
  const chainLength = new Int32Array(total);
  for (let edge = 0; edge < total; edge++) {
    const span = layerOfBox[edges.target[edge]!]! - layerOfBox[edges.source[edge]!]!;
    if (span < 2 || span > LONGEST_CHAIN) continue;
    chainLength[edge] = span - 1;
    const key = keys.key[edge]!;
    longest[key] = Math.max(longest[key]!, span - 1);
  }
  const firstPoint = new Int32Array(keys.count);
  let vertices = count;
  for (let key = 0; key < keys.count; key++) {
    firstPoint[key] = vertices;
    vertices += longest[key]!;
  }
  const layer = new Int32Array(vertices);
  layer.set(layerOfBox);
  const joins = joinChains(edges, layer, keys.key, firstPoint, vertices, keys.count, chainLength, chain);
  return { layer, joins, chain, chainLength };
}

function joinChains(
  edges: Edges,
  layer: Int32Array,
  key: Int32Array,
  firstPoint: Int32Array,
  vertices: number,
  chains: number,
  chainLength: Int32Array,
  chain: Int32Array,
): Joins {
  const room = vertices + edges.source.length;
  const upper = new Int32Array(room);
  const lower = new Int32Array(room);
  const by = new Int32Array(room);
  const made = new Int32Array(chains);
  let joins = 0;
  const join = (a: number, b: number, edge: number) => {
    upper[joins] = a;
    lower[joins] = b;
    by[joins++] = edge;
  };
  for (let edge = 0; edge < edges.source.length; edge++) {
    const source = edges.source[edge]!;
    const target = edges.target[edge]!;
    const span = layer[target]! - layer[source]!;
    const first = firstPoint[key[edge]!]!;
    chain[edge] = first;
    if (span < 1 || span > LONGEST_CHAIN) continue;
    const number = key[edge]!;
    while (made[number]! < chainLength[edge]!) {
      const point = first + made[number]!;
      layer[point] = layer[source]! + made[number]! + 1;
      join(made[number] ? point - 1 : source, point, edge);
      made[number]!++;
    }
    join(span > 1 ? first + span - 2 : source, target, edge);
  }
  return { upper: upper.slice(0, joins), lower: lower.slice(0, joins), edge: by.slice(0, joins) };
}

/** A number for each pair of source and bundle. */
function chainKeys(edges: Edges, bundle: Int32Array | undefined): { key: Int32Array; count: number } {
  const key = new Int32Array(edges.source.length);
  const known = new Map<number, number>();
  for (let edge = 0; edge < key.length; edge++) {
    const pair = edges.source[edge]! * 67108864 + (bundle?.[edge] ?? 0);
    let number = known.get(pair);
    if (number === undefined) known.set(pair, (number = known.size));
    key[edge] = number;
  }
  return { key, count: known.size };
}

/** All vertices by layers, in the order of a search from those without anything above: what belongs together is near. */
function firstMembers(layer: Int32Array, above: Lists, below: Lists): Lists {
  const count = layer.length;
  const byLayer = listsBy(layer.reduce((most, each) => Math.max(most, each), -1) + 1, layer);
  const order = new Int32Array(count);
  const seen = new Uint8Array(count);
  const stack: number[] = [];
  let filled = 0;
  for (let place = 0; place < count; place++) {
    const root = byLayer.items[place]!;
    if (seen[root] || above.start[root + 1]! > above.start[root]!) continue;
    stack.push(root);
    while (stack.length) {
      const vertex = stack.pop()!;
      if (seen[vertex]) continue;
      seen[vertex] = 1;
      order[filled++] = vertex;
      for (let item = below.start[vertex + 1]! - 1; item >= below.start[vertex]!; item--)
        if (!seen[below.items[item]!]) stack.push(below.items[item]!);
    }
  }
  const next = byLayer.start.slice();
  for (let place = 0; place < filled; place++) {
    const vertex = order[place]!;
    byLayer.items[next[layer[vertex]!]!++] = vertex;
  }
  return byLayer;
}

/** Order the layers by the mean place of neighbours, down and up in turn; the best order is kept. */
function sweepOrder(ordering: Ordering, sweeps: number): void {
  const { members } = ordering;
  const layers = members.start.length - 1;
  const place = new Float64Array(ordering.layer.length);
  for (let layer = 0; layer < layers; layer++) numberLayer(members, layer, place);
  let fewest = crossings(ordering, place);
  let best = members.items.slice();
  const wanted = new Float64Array(ordering.layer.length);
  for (let sweep = 0; sweep < sweeps && fewest > 0; sweep++) {
    const isDown = sweep % 2 === 0;
    const near = isDown ? ordering.above : ordering.below;
    for (let step = 0; step < layers; step++) {
      const layer = isDown ? step : layers - 1 - step;
      sortLayer(members, layer, near, place, wanted);
      numberLayer(members, layer, place);
    }
    const found = crossings(ordering, place);
    if (found < fewest) {
      fewest = found;
      best = members.items.slice();
    }
  }
  members.items.set(best);
}

function sortLayer(members: Lists, layer: number, near: Lists, place: Float64Array, wanted: Float64Array): void {
  const begin = members.start[layer]!;
  const end = members.start[layer + 1]!;
  for (let item = begin; item < end; item++) {
    const vertex = members.items[item]!;
    const from = near.start[vertex]!;
    const to = near.start[vertex + 1]!;
    let sum = 0;
    for (let other = from; other < to; other++) sum += place[near.items[other]!]!;
    wanted[vertex] = to > from ? sum / (to - from) : place[vertex]!;
  }
  if (end - begin <= 24) insertionSort(members.items, begin, end, wanted);
  else members.items.set(Array.from(members.items.subarray(begin, end)).sort((a, b) => wanted[a]! - wanted[b]!), begin);
}

function insertionSort(items: Int32Array, begin: number, end: number, key: Float64Array): void {
  for (let item = begin + 1; item < end; item++) {
    const vertex = items[item]!;
    let place = item;
    while (place > begin && key[items[place - 1]!]! > key[vertex]!) {
      items[place] = items[place - 1]!;
      place--;
    }
    items[place] = vertex;
  }
}

/** Number the members of a layer; layers of different lengths have the same middle. */
function numberLayer(members: Lists, layer: number, place: Float64Array): void {
  const begin = members.start[layer]!;
  const end = members.start[layer + 1]!;
  for (let item = begin; item < end; item++) place[members.items[item]!] = item - begin - (end - begin) / 2;
}

/** How many pairs of neighbours in a layer would cross fewer edges in the other order: a cheap measure. */
function crossings(ordering: Ordering, place: Float64Array): number {
  const { members } = ordering;
  let total = 0;
  for (let layer = 0; layer + 1 < members.start.length; layer++)
    for (let item = members.start[layer]! + 1; item < members.start[layer + 1]!; item++) {
      const left = members.items[item - 1]!;
      const right = members.items[item]!;
      total += overlaps(ordering.above, left, right, place) + overlaps(ordering.below, left, right, place);
    }
  return total;
}

function overlaps(near: Lists, left: number, right: number, place: Float64Array): number {
  let most = -Infinity;
  let least = Infinity;
  for (let item = near.start[left]!; item < near.start[left + 1]!; item++) most = Math.max(most, place[near.items[item]!]!);
  for (let item = near.start[right]!; item < near.start[right + 1]!; item++) least = Math.min(least, place[near.items[item]!]!);
  return most > least ? 1 : 0;
}

/** The numbers 0, 1, ... by their key; negative keys are left out. */
export function listsBy(count: number, key: Int32Array): Lists {
  const all = new Int32Array(key.length);
  for (let item = 0; item < all.length; item++) all[item] = item;
  return listsOf(count, key, all);
}

/** Items by their key, in their order; negative keys are left out. */
export function listsOf(count: number, key: Int32Array, items: Int32Array): Lists {
  const start = new Int32Array(count + 1);
  for (const each of key) if (each >= 0) start[each + 1]!++;
  for (let number = 0; number < count; number++) start[number + 1]! += start[number]!;
  const next = start.slice();
  const found = new Int32Array(start[count]!);
  for (let item = 0; item < key.length; item++) if (key[item]! >= 0) found[next[key[item]!]!++] = items[item]!;
  return { start, items: found };
}
