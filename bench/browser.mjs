// One model under Intaglio's WebAssembly and onnxruntime-web in turn, one thread each: {"wasm", "onnx", "feeds", "rounds"}.
// Times are of the processor. A module runs as it was compiled at a first glance until its functions have been optimised
// in the background, so turns are only counted behind a second of warming up.
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import * as ort from "onnxruntime-web";

const job = JSON.parse(await readFile(process.argv[2], "utf-8"));
const kinds = { float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array, bool: Uint8Array };

function decoded({ type, dims, bytes }) {
    const raw = Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0));
    return { type, dims, data: new kinds[type](raw.buffer) };
}

const feeds = Object.fromEntries(Object.entries(job.feeds).map(([name, stored]) => [name, decoded(stored)]));
ort.env.wasm.numThreads = 1;
const WARM_MS = 1500;
const clock = async (work) => {
    const begin = performance.now();
    const result = await work();
    return [result, performance.now() - begin];
};
const [model, ourLoad] = await clock(async () => {
    const { load } = await import(pathToFileURL(`${job.wasm}/model.js`).href);
    return load();
});
const [session, theirLoad] = await clock(async () =>
    ort.InferenceSession.create(await readFile(job.onnx), { executionProviders: ["wasm"] }));
const given = Object.fromEntries(
    Object.entries(feeds).map(([name, { type, data, dims }]) => [name, new ort.Tensor(type, data, dims)]));

const used = async (work) => {
    const begin = process.cpuUsage();
    const result = await work();
    const { user, system } = process.cpuUsage(begin);
    return [result, (user + system) / 1000];
};
const ours = [], theirs = [];
let found, expected;
for (let warm = 0, round = 0; warm < WARM_MS || round < 5; round++) {
    warm += (await used(() => session.run(given)))[1];
    warm += (await used(() => model.run(feeds)))[1];
}
for (let round = 0; round < job.rounds; round++) {
    let taken;
    [expected, taken] = await used(() => session.run(given));
    theirs.push(taken);
    [found, taken] = await used(() => model.run(feeds));
    ours.push(taken);
}
let error = 0;
for (const name of session.outputNames) {
    const wanted = expected[name].data, got = found[name].data;
    let scale = 0, worst = 0;
    wanted.forEach((value, place) => {
        scale = Math.max(scale, Math.abs(Number(value)));
        worst = Math.max(worst, Math.abs(Number(value) - Number(got[place])));
    });
    error = Math.max(error, scale ? worst / scale : worst);
}
const median = (times) => [...times].sort((a, b) => a - b)[times.length >> 1];
console.log(JSON.stringify({ ours: median(ours), theirs: median(theirs), ourLoad, theirLoad, error }));
