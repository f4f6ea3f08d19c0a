// `node test.js`: compares the model with answers that were stored when it was exported.
import { readFile } from "node:fs/promises";
import { load } from "./model.js";

const { inputs, outputs, tolerance } = JSON.parse(await readFile(new URL("test.json", import.meta.url), "utf-8"));

function tensor({ kind, dims, bytes }) {
    const raw = Buffer.from(bytes, "base64");
    const copy = raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.byteLength);
    return { data: new globalThis[kind](copy), dims };
}

function isNear(found, wanted) {
    if (typeof wanted === "bigint") return found === wanted;
    const isSame = Object.is(found, wanted) || found === wanted;
    return isSame || Math.abs(found - wanted) <= tolerance * (1 + Math.abs(wanted));
}

const model = await load();
const feeds = Object.fromEntries(Object.entries(inputs).map(([name, stored]) => [name, tensor(stored)]));
const begin = performance.now();
const found = model.run(feeds);
console.log(`one run: ${(performance.now() - begin).toFixed(1)} ms`);
for (const [name, stored] of Object.entries(outputs)) {
    const { data, dims } = tensor(stored);
    if (String(dims) !== String(found[name].dims))
        throw new Error(`${name} has the dims ${found[name].dims}, expected ${dims}`);
    data.forEach((wanted, place) => {
        if (!isNear(found[name].data[place], wanted))
            throw new Error(`${name}[${place}] is ${found[name].data[place]}, expected ${wanted}`);
    });
    console.log(`${name}: ${data.length} numbers are right`);
}
