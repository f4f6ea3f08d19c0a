/** Small pictures of lines; words beside or in labels say what they mean. */

const PATHS = {
  search: "M11 11l3.5 3.5M12.5 7a5.5 5.5 0 1 1-11 0 5.5 5.5 0 0 1 11 0z",
  filter: "M2 4h12M4.5 8h7M7 12h2",
  chevron: "M6 4l4 4-4 4",
  back: "M10 3L5 8l5 5",
  forward: "M6 3l5 5-5 5",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  moon: "M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7z",
  help: "M6 6a2 2 0 1 1 2.8 1.8c-.6.3-.8.7-.8 1.4M8 11.6v.2M15 8A7 7 0 1 1 1 8a7 7 0 0 1 14 0z",
  fit: "M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  left: "M2 3h12v10H2zM6 3v10",
  right: "M2 3h12v10H2zM10 3v10",
  more: "M3 8h.1M8 8h.1M13 8h.1",
  undo: "M5 3L2 6l3 3M2 6h7a4 4 0 0 1 0 8H6",
  redo: "M11 3l3 3-3 3M14 6H7a4 4 0 0 0 0 8h3",
  save: "M8 2v8M5 7l3 3 3-3M2 12v2h12v-2",
  close: "M4 4l8 8M12 4l-8 8",
  flame: "M8 1.5c.5 3 4 4 4 8a4 4 0 0 1-8 0c0-1.500.8-2.500 1.500-3 .2 1 .8 1.500 1.300 1.500C6.500 6 6.500 3.500 8 1.500z",
  play: "M4 2.500v11l9-5.500z",
  command: "M5.500 5.500h5v5h-5zM5.500 5.500H4A1.500 1.500 0 1 1 5.500 4zM10.500 5.500V4A1.500 1.500 0 1 1 12 5.500zM10.500 10.500H12A1.500 1.500 0 1 1 10.500 12zM5.500 10.500V12A1.500 1.500 0 1 1 4 10.500z",
} as const;

export function Icon({ name }: { name: keyof typeof PATHS }) {
  return (
    <svg class="ico" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
