/** The picture as a file: SVG with text as text, or PNG. */

import { type Face, ROW_HEIGHT, ROW_SIZE, TITLE_HEIGHT, TITLE_SIZE } from "../graph/faces.ts";
import type { Palette } from "../theme/palette.ts";
import { fitting, type Size } from "./camera.ts";
import { type Look, Painter } from "./painter.ts";
import type { Scene } from "./scene.ts";

const MOST_PIXELS = 60_000_000;
const MOST_SIDE = 16_000;

/** Text for XML: marks are escaped, characters that XML forbids are replaced. */
export function clean(text: string): string {
  const allowed = text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ud800-\udfff\ufffe\uffff\u202a-\u202e]/g, "\ufffd");
  return allowed.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}

const near = (value: number) => value.toFixed(1);

/** The whole scene as the text of an SVG file, without scripts and without anything from outside. */
export function svgOf(scene: Scene, palette: Palette, face: (box: number) => Face, title: string): string {
  const { picture } = scene;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${near(picture.totalWidth)}" height="${near(picture.totalHeight)}" viewBox="0 0 ${near(picture.totalWidth)} ${near(picture.totalHeight)}" role="img" font-family="Inter, Helvetica, Arial, sans-serif">`,
    `<title>${clean(title)}</title>`,
    `<rect width="100%" height="100%" fill="${palette.ground}"/>`,
  ];
  for (const place of scene.groups) parts.push(groupSvg(scene, palette, place, face));
  parts.push(`<g fill="none" stroke="${palette.edge}" stroke-width="1.3">`);
  for (let curve = 0; curve < picture.curveValue.length; curve++) parts.push(`<path d="${pathOf(picture.points, picture.curveStart[curve]!, picture.curveStart[curve + 1]!)}"/>`);
  parts.push("</g>");
  for (const place of scene.leafPlaces) parts.push(leafSvg(scene, palette, place, face(picture.box[place]!)));
  parts.push("</svg>\n");
  return parts.join("\n");
}

function pathOf(points: Float64Array, begin: number, end: number): string {
  let [x, y] = [points[2 * begin]!, points[2 * begin + 1]!];
  const parts = [`M${near(x)} ${near(y)}`];
  for (let point = begin + 1; point < end; point++) {
    const [a, b] = [points[2 * point]!, points[2 * point + 1]!];
    const middle = near((y + b) / 2);
    parts.push(Math.abs(a - x) < 0.05 ? `V${near(b)}` : `C${near(x)} ${middle} ${near(a)} ${middle} ${near(a)} ${near(b)}`);
    [x, y] = [a, b];
  }
  return parts.join("");
}

function groupSvg(scene: Scene, palette: Palette, place: number, face: (box: number) => Face): string {
  const { picture } = scene;
  const [x, y] = [picture.x[place]!, picture.y[place]!];
  const fill = palette.groups[(picture.depth[place]! - 1) % palette.groups.length];
  return (
    `<rect x="${near(x)}" y="${near(y)}" width="${near(picture.width[place]!)}" height="${near(picture.height[place]!)}" rx="10" fill="${fill}" stroke="${palette.groupLine}"/>` +
    `<text x="${near(x + 14)}" y="${near(y + 18)}" font-size="${TITLE_SIZE - 1}" font-weight="600" fill="${palette.groupText}">${clean(face(picture.box[place]!).title)}</text>`
  );
}

function leafSvg(scene: Scene, palette: Palette, place: number, face: Face): string {
  const { picture } = scene;
  const [x, y, width, height] = [picture.x[place]!, picture.y[place]!, picture.width[place]!, picture.height[place]!];
  const tint = palette.tints[face.category];
  const isPlain = ["input", "output", "fold"].includes(face.category);
  const radius = face.category === "input" || face.category === "output" ? 13 : 7;
  const frame = `x="${near(x)}" y="${near(y)}" width="${near(width)}" rx="${radius}"`;
  const header = Math.min(height, TITLE_HEIGHT);
  const parts = [`<rect ${frame} height="${near(height)}" fill="${isPlain ? tint.face : palette.card}" stroke="${tint.line}"/>`];
  if (!isPlain) parts.push(`<rect ${frame} height="${near(header)}" fill="${tint.face}" stroke="${tint.line}"/>`);
  parts.push(`<text x="${near(x + 10)}" y="${near(y + 16.5)}" font-size="${TITLE_SIZE}" font-weight="600" fill="${tint.text}">${clean(face.title)}</text>`);
  const muted = isPlain ? tint.text : palette.muted;
  face.rows.forEach((row, number) => {
    const base = near(y + TITLE_HEIGHT + 7 + ROW_HEIGHT * (number + 0.5));
    parts.push(`<text x="${near(x + 10)}" y="${base}" font-size="${ROW_SIZE}" fill="${muted}">${clean(row.name || row.text)}</text>`);
    if (row.name) parts.push(`<text x="${near(x + width - 10)}" y="${base}" font-size="${ROW_SIZE}" text-anchor="end" fill="${palette.text}">${clean(row.text)}</text>`);
  });
  return parts.join("");
}

/** The size of a PNG of the whole scene: twice its natural size, less where that would be too large. */
export function pngSize(whole: Size): Size & { scale: number } {
  const scale = Math.min(2, Math.sqrt(MOST_PIXELS / Math.max(1, whole.width * whole.height)), MOST_SIDE / whole.width, MOST_SIDE / whole.height);
  return { width: Math.max(1, Math.floor(whole.width * scale)), height: Math.max(1, Math.floor(whole.height * scale)), scale };
}

/** The whole scene as a PNG; very large ones are made smaller. */
export async function pngOf(scene: Scene, palette: Palette, look: Look): Promise<Blob> {
  const whole = { width: scene.picture.totalWidth, height: scene.picture.totalHeight };
  const size = pngSize(whole);
  const canvas = document.createElement("canvas");
  canvas.width = size.width;
  canvas.height = size.height;
  const camera = { ...fitting(size, { x: 0, y: 0, ...whole }), x: 0, y: 0, zoom: size.scale };
  new Painter(canvas.getContext("2d")!, palette, scene, look, camera, size).paint();
  return new Promise((done, failed) => canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("The browser made no picture of this size. SVG works."))), "image/png"));
}

/** Give a person a file. */
export function offer(name: string, blob: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replace(/[^\w.-]+/g, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
