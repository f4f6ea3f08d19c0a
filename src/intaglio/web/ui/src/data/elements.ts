/** Elements of a tensor from the bytes that a standalone file holds. */

type Reader = (view: DataView, at: number) => number | string | boolean;

const READERS: Record<string, [number, Reader]> = {
  float64: [8, (view, at) => view.getFloat64(at, true)],
  float32: [4, (view, at) => view.getFloat32(at, true)],
  float16: [2, (view, at) => half(view.getUint16(at, true))],
  bfloat16: [2, (view, at) => brain(view.getUint16(at, true))],
  int64: [8, (view, at) => whole(view.getBigInt64(at, true))],
  uint64: [8, (view, at) => whole(view.getBigUint64(at, true))],
  int32: [4, (view, at) => view.getInt32(at, true)],
  uint32: [4, (view, at) => view.getUint32(at, true)],
  int16: [2, (view, at) => view.getInt16(at, true)],
  uint16: [2, (view, at) => view.getUint16(at, true)],
  int8: [1, (view, at) => view.getInt8(at)],
  uint8: [1, (view, at) => view.getUint8(at)],
  bool: [1, (view, at) => view.getUint8(at) !== 0],
};

/** Some elements of little-endian bytes in base64; none for types that this page cannot read. */
export function elementsOf(data: string, dtype: string, start: number, count: number): (number | string | boolean)[] {
  const known = Object.hasOwn(READERS, dtype) ? READERS[dtype] : undefined;
  if (!known) return [];
  const [size, read] = known;
  const text = atob(data);
  const total = Math.floor(text.length / size);
  const found: (number | string | boolean)[] = [];
  const view = new DataView(new ArrayBuffer(size));
  for (let element = start; element < Math.min(start + count, total); element++) {
    for (let byte = 0; byte < size; byte++) view.setUint8(byte, text.charCodeAt(element * size + byte));
    const value = read(view, 0);
    found.push(typeof value === "number" && !Number.isFinite(value) ? String(value) : value);
  }
  return found;
}

function whole(value: bigint): number | string {
  return value >= -9007199254740991n && value <= 9007199254740991n ? Number(value) : String(value);
}

/** The number of 16 bits of half precision. */
export function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function brain(bits: number): number {
  const view = new DataView(new ArrayBuffer(4));
  view.setUint32(0, bits << 16);
  return view.getFloat32(0);
}
