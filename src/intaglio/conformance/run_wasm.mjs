// Runs exported models, one a line of standard input: {"folder": URL, "inputs": {name: {kind, dims, bytes}}}.
import { createInterface } from "node:readline";

const stored = ({ data, dims }) => ({
    dims, bytes: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64"),
});

function tensor({ kind, dims, bytes }) {
    const raw = Buffer.from(bytes, "base64");
    const copy = raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.byteLength);
    return { data: new globalThis[kind](copy), dims };
}

const models = new Map();
for await (const line of createInterface({ input: process.stdin })) {
    const { folder, inputs } = JSON.parse(line);
    try {
        if (!models.has(folder)) {
            models.clear();
            models.set(folder, await (await import(`${folder}/model.js`)).load());
        }
        const feeds = Object.fromEntries(Object.entries(inputs).map(([name, given]) => [name, tensor(given)]));
        const found = Object.values(models.get(folder).run(feeds));
        console.log(JSON.stringify({ outputs: found.map(stored) }));
    } catch (error) {
        console.log(JSON.stringify({ error: String(error) }));
    }
}
