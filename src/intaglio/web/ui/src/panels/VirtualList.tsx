/** A long list of which only the rows on the screen exist. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

interface Properties {
  count: number;
  rowHeight: number;
  role: "tree" | "listbox";
  label: string;
  /** The row that the keyboard is on, and where it goes. */
  active: number;
  onActive: (row: number) => void;
  onKey?: (event: KeyboardEvent) => void;
  row: (index: number) => ComponentChildren;
  id: string;
}

export function VirtualList({ count, rowHeight, role, label, active, onActive, onKey, row, id }: Properties) {
  const frame = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  useEffect(() => {
    const element = frame.current!;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    measure();
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const element = frame.current!;
    if (active < 0) return;
    const top = active * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = top + rowHeight - element.clientHeight;
  }, [active, rowHeight]);
  const first = Math.max(0, Math.floor(view.top / rowHeight) - 5);
  const last = Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + 5);
  const press = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(view.height / rowHeight) - 1);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count };
    const step = steps[event.key];
    if (step !== undefined && !event.altKey && !event.ctrlKey && count) {
      event.preventDefault();
      onActive(Math.max(0, Math.min(count - 1, active + step)));
    } else onKey?.(event);
  };
  const rows: ComponentChildren[] = [];
  for (let index = first; index < last; index++) rows.push(row(index));
  return (
    <div ref={frame} class="list" role={role} aria-label={label} tabIndex={0} onKeyDown={press} aria-activedescendant={active >= first && active < last ? `${id}-${active}` : undefined}>
      <div class="list-room" role="presentation" style={{ height: `${count * rowHeight}px` }}>
        <div class="list-rows" role="presentation" style={{ transform: `translateY(${first * rowHeight}px)` }}>
          {rows}
        </div>
      </div>
    </div>
  );
}
