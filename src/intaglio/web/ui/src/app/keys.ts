/** The keyboard: keys of the actions, wherever no text is typed. */

import { type Action, actionsOf, type Page } from "./actions.ts";

/** A key event as the text that actions have: `Ctrl+Shift+Z`. */
export function keyOf(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">): string {
  const key = event.key.replace(/^Arrow/, "");
  const isLetter = /^[a-z]$/i.test(key);
  const parts: string[] = [];
  if (event.ctrlKey || event.metaKey) parts.push("Ctrl");
  if (event.altKey) parts.push("Alt");
  if (event.shiftKey && (isLetter || key.length > 1)) parts.push("Shift");
  parts.push(isLetter && (parts.length > 0) ? key.toUpperCase() : key);
  return parts.join("+");
}

/** Listen until the returned function is called. */
export function listenToKeys(page: Page): () => void {
  const press = (event: KeyboardEvent) => {
    const key = keyOf(event);
    const target = event.target as HTMLElement | null;
    const isTyping = target !== null && (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable);
    if (page.dialog.value !== "none") return;
    if (key === "Ctrl+C" && String(getSelection() ?? "") !== "") return;
    if (isTyping && !/^Ctrl\+(K|S)$/.test(key)) return;
    const inWidget = target?.closest("[role=tree], [role=listbox], button, a, summary") && /^(Enter|Shift\+Enter|Up|Down|Left|Right|Home)$/.test(key);
    if (inWidget) return;
    const action = actionFor(actionsOf(page), key);
    if (!action) return;
    event.preventDefault();
    if (action.disabled) page.store.say(action.disabled);
    else void action.run();
  };
  addEventListener("keydown", press);
  return () => removeEventListener("keydown", press);
}

/** The action of a key. */
export function actionFor(actions: readonly Action[], key: string): Action | undefined {
  return actions.find((action) => action.keys === key || (action.keys === "+" && key === "="));
}
