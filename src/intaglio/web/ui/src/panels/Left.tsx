/** Search, and the model as a list: all that the canvas shows, for eyes, fingers and screen readers. */

import { useComputed, useSignal } from "@preact/signals";
import type { Page } from "../app/actions.ts";
import { nodeTitle, text } from "../data/model.ts";
import { isGroup, NODE } from "../graph/tree.ts";
import { FIELDS } from "../search/search.ts";
import { Icon } from "./Icon.tsx";
import { type OutlineRow, outlineRows } from "./outline.ts";
import { VirtualList } from "./VirtualList.tsx";

const ROW = 26;

export function Left({ page }: { page: Page }) {
  const { store } = page;
  const isSearching = store.query.value.trim() !== "";
  return (
    <aside class="side left" aria-label="Search and list of nodes">
      <SearchBox page={page} />
      {isSearching ? <Results page={page} /> : <Outline page={page} />}
    </aside>
  );
}

function SearchBox({ page }: { page: Page }) {
  const { store } = page;
  const showsFields = useSignal(false);
  const press = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      store.query.value = "";
      (event.target as HTMLElement).blur();
    }
    if (event.key === "Enter") {
      const id = store.found.value.nodes[0];
      if (id !== undefined) void store.selectNode(id, "centre");
    }
    if (event.key === "ArrowDown") {
      event.preventDefault();
      document.querySelector<HTMLElement>(".left .list")?.focus();
    }
  };
  return (
    <div class="search">
      <label class="search-field">
        <Icon name="search" />
        <input
          id="search"
          type="search"
          placeholder="Search the model"
          aria-label="Search nodes and values"
          spellcheck={false}
          autocomplete="off"
          value={store.query.value}
          onInput={(event) => (store.query.value = event.currentTarget.value)}
          onKeyDown={press}
        />
        <kbd>/</kbd>
        <button type="button" class="icon" aria-label="What a search can ask" aria-expanded={showsFields.value} onClick={() => (showsFields.value = !showsFields.value)}>
          <Icon name="filter" />
        </button>
      </label>
      {showsFields.value && <Fields page={page} close={() => (showsFields.value = false)} />}
    </div>
  );
}

