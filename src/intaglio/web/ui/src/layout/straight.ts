/** Makes chains upright: vertices with one neighbour above and one below share an x where the gaps to others allow it. */

import type { Ordering, Spacing } from "./layered.ts";
import { memberOffsets, type Sizes } from "./placing.ts";

const ROUNDS = 2;

/** Move chains as a whole; orders and gaps stay. Linear in vertices. */
export function straighten(ordering: Ordering, sizes: Sizes, spacing: Spacing, x: Float64Array): void {
  const chains = chainsOf(ordering, sizes.shift);
  const { position, offsets } = neighbours(ordering, sizes, spacing);
  for (let round = 0; round < ROUNDS; round++)
    for (const chain of chains) {
      let low = -Infinity;
      let high = Infinity;
      let sum = 0;
      for (const vertex of chain) {
        sum += x[vertex]!;
        const at = position[vertex]!;
        const layer = ordering.layer[vertex]!;
        const { start, items } = ordering.members;
        if (at > start[layer]!) low = Math.max(low, x[items[at - 1]!]! + offsets[at]! - offsets[at - 1]!);
        if (at + 1 < start[layer + 1]!) high = Math.min(high, x[items[at + 1]!]! - offsets[at + 1]! + offsets[at]!);
      }
      if (low > high) continue;
      const place = Math.min(high, Math.max(low, sum / chain.length));
      for (const vertex of chain) x[vertex] = place;
    }
}

function neighbours(ordering: Ordering, sizes: Sizes, spacing: Spacing): { position: Int32Array; offsets: Float64Array } {
  const position = new Int32Array(ordering.layer.length);
  ordering.members.items.forEach((vertex, place) => (position[vertex] = place));
  return { position, offsets: memberOffsets(ordering, sizes, spacing) };
}

/** Chains of at least two vertices, the longest first. A link is the only one below its upper end and above its lower end. */
function chainsOf(ordering: Ordering, shift: Float64Array | undefined): number[][] {
  const count = ordering.layer.length;
  const { upper, lower, edge } = ordering.joins;
  const next = new Int32Array(count).fill(-1);
  const hasUpper = new Uint8Array(count);
  for (let join = 0; join < upper.length; join++) {
    const [a, b] = [upper[join]!, lower[join]!];
    const isOnly = ordering.below.start[a + 1]! - ordering.below.start[a]! === 1 && ordering.above.start[b + 1]! - ordering.above.start[b]! === 1;
    const isShifted = shift !== undefined && (shift[2 * edge[join]!] !== 0 || shift[2 * edge[join]! + 1] !== 0);
    if (!isOnly || isShifted) continue;
    next[a] = b;
    hasUpper[b] = 1;
  }
  const chains: number[][] = [];
  for (let vertex = 0; vertex < count; vertex++) {
    if (hasUpper[vertex] || next[vertex]! < 0) continue;
    const chain = [vertex];
    for (let at = next[vertex]!; at >= 0; at = next[at]!) chain.push(at);
    chains.push(chain);
  }
  return chains.sort((a, b) => b.length - a.length);
}
