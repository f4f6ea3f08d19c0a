// A thread of a model: an instance of its module in the memory that all of them share; written by Intaglio.
const isNode = typeof process !== "undefined" && Boolean(process.versions?.node);
const port = isNode ? (await import("node:worker_threads")).parentPort : globalThis;

async function begin({ module, memory, stack, tls }) {
    const none = () => 0; // only the first thread draws seeds
    const imports = { env: { memory }, wasi_snapshot_preview1: { random_get: none } };
    const { exports } = await WebAssembly.instantiate(module, imports);
    exports.__stack_pointer.value = stack;
    if (exports.__tls_size.value > 0) exports.__wasm_init_tls(tls);
    port.postMessage("ready");
    exports.model_thread(); // which does not come back
}

if (isNode) port.on("message", begin);
else port.onmessage = ({ data }) => begin(data);
