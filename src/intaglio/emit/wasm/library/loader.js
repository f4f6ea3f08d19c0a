// Loads a model that is a WebAssembly module, and runs it; written by Intaglio.

const ARRAYS = {
    float: Float32Array, double: Float64Array, bool: Uint8Array,
    int8_t: Int8Array, int16_t: Int16Array, int32_t: Int32Array, int64_t: BigInt64Array,
    uint8_t: Uint8Array, uint16_t: Uint16Array, uint32_t: Uint32Array, uint64_t: BigUint64Array,
};
const ALIGNMENT = 64;
const PAGE = 65536;
const NO_ROOM = __NO_ROOM__; // the status of an output that is larger than the room for it
const FIRST_ROOM = 1024;
const MOST_ROOM = 2 ** 28;
const SHARED = { initial: __INITIAL_PAGES__, maximum: __MOST_PAGES__, shared: true };
const STACK = 2 ** 22; // bytes for each thread but the first

const aligned = (bytes) => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
const isFile = (url) => url.protocol === "file:";
const product = (dims) => dims.reduce((a, b) => a * b, 1);

/** The functions that sizes are computed with. */
export const sizing = {
    floordiv: (a, b) => (b ? Math.floor(a / b) : 0),
    ceildiv: (a, b) => (b ? Math.ceil(a / b) : 0),
    mod: (a, b) => (b ? a - Math.floor(a / b) * b : 0),
    broadcast: (a, b) => (a === 1 ? b : a),
    min: Math.min,
    max: Math.max,
};

/** A model in memory. One run at a time; several models are several instances. */
export class Model {
    #workers;

    constructor({ exports, memory, workers }, described, weights, free) {
        this.exports = exports;
        this.memory = memory;
        this.#workers = workers;
        this.described = described;
        this.weights = weights;
        this.free = free;
    }

    /** The names, types and shapes of the inputs; sizes that the caller chooses are names. */
    get inputs() {
        return this.described.inputs.map(({ name, dtype, dims }) => ({ name, type: dtype, dims }));
    }

    get outputs() {
        return this.described.outputs.map(({ name, dtype, dims }) => ({ name, type: dtype, dims }));
    }

    /** How many threads there are, this one included. */
    get threads() {
        return this.#workers.length + 1;
    }

    /** Ends the threads; runs go on without them. */
    close() {
        this.exports.model_use_threads?.(1);
        for (const worker of this.#workers.splice(0)) worker.terminate();
    }

    /**
     * Run on typed arrays by name: either `{data, dims}`, or the array alone where no size of the input is open.
     * Gives `{name: {data, dims, type}}`; the arrays belong to the caller.
     */
    run(feeds) {
        const given = this.described.inputs.map((input) => this.#taken(input, feeds));
        for (const name of Object.keys(feeds))
            if (!this.described.inputs.some((input) => input.name === name))
                throw new Error(`there is no input ${JSON.stringify(name)}; the inputs are ${this.#names()}`);
        const sizes = this.#sizes(given);
        for (let room = FIRST_ROOM; ; room *= 4) {
            const { status, outputs } = this.#call(given, sizes, room);
            if (status === 0) return outputs;
            if (status !== NO_ROOM || room >= MOST_ROOM) throw new Error(`the run failed: ${this.#text(status)}`);
        }
    }

    #names() {
        return this.described.inputs.map((input) => JSON.stringify(input.name)).join(", ");
    }

    #taken(input, feeds) {
        const fed = feeds[input.name];
        if (fed === undefined) {
            if (input.isOptional) return null;
            throw new Error(`no value for the input ${JSON.stringify(input.name)}; the inputs are ${this.#names()}`);
        }
        const data = ArrayBuffer.isView(fed) ? fed : fed.data;
        const dims = fed.dims ? Array.from(fed.dims, Number) : input.dims;
        if (!(data instanceof ARRAYS[input.type]))
            throw new Error(`${input.name} is a ${data?.constructor?.name}, expected a ${ARRAYS[input.type].name}`);
        if (dims.length !== input.dims.length)
            throw new Error(`${input.name} has ${dims.length} dims, expected ${input.dims.length}: ${input.dims}`);
        if (dims.some((size) => typeof size !== "number"))
            throw new Error(`${input.name} has open sizes: give {data, dims} with numbers for ${input.dims}`);
        const count = product(dims) * input.parts;
        if (data.length !== count)
            throw new Error(`${input.name} has ${data.length} numbers, its dims ${dims} need ${count}`);
        return { data, dims };
    }

