/** One input of a run: random, typed numbers or text, or a file. */

export type InputChoice =
  | { readonly kind: "random" }
  | { readonly kind: "typed"; readonly text: string }
  | { readonly kind: "file"; readonly file: File };

export function InputField({ name, type, choice, set }: { name: string; type: string; choice: InputChoice; set: (choice: InputChoice) => void }) {
  const drop = (event: DragEvent) => {
    event.preventDefault();
    const file = event.dataTransfer?.files[0];
    if (file) set({ kind: "file", file });
  };
  return (
    <fieldset class="input" onDragOver={(event) => event.preventDefault()} onDrop={drop}>
      <legend>
        <span class="value">{name}</span> <span class="type">{type}</span>
      </legend>
      <select aria-label={`How ${name} is given`} value={choice.kind} onChange={(event) => set(event.currentTarget.value === "typed" ? { kind: "typed", text: "" } : { kind: "random" })}>
        <option value="random">random</option>
        <option value="typed">typed</option>
        {choice.kind === "file" && <option value="file">{choice.file.name}</option>}
      </select>
      {choice.kind === "typed" && (
        <textarea rows={3} placeholder={isText(type) ? "text" : "[[1, 2], [3, 4]]"} aria-label={`Elements of ${name}`} value={choice.text} onInput={(event) => set({ kind: "typed", text: event.currentTarget.value })} />
      )}
      <label class="hint">
        or drop a .npy file, a picture or a text here:{" "}
        <input
          type="file"
          accept=".npy,image/*,.txt,.json"
          onChange={(event) => {
            const file = event.currentTarget.files?.[0];
            if (file) set({ kind: "file", file });
          }}
        />
      </label>
    </fieldset>
  );
}

function isText(type: string): boolean {
  return type.startsWith("string");
}

/** What the server takes for a choice. */
export async function payloadOf(choice: InputChoice, type: string): Promise<unknown> {
  if (choice.kind === "random") return "random";
  const dtype = /^\w+/.exec(type)?.[0] ?? "float32";
  if (choice.kind === "typed") return isText(type) && !/^\s*\[/.test(choice.text) ? { json: choice.text } : { values: choice.text.trim() || "[]", dtype };
  const { file } = choice;
  if (file.name.endsWith(".npy")) return { npy: base64(new Uint8Array(await file.arrayBuffer())) };
  if (file.type.startsWith("image/")) return pictureOf(file, type, dtype);
  const content = await file.text();
  return isText(type) ? { json: content } : { values: content, dtype };
}

/** Bytes in base64. */
export function base64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  return btoa(text);
}

/** A picture at the size of an input: channels first or last, numbers from 0 to 1, or bytes for integer inputs. */
async function pictureOf(file: File, type: string, dtype: string): Promise<unknown> {
  const sizes = (/\[([^\]]*)\]/.exec(type)?.[1] ?? "").split(",").map((size) => Number(size.trim()));
  const isFirst = sizes.at(-3) === 1 || sizes.at(-3) === 3;
  const channels = isFirst ? sizes.at(-3)! : sizes.at(-1) === 1 ? 1 : 3;
  const picture = await createImageBitmap(file);
  const height = (isFirst ? sizes.at(-2) : sizes.at(-3)) || picture.height;
  const width = (isFirst ? sizes.at(-1) : sizes.at(-2)) || picture.width;
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d")!;
  context.drawImage(picture, 0, 0, width, height);
  const pixels = context.getImageData(0, 0, width, height).data;
  const array = arrangePixels(pixels, width, height, channels, isFirst, dtype.startsWith("float") || dtype.startsWith("bfloat") ? 255 : 1);
  return { values: nested(array, isFirst ? [1, channels, height, width] : [1, height, width, channels]), dtype };
}

/** The channels of pixels in the order of an input. */
export function arrangePixels(pixels: Uint8ClampedArray, width: number, height: number, channels: number, isFirst: boolean, divisor: number): Float64Array {
  const found = new Float64Array(width * height * channels);
  for (let pixel = 0; pixel < width * height; pixel++)
    for (let channel = 0; channel < channels; channel++) {
      const [red, green, blue] = [pixels[4 * pixel]!, pixels[4 * pixel + 1]!, pixels[4 * pixel + 2]!];
      const value = channels === 1 ? Math.round(0.299 * red + 0.587 * green + 0.114 * blue) : [red, green, blue][channel]!;
      found[isFirst ? channel * width * height + pixel : pixel * channels + channel] = value / divisor;
    }
  return found;
}

/** Numbers in nested lists of a shape. */
export function nested(numbers: ArrayLike<number>, shape: readonly number[]): unknown {
  const build = (axis: number, at: number, stride: number): unknown => {
    if (axis === shape.length) return numbers[at];
    const inner = stride / shape[axis]!;
    return Array.from({ length: shape[axis]! }, (_, place) => build(axis + 1, at + place * inner, inner));
  };
  return build(0, 0, numbers.length);
}
