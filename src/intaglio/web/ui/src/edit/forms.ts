/** From what a person typed into a form to the arguments of a command. */

import type { ParameterJson } from "../data/protocol.ts";

/** What a field holds: text, or a file that becomes an array. */
export type FieldValue = string | { readonly npy: string } | undefined;

/** The argument that a field means; undefined leaves it out. Raises an Error that names the field. */
export function argumentOf(parameter: ParameterJson, value: FieldValue, dtype = "float32"): unknown {
  if (typeof value === "object") return value;
  const text = value?.trim() ?? "";
  if (text === "" && parameter.kind !== "value") {
    if (parameter.required && !["text", "attribute value", "values", "names"].includes(parameter.kind)) throw new Error(`${parameter.name} is missing`);
    if (!parameter.required) return undefined;
  }
  switch (parameter.kind) {
    case "node":
      return /^\d+$/.test(text) ? Number(text) : text;
    case "integer":
      return integer(parameter.name, text);
    case "integers":
      return list(text).map((each) => integer(parameter.name, each));
    case "size":
      return size(text);
    case "shape":
      return shape(text);
    case "shapes":
      return Object.fromEntries(pairs(parameter.name, text).map(([name, sizes]) => [name, shape(sizes)]));
    case "values":
    case "texts":
      return list(text);
    case "names":
      return text.includes("=") || parameter.type?.includes("Mapping") ? Object.fromEntries(pairs(parameter.name, text)) : list(text);
    case "flag":
      return text === "yes";
    case "array":
      return { values: text, dtype };
    case "attributes":
      return text ? attributes(text) : {};
    case "attribute value":
      return attributeValue(text);
    case "model":
      return { model: text };
    default:
      return text;
  }
}

function integer(name: string, text: string): number {
  if (!/^-?\d+$/.test(text)) throw new Error(`${name} is "${text}", expected a whole number`);
  return Number(text);
}

/** Names with commas or on lines of their own. */
export function list(text: string): string[] {
  const found = text.split(/[,\n]/).map((each) => each.trim());
  return found.length === 1 && found[0] === "" ? [] : found;
}

/** A size: a number, a name, or nothing for one that is not known. */
export function size(text: string): number | string | null {
  const clean = text.trim();
  return clean === "" || clean === "?" ? null : /^\d+$/.test(clean) ? Number(clean) : clean;
}

/** A shape: 1, 3, height, ? */
export function shape(text: string): (number | string | null)[] {
  const inside = text.trim().replace(/^\[|\]$/g, "");
  return inside.trim() === "" ? [] : inside.split(/[,x×]/).map(size);
}

function pairs(name: string, text: string): [string, string][] {
  return text
    .split(/[;\n]/)
    .map((line) => line.trim())
    .filter(Boolean)
    .map((line) => {
      const at = line.indexOf("=");
      if (at < 1) throw new Error(`${name}: "${line}" is no pair such as input = 1, 3, n; put each on a line of its own`);
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    });
}

/** Attributes on lines of their own: axis = 1 */
export function attributes(text: string): Record<string, unknown> {
  return Object.fromEntries(pairs("attributes", text).map(([name, value]) => [name, attributeValue(value)]));
}

/** A number, a list of them, a text in quotes or not; nothing takes an attribute away. */
export function attributeValue(text: string): unknown {
  const clean = text.trim();
  if (clean === "") return null;
  try {
    const found: unknown = JSON.parse(clean);
    return found;
  } catch {
    const inside = /^\(?([-+.\d\seE,]+)\)?$/.exec(clean)?.[1];
    if (inside?.includes(",")) return inside.split(",").filter((each) => each.trim()).map(Number);
    return clean;
  }
}