    #sizes(given) {
        const sizes = {};
        for (const [name, [input, axis]] of Object.entries(this.described.sizes))
            sizes[name] = given[input] === null ? 0 : given[input].dims[axis];
        this.described.inputs.forEach((input, place) => {
            if (given[place] === null) return;
            const expected = input.shape(sizes);
            if (expected.some((size, axis) => size !== given[place].dims[axis]))
                throw new Error(`${input.name} has the dims ${given[place].dims}, expected ${expected}`);
        });
        return sizes;
    }

    #call(given, sizes, room) {
        const values = Object.values(sizes).map(BigInt);
        const arena = Number(this.exports.model_arena_bytes(...values));
        if (arena < 0) throw new Error("the run failed: sizes are negative or too large");
        let top = this.free;
        const place = (bytes) => {
            const start = top;
            top += aligned(bytes);
            return start;
        };
        const { inputs, outputs } = this.described;
        const from = inputs.map((_, index) => (given[index] === null ? 0 : place(given[index].data.byteLength)));
        const into = outputs.map((output) => {
            const count = output.shape === null ? room : product(output.shape(sizes)) * output.parts;
            return { count, at: place(count * ARRAYS[output.type].BYTES_PER_ELEMENT), told: place(8 * output.dims.length) };
        });
        const memory = place(arena);
        this.#reach(top);
        const { buffer } = this.memory;
        inputs.forEach((input, index) => {
            if (given[index] !== null)
                new ARRAYS[input.type](buffer, from[index], given[index].data.length).set(given[index].data);
        });
        const late = (output, { at, told }) => (output.shape === null ? [at, BigInt(room), told] : [at]);
        const status = this.exports.model_run(
            ...values, ...from, ...outputs.flatMap((output, index) => late(output, into[index])), memory,
            ...(this.described.hasWeights ? [this.weights] : []),
        );
        return { status, outputs: status ? null : this.#results(outputs, into, sizes) };
    }

    #results(outputs, into, sizes) {
        const { buffer } = this.memory;
        const found = {};
        outputs.forEach((output, index) => {
            const { at, told } = into[index];
            const rank = output.dims.length;
            const dims = output.shape === null
                ? Array.from(new BigInt64Array(buffer, told, rank), Number)
                : output.shape(sizes);
            const data = new ARRAYS[output.type](buffer, at, product(dims) * output.parts).slice();
            found[output.name] = { data, dims, type: output.dtype };
        });
        return found;
    }

    #reach(bytes) {
        const missing = bytes - this.memory.buffer.byteLength;
        if (missing > 0) this.memory.grow(Math.ceil(missing / PAGE));
    }

    #text(status) {
        const bytes = new Uint8Array(this.memory.buffer, this.exports.model_error(status));
        return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
    }
}

/** Reads `url` in parts, and gives each part with the bytes that came before it. */
async function read(url, take) {
    if (isFile(url)) {
        const { createReadStream } = await import("node:fs");
        let done = 0;
        for await (const part of createReadStream(url)) {
            take(part, done);
            done += part.length;
        }
        return done;
    }
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`${url} cannot be loaded: ${answer.status} ${answer.statusText}`);
    const reader = answer.body.getReader();
    for (let done = 0; ; ) {
        const { value, done: isOver } = await reader.read();
        if (isOver) return done;
        take(value, done);
        done += value.length;
    }
}

async function compiled(url) {
    if (!isFile(url)) return WebAssembly.compileStreaming(fetch(url));
    const { readFile } = await import("node:fs/promises");
    return WebAssembly.compile(await readFile(url));
}

