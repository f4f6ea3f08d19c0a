/** Where a person has been in a model: back and forward, as in a browser. */

export interface Where {
  /** The graph that is shown, by its place among the model's graphs. */
  readonly graph: number;
  /** A selected node's id, a value's name with its graph, or a group's key. */
  readonly node?: number | undefined;
  readonly value?: string | undefined;
  readonly valueGraph?: number | undefined;
  readonly group?: string | undefined;
}

export class History {
  private entries: Where[];
  private at = 0;
  private readonly most: number;

  constructor(first: Where, most = 500) {
    this.entries = [first];
    this.most = most;
  }

  get current(): Where {
    return this.entries[this.at]!;
  }

  get canGoBack(): boolean {
    return this.at > 0;
  }

  get canGoForward(): boolean {
    return this.at + 1 < this.entries.length;
  }

  /** Go to a new place; what lay ahead is gone. Returns whether it is another place than the last. */
  visit(where: Where): boolean {
    if (isSame(where, this.current)) return false;
    this.entries = [...this.entries.slice(0, this.at + 1), where].slice(-this.most);
    this.at = this.entries.length - 1;
    return true;
  }

  /** Go back (-1) or forward (1); undefined where there is nothing. */
  go(step: number): Where | undefined {
    const place = this.at + step;
    if (place < 0 || place >= this.entries.length) return undefined;
    this.at = place;
    return this.current;
  }
}

function isSame(a: Where, b: Where): boolean {
  return a.graph === b.graph && a.node === b.node && a.value === b.value && a.valueGraph === b.valueGraph && a.group === b.group;
}

/** A place as the end of an address: `node=12`. */
export function addressOf(where: Where): string {
  const parameters = new URLSearchParams();
  if (where.graph) parameters.set("graph", String(where.graph));
  if (where.node !== undefined) parameters.set("node", String(where.node));
  if (where.value !== undefined) parameters.set("value", where.value);
  if (where.valueGraph) parameters.set("of", String(where.valueGraph));
  if (where.group !== undefined) parameters.set("group", where.group);
  return parameters.toString();
}

/** The place that the end of an address means; anything unreadable means the beginning. */
export function placeAt(address: string): Where {
  const parameters = new URLSearchParams(address.replace(/^#/, ""));
  const number = (key: string) => {
    const text = parameters.get(key);
    return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : undefined;
  };
  return {
    graph: number("graph") ?? 0,
    node: number("node"),
    value: parameters.get("value") ?? undefined,
    valueGraph: number("of"),
    group: parameters.get("group") ?? undefined,
  };
}
