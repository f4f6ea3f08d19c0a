/** Rectangles in a tree, built once: what lies in a part of the plane is found without looking at all of it. */

const FAN = 16;

export interface Rectangles {
  readonly left: Float64Array;
  readonly top: Float64Array;
  readonly right: Float64Array;
  readonly bottom: Float64Array;
}

export class RectangleTree {
  readonly size: number;
  private readonly bounds: Rectangles;
  /** The items of the lowest level; a node of level k has the nodes FAN * n ... of the level below. */
  private readonly order: Int32Array;
  private readonly levels: Rectangles[] = [];

  constructor(bounds: Rectangles) {
    this.bounds = bounds;
    this.size = bounds.left.length;
    this.order = tiled(bounds);
    let below = gathered(this.order.length, (place) => [this.order[place]!], bounds);
    while (below.left.length > 1) {
      const last = below;
      below = gathered(Math.ceil(last.left.length / FAN), (node) => range(node * FAN, Math.min((node + 1) * FAN, last.left.length)), last);
      this.levels.push(below);
    }
  }

  /**
   * Call `item` for each rectangle that meets a window. Where a node of the tree, or an item, is smaller than `least`
   * in both directions, `cluster` gets its first item and its bounds instead of all that is in it.
   */
  search(
    left: number,
    top: number,
    right: number,
    bottom: number,
    item: (number: number) => void,
    least = 0,
    cluster?: (number: number, left: number, top: number, right: number, bottom: number) => void,
  ): void {
    const { order, bounds, levels } = this;
    const visit = (level: number, node: number): void => {
      if (level < 0) {
        const number = order[node]!;
        const [x, y, toX, toY] = [bounds.left[number]!, bounds.top[number]!, bounds.right[number]!, bounds.bottom[number]!];
        if (x > right || toX < left || y > bottom || toY < top) return;
        if (cluster && toX - x < least && toY - y < least) cluster(number, x, y, toX, toY);
        else item(number);
        return;
      }
      const box = levels[level]!;
      if (box.left[node]! > right || box.right[node]! < left || box.top[node]! > bottom || box.bottom[node]! < top) return;
      if (cluster && box.right[node]! - box.left[node]! < least && box.bottom[node]! - box.top[node]! < least) {
        cluster(order[node * FAN ** (level + 1)]!, box.left[node]!, box.top[node]!, box.right[node]!, box.bottom[node]!);
        return;
      }
      const count = level === 0 ? order.length : levels[level - 1]!.left.length;
      for (let inner = node * FAN; inner < Math.min((node + 1) * FAN, count); inner++) visit(level - 1, inner);
    };
    if (this.size === 1) visit(-1, 0);
    else if (this.size) visit(levels.length - 1, 0);
  }

  /** The items whose rectangles hold a point. */
  at(x: number, y: number, reach = 0): number[] {
    const found: number[] = [];
    this.search(x - reach, y - reach, x + reach, y + reach, (number) => found.push(number));
    return found;
  }
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, place) => from + place);
}

/** Items so that neighbours in the plane are neighbours in the list: rows of tiles. */
function tiled(bounds: Rectangles): Int32Array {
  const count = bounds.left.length;
  const rows = Math.ceil(Math.sqrt(count / FAN));
  const row = Math.ceil(count / Math.max(rows, 1));
  const order = Int32Array.from({ length: count }, (_, item) => item);
  const middle = (low: Float64Array, high: Float64Array) => (a: number, b: number) => low[a]! + high[a]! - low[b]! - high[b]!;
  order.sort(middle(bounds.top, bounds.bottom));
  for (let begin = 0; begin < count; begin += row) order.subarray(begin, begin + row).sort(middle(bounds.left, bounds.right));
  return order;
}

function gathered(count: number, members: (node: number) => number[], below: Rectangles): Rectangles {
  const made = { left: new Float64Array(count), top: new Float64Array(count), right: new Float64Array(count), bottom: new Float64Array(count) };
  for (let node = 0; node < count; node++) {
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (const each of members(node)) {
      left = Math.min(left, below.left[each]!);
      top = Math.min(top, below.top[each]!);
      right = Math.max(right, below.right[each]!);
      bottom = Math.max(bottom, below.bottom[each]!);
    }
    made.left[node] = left;
    made.top[node] = top;
    made.right[node] = right;
    made.bottom[node] = bottom;
  }
  return made;
}
