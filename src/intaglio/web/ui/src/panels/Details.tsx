/** What is known of the selected node, value or group; of the model where nothing is selected. */

import type { Page } from "../app/actions.ts";
import { GroupDetails } from "./GroupDetails.tsx";
import { ModelDetails } from "./ModelDetails.tsx";
import { NodeDetails } from "./NodeDetails.tsx";
import { ValueDetails } from "./ValueDetails.tsx";

export function Details({ page }: { page: Page }) {
  const { store } = page;
  const selected = store.selected.value;
  const picked = store.picked.value;
  if (!store.model.value) return null;
  if (picked.size > 1) return <Several page={page} />;
  if (selected?.kind === "node") return <NodeDetails page={page} id={selected.id} />;
  if (selected?.kind === "value") return <ValueDetails page={page} graph={selected.graph} index={selected.index} />;
  if (selected?.kind === "group") return <GroupDetails page={page} box={selected.box} />;
  return <ModelDetails page={page} />;
}

function Several({ page }: { page: Page }) {
  const { store } = page;
  const model = store.model.value!;
  return (
    <section>
      <h2>{store.picked.value.size} nodes</h2>
      <ul class="plain">
        {[...store.picked.value].slice(0, 200).map((id) => {
          const place = model.placeOfNode.get(id);
          const graph = place && model.graphs[place.graph]!;
          return (
            place &&
            graph && (
              <li key={id}>
                <button class="link" onClick={() => void store.selectNode(id, "centre")}>
                  {model.strings[graph.nodes.op[place.index]!]} <span class="quiet">{model.strings[graph.nodes.name[place.index]!]}</span>
                </button>
              </li>
            )
          );
        })}
      </ul>
    </section>
  );
}
