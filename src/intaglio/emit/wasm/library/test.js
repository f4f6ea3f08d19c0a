// Compares the model with answers that were stored when it was exported: `node test.js`, or open test.html.
import { load } from "./model.js";

const isNode = typeof process !== "undefined" && Boolean(process.versions?.node);

async function example() {
    const url = new URL("test.json", import.meta.url);
    if (!isNode) return (await fetch(url)).json();
    const { readFile } = await import("node:fs/promises");
    return JSON.parse(await readFile(url, "utf-8"));
}

function tensor({ kind, dims, bytes }) {
    const raw = Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0));
    return { data: new globalThis[kind](raw.buffer), dims };
}

function isNear(found, wanted, tolerance) {
    if (typeof wanted === "bigint") return found === wanted;
    const isSame = Object.is(found, wanted) || found === wanted;
    return isSame || Math.abs(found - wanted) <= tolerance * (1 + Math.abs(wanted));
}

/** Runs the example and tells what was found; raises an error where a number is wrong. */
export async function check(say) {
    const { inputs, outputs, tolerance } = await example();
    const model = await load();
    const feeds = Object.fromEntries(Object.entries(inputs).map(([name, stored]) => [name, tensor(stored)]));
    const begin = performance.now();
    const found = model.run(feeds);
    say(`one run: ${(performance.now() - begin).toFixed(1)} ms, threads: ${model.threads}`);
    for (const [name, stored] of Object.entries(outputs)) {
        const { data, dims } = tensor(stored);
        if (String(dims) !== String(found[name].dims))
            throw new Error(`${name} has the dims ${found[name].dims}, expected ${dims}`);
        data.forEach((wanted, place) => {
            if (!isNear(found[name].data[place], wanted, tolerance))
                throw new Error(`${name}[${place}] is ${found[name].data[place]}, expected ${wanted}`);
        });
        say(`${name}: ${data.length} numbers are right`);
    }
}

if (isNode) await check(console.log);
