/** The second half of the layered layout: where the vertices of an ordering are, for given sizes. */

import { straighten } from "./straight.ts";
import { type Layout, type Lists, LONGEST_CHAIN, type Ordering, SPACING, type Spacing } from "./layered.ts";

export interface Sizes {
  readonly width: Float64Array;
  readonly height: Float64Array;
  /** How far from the centres of its source and target each edge begins and ends: two numbers for each edge. */
  readonly shift?: Float64Array | undefined;
}

/** Place the boxes of an ordering, the upper left corner at 0. */
export function placeLayers(ordering: Ordering, sizes: Sizes, spacing: Spacing = SPACING): Layout {
  const x = places(ordering, sizes, spacing);
  if (spacing.straightens) straighten(ordering, sizes, spacing, x);
  const tops = layerTops(ordering, sizes, spacing);
  return finish(ordering, x, tops, sizes);
}

/** What draws each vertex from one side: the neighbour, how strongly, and how far beside its centre. */
interface Pulls {
  readonly start: Int32Array;
  readonly other: Int32Array;
  readonly weight: Float64Array;
  readonly shift: Float64Array;
}

function pulls(ordering: Ordering, isUp: boolean, shift: Float64Array | undefined): Pulls {
  const { upper, lower, edge } = ordering.joins;
  const { boxes } = ordering;
  const by = isUp ? lower : upper;
  const start = new Int32Array(ordering.layer.length + 1);
  for (const vertex of by) start[vertex + 1]!++;
  for (let vertex = 0; vertex + 1 < start.length; vertex++) start[vertex + 1]! += start[vertex]!;
  const next = start.slice();
  const found = { start, other: new Int32Array(by.length), weight: new Float64Array(by.length), shift: new Float64Array(by.length) };
  for (let join = 0; join < by.length; join++) {
    const a = upper[join]!;
    const b = lower[join]!;
    const place = next[by[join]!]!++;
    const begin = shift && a < boxes ? shift[2 * edge[join]!]! : 0;
    const end = shift && b < boxes ? shift[2 * edge[join]! + 1]! : 0;
    found.other[place] = isUp ? a : b;
    found.weight[place] = 1 + (a >= boxes ? 2 : 0) + (a >= boxes && b >= boxes ? 13 : 0);
    found.shift[place] = isUp ? begin - end : end - begin;
  }
  return found;
}

/** The centre of each vertex along its layer. Points keep chains straight, so they draw each other most. */
function places(ordering: Ordering, sizes: Sizes, spacing: Spacing): Float64Array {
  const { members } = ordering;
  const count = ordering.layer.length;
  const layers = members.start.length - 1;
  const x = new Float64Array(count);
  const offsets = memberOffsets(ordering, sizes, spacing);
  const wanted = new Float64Array(count);
  const weights = new Float64Array(count).fill(1);
  const spread = new Spread(members, offsets, wanted, weights, x);
  for (let layer = 0; layer < layers; layer++) spread.layer(layer);
  const up = pulls(ordering, true, sizes.shift);
  const down = pulls(ordering, false, sizes.shift);
  for (let sweep = 0; sweep < spacing.placeSweeps; sweep++) {
    const isLast = sweep >= spacing.placeSweeps - 2;
    const isDown = sweep % 2 === 0;
    for (let step = 0; step < layers; step++) {
      const layer = isDown ? step : layers - 1 - step;
      for (let item = members.start[layer]!; item < members.start[layer + 1]!; item++) {
        const vertex = members.items[item]!;
        let sum = 0;
        let weight = 0;
        for (const side of [up, down]) {
          if (!isLast && side !== (isDown ? up : down)) continue;
          for (let pull = side.start[vertex]!; pull < side.start[vertex + 1]!; pull++) {
            sum += side.weight[pull]! * (x[side.other[pull]!]! + side.shift[pull]!);
            weight += side.weight[pull]!;
          }
        }
        wanted[vertex] = weight ? sum / weight : x[vertex]!;
        weights[vertex] = weight || 0.2;
      }
      spread.layer(layer);
    }
  }
  return x;
}

/** The least distance of each member's centre from that of the first of its layer, by its place in `members`. */
export function memberOffsets(ordering: Ordering, sizes: Sizes, spacing: Spacing): Float64Array {
  const { members, boxes } = ordering;
  const offsets = new Float64Array(members.items.length);
  for (let layer = 0; layer + 1 < members.start.length; layer++)
    for (let item = members.start[layer]! + 1; item < members.start[layer + 1]!; item++) {
      const left = members.items[item - 1]!;
      const right = members.items[item]!;
      const room = ((left < boxes ? sizes.width[left]! : 0) + (right < boxes ? sizes.width[right]! : 0)) / 2;
      offsets[item] = offsets[item - 1]! + room + (left < boxes && right < boxes ? spacing.beside : spacing.point);
    }
  return offsets;
}

/**
 * Puts the members of a layer as near to where they want to be as the gaps allow, in the sense of least squares.
 * Members that want to overlap form a block, whose place is the weighted mean of what its members want.
 */
class Spread {
  private readonly starts: Int32Array;
  private readonly means: Float64Array;
  private readonly totals: Float64Array;
  private readonly members: Lists;
  private readonly offsets: Float64Array;
  private readonly wanted: Float64Array;
  private readonly weights: Float64Array;
  private readonly x: Float64Array;

