/** The colours of the canvas, dark and light. Text on its face has a contrast of at least 4.5. */

import type { Face } from "../graph/faces.ts";

export interface Tint {
  readonly face: string;
  readonly line: string;
  readonly text: string;
}

export interface Palette {
  readonly isDark: boolean;
  readonly ground: string;
  readonly dots: string;
  readonly card: string;
  readonly shadow: string;
  readonly text: string;
  readonly muted: string;
  readonly groups: readonly string[];
  readonly groupLine: string;
  readonly groupText: string;
  readonly edge: string;
  readonly accent: string;
  readonly accentSoft: string;
  readonly upstream: string;
  readonly downstream: string;
  readonly match: string;
  readonly fault: string;
  readonly added: string;
  readonly removed: string;
  readonly changed: string;
  readonly tints: Readonly<Record<Face["category"], Tint>>;
}

const tint = (face: string, line: string, text: string): Tint => ({ face, line, text });

export const LIGHT: Palette = {
  isDark: false,
  ground: "#f6f7f9",
  dots: "#dfe3e8",
  card: "#ffffff",
  shadow: "rgba(20, 28, 40, 0.10)",
  text: "#1d232b",
  muted: "#5d6875",
  groups: ["#eef1f5", "#e7ebf1", "#dfe5ed", "#d8dfe9"],
  groupLine: "#c3ccd8",
  groupText: "#465262",
  edge: "#98a4b3",
  accent: "#2563eb",
  accentSoft: "rgba(37, 99, 235, 0.22)",
  upstream: "#0b7285",
  downstream: "#c2410c",
  match: "#b45309",
  fault: "#c81e1e",
  added: "#15803d",
  removed: "#be123c",
  changed: "#a16207",
  tints: {
    product: tint("#dbe8fd", "#7ba6ea", "#173a75"),
    attention: tint("#e9e0fb", "#a88ae0", "#472381"),
    norm: tint("#d8f0e2", "#76bb95", "#0f4b2c"),
    activation: tint("#fde4d6", "#e2a07e", "#7a2f0c"),
    pool: tint("#d3eff1", "#70b9c0", "#0b474e"),
    shape: tint("#eeebe3", "#bdb39f", "#4b4231"),
    quantise: tint("#fadfea", "#d990b2", "#76204a"),
    control: tint("#f8eec0", "#cdb653", "#554605"),
    function: tint("#e2e3fb", "#989be0", "#2d2f80"),
    other: tint("#e9edf1", "#aab5c1", "#333d49"),
    input: tint("#2f3843", "#2f3843", "#ffffff"),
    output: tint("#2f3843", "#2f3843", "#ffffff"),
    fold: tint("#ffffff", "#8e9bab", "#2a333e"),
  },
};

export const DARK: Palette = {
  isDark: true,
  ground: "#0e1116",
  dots: "#1f252d",
  card: "#1a2029",
  shadow: "rgba(0, 0, 0, 0.45)",
  text: "#e7ebf0",
  muted: "#9aa6b4",
  groups: ["#141920", "#191f28", "#1f2630", "#252d38"],
  groupLine: "#343e4b",
  groupText: "#b3bfcc",
  edge: "#5b6776",
  accent: "#6ea0ff",
  accentSoft: "rgba(110, 160, 255, 0.28)",
  upstream: "#4dd0e1",
  downstream: "#ffa466",
  match: "#f5b84b",
  fault: "#ff6b6b",
  added: "#4ade80",
  removed: "#fb7185",
  changed: "#facc15",
  tints: {
    product: tint("#1d3762", "#3d6bb5", "#d3e3ff"),
    attention: tint("#3a2763", "#7552b8", "#e8dcff"),
    norm: tint("#17412b", "#378860", "#cdf2dd"),
    activation: tint("#54301d", "#a8623c", "#ffdfcd"),
    pool: tint("#143f45", "#318189", "#c9f1f5"),
    shape: tint("#38342a", "#746b56", "#ebe5d6"),
    quantise: tint("#4e2138", "#a04c77", "#ffd9e9"),
    control: tint("#443a10", "#8d7b2b", "#f9edb5"),
    function: tint("#2a2c62", "#5f63b8", "#dcdeff"),
    other: tint("#2a323c", "#566373", "#dbe3ec"),
    input: tint("#d5dce5", "#d5dce5", "#151a21"),
    output: tint("#d5dce5", "#d5dce5", "#151a21"),
    fold: tint("#1d242e", "#66748a", "#e2e8f0"),
  },
};

/** The colour of a share of heat between 0 and 1: from calm to hot, readable under `text`. */
export function heatColour(heat: number, isDark: boolean): string {
  const share = Math.min(1, Math.max(0, heat));
  const hue = 52 - 46 * share;
  return isDark ? `hsl(${hue} ${40 + 40 * share}% ${18 + 14 * share}%)` : `hsl(${hue} ${70 + 25 * share}% ${94 - 26 * share}%)`;
}

export const SANS = 'Inter, ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