/** An instance, with its memory: its own, or one that is given. */
async function instantiate(module, given) {
    let memory = given;
    const imports = {
        env: { memory: given },
        wasi_snapshot_preview1: { // seeds of random numbers; a model that draws none imports nothing
            random_get(place, count) {
                const drawn = globalThis.crypto.getRandomValues(new Uint8Array(count));
                new Uint8Array(memory.buffer, place, count).set(drawn);
                return 0;
            },
        },
    };
    const { exports } = await WebAssembly.instantiate(module, imports);
    memory ??= exports.memory;
    exports._initialize?.();
    return { exports, memory, workers: [], free: aligned(exports.__heap_base.value) };
}

/** How many threads a model gets: as many as are wanted, the machine has, and the export allows; else one. */
async function threadsFor(most, wanted) {
    const isShared = typeof SharedArrayBuffer !== "undefined" && globalThis.crossOriginIsolated !== false;
    if (most < 2 || !isShared) return 1;
    const cores = globalThis.navigator?.hardwareConcurrency ?? (await import("node:os")).availableParallelism();
    return Math.max(1, Math.min(most, wanted ?? cores));
}

async function startWorker(message) {
    const url = new URL("./worker.js", import.meta.url);
    const isNode = typeof Worker === "undefined" || isFile(url);
    const Kind = isNode ? (await import("node:worker_threads")).Worker : Worker;
    const worker = new Kind(url, { type: "module" });
    const isReady = new Promise((resolve, reject) => {
        if (isNode) {
            worker.once("message", resolve);
            worker.once("error", reject);
        } else {
            worker.onmessage = resolve;
            worker.onerror = ({ message: text }) => reject(new Error(`worker.js cannot be run: ${text}`));
        }
        worker.postMessage(message);
    });
    try {
        await isReady;
    } catch (error) {
        worker.terminate();
        throw error;
    }
    if (isNode) worker.unref(); // it does not keep a program alive that is done
    return worker;
}

/** An instance in shared memory with its workers. */
async function instantiateShared(base, threads) {
    const module = await compiled(new URL("model.threads.wasm", base));
    const made = await instantiate(module, new WebAssembly.Memory(SHARED));
    const tls = aligned(made.exports.__tls_size.value);
    const starts = Array.from({ length: threads - 1 }, (_, index) => made.free + index * (STACK + tls));
    made.free += starts.length * (STACK + tls);
    const missing = made.free - made.memory.buffer.byteLength;
    if (missing > 0) made.memory.grow(Math.ceil(missing / PAGE));
    const { memory } = made;
    const started = await Promise.allSettled(
        starts.map((start) => startWorker({ module, memory, stack: start + STACK, tls: start + STACK })),
    );
    made.workers = started.filter(({ status }) => status === "fulfilled").map(({ value }) => value);
    const failed = started.find(({ status }) => status === "rejected");
    if (failed) {
        for (const worker of made.workers) worker.terminate();
        throw failed.reason;
    }
    made.exports.model_use_threads(threads);
    return made;
}

/** An instance with threads; with one thread, and a warning, where they cannot be had. */
async function instantiateBest(base, threads) {
    if (threads > 1)
        try {
            return await instantiateShared(base, threads);
        } catch (error) {
            console.warn(`the model runs on one thread, since others cannot be had: ${error.message}`);
        }
    return instantiate(await compiled(new URL("model.wasm", base)));
}

/**
 * The model in the folder `base`; `onProgress(loaded, total)` is told of weights as they come. `threads` is how many
 * threads it may have, where the page is isolated and the export has some: as many as the machine has unless told.
 */
export async function loadModel(base, described, { onProgress, threads } = {}) {
    const made = await instantiateBest(base, await threadsFor(described.threads, threads));
    const start = made.free;
    const total = described.weightBytes;
    const missing = start + total + PAGE - made.memory.buffer.byteLength;
    if (missing > 0) made.memory.grow(Math.ceil(missing / PAGE));
    if (described.hasWeights && total > 0) {
        const memory = new Uint8Array(made.memory.buffer, start, total);
        const loaded = await read(new URL("weights.bin", base), (part, before) => {
            if (before + part.length > total) throw new Error(`weights.bin has more than ${total} bytes`);
            memory.set(part, before);
            onProgress?.(before + part.length, total);
        });
        if (loaded !== total) throw new Error(`weights.bin has ${loaded} bytes, expected ${total}`);
    }
    return new Model(made, described, start, start + aligned(total));
}