  constructor(members: Lists, offsets: Float64Array, wanted: Float64Array, weights: Float64Array, x: Float64Array) {
    this.members = members;
    this.offsets = offsets;
    this.wanted = wanted;
    this.weights = weights;
    this.x = x;
    let widest = 0;
    for (let layer = 0; layer + 1 < members.start.length; layer++)
      widest = Math.max(widest, members.start[layer + 1]! - members.start[layer]!);
    this.starts = new Int32Array(widest + 1);
    this.means = new Float64Array(widest);
    this.totals = new Float64Array(widest);
  }

  layer(layer: number): void {
    const { members, offsets, starts, means, totals } = this;
    const begin = members.start[layer]!;
    const end = members.start[layer + 1]!;
    let blocks = 0;
    for (let item = begin; item < end; item++) {
      const vertex = members.items[item]!;
      let start = item;
      let mean = this.wanted[vertex]! - offsets[item]!;
      let total = this.weights[vertex]!;
      while (blocks && means[blocks - 1]! > mean) {
        blocks--;
        mean = (means[blocks]! * totals[blocks]! + mean * total) / (totals[blocks]! + total);
        total += totals[blocks]!;
        start = starts[blocks]!;
      }
      starts[blocks] = start;
      means[blocks] = mean;
      totals[blocks++] = total;
    }
    starts[blocks] = end;
    for (let block = 0; block < blocks; block++)
      for (let item = starts[block]!; item < starts[block + 1]!; item++) this.x[members.items[item]!] = means[block]! + offsets[item]!;
  }
}

interface Tops {
  readonly top: Float64Array;
  readonly height: Float64Array;
  readonly total: number;
}

/** The upper edge and the height of each layer. */
function layerTops(ordering: Ordering, sizes: Sizes, spacing: Spacing): Tops {
  const layers = ordering.members.start.length - 1;
  const top = new Float64Array(layers);
  const height = new Float64Array(layers);
  for (let box = 0; box < ordering.boxes; box++) {
    const layer = ordering.layer[box]!;
    height[layer] = Math.max(height[layer]!, sizes.height[box]!);
  }
  const hasBoxes = new Uint8Array(layers);
  for (let box = 0; box < ordering.boxes; box++) hasBoxes[ordering.layer[box]!] = 1;
  let at = 0;
  let gap = 0;
  for (let layer = 0; layer < layers; layer++) {
    top[layer] = at;
    gap = hasBoxes[layer] || !spacing.straightens ? spacing.between : 0;
    at += height[layer]! + gap;
  }
  return { top, height, total: at - gap };
}

function finish(ordering: Ordering, x: Float64Array, tops: Tops, sizes: Sizes): Layout {
  const { boxes, layer } = ordering;
  let left = Infinity;
  let right = -Infinity;
  for (let vertex = 0; vertex < x.length; vertex++) {
    const half = vertex < boxes ? sizes.width[vertex]! / 2 : 0;
    left = Math.min(left, x[vertex]! - half);
    right = Math.max(right, x[vertex]! + half);
  }
  if (x.length === 0) left = right = 0;
  for (let vertex = 0; vertex < x.length; vertex++) x[vertex]! -= left;
  const y = new Float64Array(boxes);
  for (let box = 0; box < boxes; box++) y[box] = tops.top[layer[box]!]! + tops.height[layer[box]!]! / 2;
  const points = edgePoints(ordering, x, tops, sizes.shift);
  return { x: x.slice(0, boxes), y, ...points, width: right - left, height: tops.total };
}

/** The points of each edge between its ends. An edge goes straight through a layer, past the tall boxes beside it. */
function edgePoints(ordering: Ordering, x: Float64Array, tops: Tops, shift: Float64Array | undefined): Pick<Layout, "points" | "pointStart"> {
  const { edges, layer, turned } = ordering;
  const total = edges.source.length;
  const found: number[] = [];
  const pointStart = new Int32Array(total + 1);
  for (let edge = 0; edge < total; edge++) {
    const source = edges.source[edge]!;
    const target = edges.target[edge]!;
    const span = layer[target]! - layer[source]!;
    const at = found.length;
    if (span > 0) {
      const begin = shift?.[2 * edge + (turned[edge] ? 1 : 0)] ?? 0;
      const end = shift?.[2 * edge + (turned[edge] ? 0 : 1)] ?? 0;
      found.push(x[source]! + begin, tops.top[layer[source]!]! + tops.height[layer[source]!]!);
      if (span <= LONGEST_CHAIN) pushChain(found, ordering.chain[edge]!, span - 1, layer, x, tops);
      found.push(x[target]! + end, tops.top[layer[target]!]!);
    }
    if (turned[edge]) reversePairs(found, at);
    pointStart[edge + 1] = found.length / 2;
  }
  return { points: Float64Array.from(found), pointStart };
}

function pushChain(found: number[], first: number, length: number, layer: Int32Array, x: Float64Array, tops: Tops): void {
  for (let vertex = first; vertex < first + length; vertex++) {
    const top = tops.top[layer[vertex]!]!;
    const height = tops.height[layer[vertex]!]!;
    found.push(x[vertex]!, top);
    if (height > 0) found.push(x[vertex]!, top + height);
  }
}

function reversePairs(found: number[], from: number): void {
  const pairs = (found.length - from) / 2;
  for (let pair = 0; pair < Math.floor(pairs / 2); pair++)
    for (let part = 0; part < 2; part++) {
      const a = from + 2 * pair + part;
      const b = from + 2 * (pairs - 1 - pair) + part;
      [found[a], found[b]] = [found[b]!, found[a]!];
    }
}
