/** The palette of all actions and the sheet of keys. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Action, Page } from "../app/actions.ts";
import { FIELDS } from "../search/search.ts";

function Dialog({ page, label, children }: { page: Page; label: string; children: ComponentChildren }) {
  const frame = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    frame.current?.showModal();
    return () => before?.focus();
  }, []);
  const close = () => (page.dialog.value = "none");
  return (
    <dialog ref={frame} class="dialog" aria-label={label} onClose={close} onClick={(event) => event.target === frame.current && close()}>
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}

const words = (text: string) => text.toLowerCase().split(/\s+/).filter(Boolean);

/** Actions whose names hold all words of a text. */
export function fitting(actions: readonly Action[], text: string): Action[] {
  const wanted = words(text);
  return actions.filter((action) => wanted.every((word) => `${action.group} ${action.name}`.toLowerCase().includes(word)));
}

export function PaletteDialog({ page, actions }: { page: Page; actions: readonly Action[] }) {
  const query = useSignal("");
  const active = useSignal(0);
  const shown = fitting(actions, query.value);
  const act = (action: Action | undefined) => {
    if (!action || action.disabled) return;
    page.dialog.value = "none";
    void action.run();
  };
  const press = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step) active.value = Math.max(0, Math.min(shown.length - 1, active.value + step));
    else if (event.key === "Enter") act(shown[active.value]);
    else return;
    event.preventDefault();
    document.getElementById(`action-${active.value}`)?.scrollIntoView({ block: "nearest" });
  };
  return (
    <Dialog page={page} label="All actions">
      <input
        class="palette-input"
        placeholder="What do you want to do?"
        aria-label="Actions"
        role="combobox"
        aria-expanded="true"
        aria-controls="actions"
        aria-activedescendant={`action-${active.value}`}
        value={query.value}
        onInput={(event) => {
          query.value = event.currentTarget.value;
          active.value = 0;
        }}
        onKeyDown={press}
      />
      <ul class="palette" id="actions" role="listbox" aria-label="Actions">
        {shown.map((action, index) => (
          <li
            key={action.name}
            id={`action-${index}`}
            role="option"
            aria-selected={index === active.value}
            aria-disabled={Boolean(action.disabled)}
            title={action.disabled ?? undefined}
            class={index === active.value ? "active" : ""}
            onMouseEnter={() => (active.value = index)}
            onClick={() => act(action)}
          >
            <span class="quiet">{action.group}</span>
            <span class="grow">{action.name}</span>
            {action.keys && <Keys keys={action.keys} />}
          </li>
        ))}
        {shown.length === 0 && <li class="quiet">No action has these words.</li>}
      </ul>
    </Dialog>
  );
}

function Keys({ keys }: { keys: string }) {
  const parts = keys === "+" ? ["+"] : keys.split("+");
  return (
    <span class="keys">
      {parts.map((key) => (
        <kbd key={key}>{key}</kbd>
      ))}
    </span>
  );
}

export function HelpDialog({ page, actions }: { page: Page; actions: readonly Action[] }) {
  const groups = [...new Set(actions.map((action) => action.group))];
  return (
    <Dialog page={page} label="Keys">
      <div class="help">
        {groups.map((group) => {
          const own = actions.filter((action) => action.group === group && action.keys);
          return own.length === 0 ? null : (
            <section key={group}>
              <h2>{group}</h2>
              <dl>
                {own.map((action) => (
                  <div key={action.name}>
                    <dt>{action.name}</dt>
                    <dd>
                      <Keys keys={action.keys!} />
                    </dd>
                  </div>
                ))}
              </dl>
            </section>
          );
        })}
        <section>
          <h2>Mouse</h2>
          <dl>
            <Line name="Move" keys="drag, wheel" />
            <Line name="Zoom" keys="Ctrl + wheel, pinch" />
            <Line name="Fold or unfold" keys="double click" />
            <Line name="… and all that are alike" keys="Alt + double click" />
            <Line name="Select several" keys="Shift + click" />
            <Line name="Rewire (with --edit)" keys="Alt + drag to a node" />
          </dl>
        </section>
        <section>
          <h2>Search</h2>
          <dl>
            {FIELDS.map(([field, about]) => (
              <Line key={field} name={about} keys={field} />
            ))}
          </dl>
        </section>
      </div>
      <button class="primary" onClick={() => (page.dialog.value = "none")}>
        Close
      </button>
    </Dialog>
  );
}

function Line({ name, keys }: { name: string; keys: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <code>{keys}</code>
      </dd>
    </div>
  );
}