function Fields({ page, close }: { page: Page; close: () => void }) {
  const add = (field: string) => {
    const word = field.startsWith("is:") ? field : `${field.split(":")[0]}:`;
    page.store.query.value = `${page.store.query.value.trim()} ${word}`.trim();
    close();
    document.getElementById("search")?.focus();
  };
  return (
    <ul class="fields">
      {FIELDS.map(([field, about]) => (
        <li key={field}>
          <button type="button" onClick={() => add(field)}>
            <code>{field}</code>
            <span>{about}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

function Outline({ page }: { page: Page }) {
  const { store } = page;
  const active = useSignal(-1);
  const rows = useComputed(() => (store.tree.value ? outlineRows(store.tree.value, store.open.value) : []));
  const tree = store.tree.value;
  if (!tree) return <p class="quiet pad">No model yet</p>;
  const selected = store.selected.value;
  const selectedBox = selected?.kind === "node" ? tree.boxOfNode.get(selected.id) : selected?.kind === "group" ? selected.box : undefined;
  const current = active.value >= 0 ? active.value : rows.value.findIndex((row) => row.box === selectedBox);
  const press = (event: KeyboardEvent) => {
    const row = rows.value[current];
    if (!row) return;
    const isOpen = store.open.value[row.box] === 1;
    if (event.key === "Enter" || event.key === " ") choose(page, row.box);
    else if ((event.key === "ArrowRight" && !isOpen) || (event.key === "ArrowLeft" && isOpen)) void store.toggle(row.box);
    else if (event.key === "ArrowLeft") active.value = rows.value.findIndex((each) => each.box === tree.parent[row.box]);
    else return;
    event.preventDefault();
  };
  return (
    <VirtualList
      id="outline"
      role="tree"
      label="Nodes of the model"
      count={rows.value.length}
      rowHeight={ROW}
      active={current}
      onActive={(row) => (active.value = row)}
      onKey={press}
      row={(index) => <OutlineItem key={rows.value[index]!.box} page={page} row={rows.value[index]!} index={index} isSelected={rows.value[index]!.box === selectedBox} isActive={index === current} />}
    />
  );
}

function choose(page: Page, box: number): void {
  page.store.selectBox(box);
  page.store.reveal(box, "if needed");
}

function OutlineItem({ page, row, index, isSelected, isActive }: { page: Page; row: OutlineRow; index: number; isSelected: boolean; isActive: boolean }) {
  const { store } = page;
  const tree = store.tree.value!;
  const face = store.face(row.box);
  const folds = isGroup(tree, row.box);
  const isOpen = store.open.value[row.box] === 1;
  const name = tree.kind[row.box] === NODE ? nodeTitle(store.model.value!, store.model.value!.graphs[tree.graph[row.box]!]!, tree.item[row.box]!) : (face.rows[0]?.text ?? "");
  return (
    <div
      id={`outline-${index}`}
      class={`row${isActive ? " active" : ""}`}
      role="treeitem"
      aria-level={row.level}
      aria-selected={isSelected}
      aria-expanded={folds ? isOpen : undefined}
      style={{ paddingLeft: `${6 + 12 * Math.min(row.level - 1, 12)}px` }}
      onClick={() => choose(page, row.box)}
      onDblClick={() => void store.toggle(row.box)}
      onMouseEnter={() => (store.hovered.value = row.box)}
      onMouseLeave={() => (store.hovered.value = -1)}
    >
      <span class={`twist${folds ? "" : " none"}${isOpen ? " open" : ""}`} onClick={(event) => (event.stopPropagation(), void store.toggle(row.box, event.altKey))}>
        <Icon name="chevron" />
      </span>
      <span class={`dot c-${face.category}`} />
      <span class="row-title">{face.title}</span>
      <span class="row-name">{name}</span>
    </div>
  );
}

function Results({ page }: { page: Page }) {
  const { store } = page;
  const active = useSignal(0);
  const found = store.found.value;
  const model = store.model.value;
  if (!model) return null;
  const count = found.nodes.length + found.values.length;
  const choose = (index: number) => {
    active.value = index;
    const id = found.nodes[index];
    if (id !== undefined) void store.selectNode(id, "centre");
    else {
      const value = found.values[index - found.nodes.length];
      if (value) void store.selectValue(value.graph, value.index, "centre");
    }
  };
  const row = (index: number) => {
    const id = found.nodes[index];
    const place = id === undefined ? undefined : model.placeOfNode.get(id)!;
    const value = found.values[index - found.nodes.length];
    const graph = model.graphs[place?.graph ?? value!.graph]!;
    const title = place ? text(model, graph.nodes.op[place.index]) : text(model, graph.values.name[value!.index]);
    const name = place ? nodeTitle(model, graph, place.index) : text(model, graph.values.type[value!.index]);
    return (
      <div key={index} id={`found-${index}`} class={`row${index === active.value ? " active" : ""}`} role="option" aria-selected={index === active.value} onClick={() => choose(index)}>
        <span class={place ? `dot k-${graph.nodes.category[place.index]}` : "dot value"} />
        <span class="row-title">{title}</span>
        <span class="row-name">{name}</span>
      </div>
    );
  };
  return (
    <>
      <p class="quiet count" role="status">
        {count === 0 ? "Nothing fits." : `${found.nodes.length.toLocaleString("en")} nodes, ${found.values.length.toLocaleString("en")} values`}
      </p>
      <VirtualList
        id="found"
        role="listbox"
        label="What the search found"
        count={count}
        rowHeight={ROW}
        active={Math.min(active.value, count - 1)}
        onActive={choose}
        onKey={(event) => event.key === "Enter" && choose(active.value)}
        row={row}
      />
    </>
  );
}
