/** The panel of a group of nodes. */

import type { Page } from "../app/actions.ts";
import { bytes } from "../app/overlays.ts";
import { CONSTANT, entries, INITIALIZER, text } from "../data/model.ts";
import { BODY, NODE, SCOPE } from "../graph/tree.ts";

export function GroupDetails({ page, box }: { page: Page; box: number }) {
  const { store } = page;
  const tree = store.tree.value!;
  const model = store.model.value!;
  const isOpen = store.open.value[box] === 1;
  const { operators, weights } = contents(page, box);
  const heat = store.overlays.heat.value;
  const template = tree.kind[box] === SCOPE ? model.scopes.repeats[tree.item[box]!]! : -1;
  const facts: [string, string][] = [
    ["nodes", tree.inner[box]!.toLocaleString("en")],
    ["weights", weights ? bytes(weights) : ""],
    ["same as", template >= 0 ? text(model, model.scopes.name[template]) : ""],
    ["share", heat && !Number.isNaN(heat.amount[box]!) ? store.overlays.describe(heat.amount[box]!, heat.total) : ""],
  ];
  return (
    <article>
      <header class="heading">
        <span class="chip">{tree.kind[box] === BODY ? "body" : "scope"}</span>
        <h2>{store.face(box).title}</h2>
      </header>
      <p class="pair">
        <button class="wide" onClick={() => void store.toggle(box)}>
          {isOpen ? "Fold" : "Unfold"}
        </button>
        <button class="wide" onClick={() => void store.toggle(box, true)}>
          {isOpen ? "Fold all alike" : "Unfold all alike"}
        </button>
      </p>
      {tree.kind[box] === BODY && (
        <button class="wide" onClick={() => void store.enter(tree.graph[box]!)}>
          Show it by itself
        </button>
      )}
      <dl class="table">
        {facts
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <div class="entry" key={name}>
              <dt>{name}</dt>
              <dd class="value">{value}</dd>
            </div>
          ))}
      </dl>
      <section>
        <h3>Operators</h3>
        <Bars rows={operators} />
      </section>
    </article>
  );
}

/** Names with numbers as bars, the largest first. */
export function Bars({ rows, choose }: { rows: readonly (readonly [string, number])[]; choose?: (name: string) => void }) {
  const most = rows[0]?.[1] ?? 1;
  return (
    <ul class="bars">
      {rows.slice(0, 60).map(([name, count]) => (
        <li key={name}>
          <meter min={0} max={most} value={count} aria-label={`${name}: ${count}`} />
          {choose ? (
            <button class="link" onClick={() => choose(name)}>
              {name}
            </button>
          ) : (
            <span>{name}</span>
          )}
          <span class="quiet">{count.toLocaleString("en")}</span>
        </li>
      ))}
    </ul>
  );
}

function contents(page: Page, box: number): { operators: [string, number][]; weights: number } {
  const tree = page.store.tree.value!;
  const model = page.store.model.value!;
  const inside = new Uint8Array(tree.count);
  const counts = new Map<string, number>();
  const seen = new Set<number>();
  let weights = 0;
  for (let each = box; each < tree.count; each++) {
    if (each !== box && !inside[tree.parent[each]!]) continue;
    inside[each] = 1;
    if (tree.kind[each] !== NODE) continue;
    const graph = model.graphs[tree.graph[each]!]!;
    const op = text(model, graph.nodes.op[tree.item[each]!]);
    counts.set(op, (counts.get(op) ?? 0) + 1);
    for (const value of entries(graph.nodes.inputs, tree.item[each]!)) {
      if (value < 0 || seen.has(graph.valueBase + value)) continue;
      const kind = graph.values.kind[value];
      seen.add(graph.valueBase + value);
      if (kind === INITIALIZER || kind === CONSTANT) weights += graph.values.bytes[value]!;
    }
  }
  return { operators: [...counts].sort((a, b) => b[1] - a[1]), weights };
}
