"""A graph as a folder for the browser: our kernels as WebAssembly, weights beside it, and JavaScript that runs them."""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from intaglio.emit.c.build import run_compiler
from intaglio.emit.c.building import flags
from intaglio.emit.c.interface import Port
from intaglio.emit.c.module import Written, write_model
from intaglio.emit.c.program import Example
from intaglio.emit.c.tasks import RUN_TASKS
from intaglio.emit.export import ExportRequest, Source
from intaglio.emit.names import comment
from intaglio.emit.wasm.script import ARRAYS, INITIAL_PAGES, LIBRARY, MOST_PAGES, loader_text, model_text, types_text
from intaglio.errors import CompileError
from intaglio.ir.op import Array

WEIGHTS = None
LEFT_OUT = ()

LINKING = ("-fno-sanitize=all", "-mexec-model=reactor", "-Wl,--strip-all")
LINKED = ("model_run", "model_arena_bytes", "model_error", "__heap_base")
SHARED = ("-mcpu=generic+atomics+bulk_memory+mutable_globals+simd128", "-Wl,--import-memory", "-Wl,--shared-memory",
          f"-Wl,--initial-memory={INITIAL_PAGES << 16}", f"-Wl,--max-memory={MOST_PAGES << 16}",
          *(f"-Wl,--export={name}" for name in ("__stack_pointer", "__tls_size", "__wasm_init_tls")))  # fmt: skip
"""What makes a module whose instances share a memory that they are given."""
TOLERANCE = 1e-4


def write(request: ExportRequest) -> Source:
    """All files of the folder; the module is compiled when the folder is there."""
    return write_wasm(request).source


@dataclass
class WrittenWasm:
    """The files, and the C that the module is made of."""

    source: Source
    c: Written


def write_wasm(request: ExportRequest, optimize: str = "-O3") -> WrittenWasm:
    """All files of the folder, and the C that they come from."""
    options = {"style": "fast", "target": "wasm", "globals": False, "measure": False, **request.options}
    written = write_model(replace(request, options=options, weights="bin"), has_program=False)
    interface = written.interface
    threads = written.options.threads if RUN_TASKS in written.source.files["model.c"] else 1
    example = written.example
    stored = None
    if example is not None and example.outputs is not None:
        stored = _stored(interface.inputs, interface.outputs, example)
    files = {
        "model.js": model_text(interface, written.weight_bytes if interface.takes_weights else 0, threads),
        "model.d.ts": types_text(interface),
        "loader.js": loader_text(),
        "index.html": _copied("index.html"),
        "package.json": json.dumps({"type": "module", "private": True}, indent=2) + "\n",
    }
    if threads > 1:
        files["worker.js"] = _copied("worker.js")
    if stored is not None:
        files |= {"test.json": stored, "test.js": _copied("test.js"), "test.html": _copied("test.html")}

    def save(folder: Path) -> list[str]:
        compile_wasm(written, folder / "model.wasm", optimize)
        shared = ["model.threads.wasm"] if threads > 1 else []
        for name in shared:
            compile_wasm(written, folder / name, optimize, is_shared=True)
        save_weights = written.source.save
        assert save_weights is not None, "the C has its weights in a file"
        return ["model.wasm", *shared, *(save_weights(folder) if interface.takes_weights else [])]

    return WrittenWasm(Source(files, {}, _readme(request, stored is not None, threads), save=save), written)


def _copied(name: str) -> str:
    return (LIBRARY / name).read_text(encoding="utf-8")


def compiler() -> list[str]:
    """The command that compiles C to WebAssembly; raises CompileError where there is none."""
    if importlib.util.find_spec("ziglang") is None:
        raise CompileError("WebAssembly needs the package ziglang, which is not installed: `pip install ziglang`")
    return [sys.executable, "-m", "ziglang", "cc", "-target", "wasm32-wasi"]


def compile_wasm(written: Written, path: Path, optimize: str = "-O3", is_shared: bool = False) -> None:
    """Compile the C of a model to a module that needs nothing from outside, or memory that its instances share."""
    chosen = [flag for flag in flags(written.options) if flag != "-O3"] + list(SHARED if is_shared else ())
    links = [*LINKING, *(f"-Wl,--export={name}" for name in LINKED)]
    with tempfile.TemporaryDirectory(prefix="intaglio-wasm-") as place:
        for name, text in written.source.files.items():
            (Path(place) / name).write_text(text, encoding="utf-8")
        source = f"{written.options.prefix}.c"
        command = [*compiler(), *chosen, optimize, *links, "-o", str(path.resolve()), source]
        run_compiler(Path(place), command)


def _stored(inputs: Sequence[Port], outputs: Sequence[Port], example: Example) -> str:
    """An example as JSON; what an input with a default is fed is the default."""
    assert example.outputs is not None
    data = {
        "tolerance": TOLERANCE,
        "inputs": _tensors(inputs, example.inputs),
        "outputs": _tensors(outputs, example.outputs),
    }
    return json.dumps(data)


def _tensors(ports: Sequence[Port], arrays: Sequence[Array]) -> dict[str, Any]:
    return {port.title: stored_tensor(port, array) for port, array in zip(ports, arrays, strict=True)}


def stored_tensor(port: Port, array: Array) -> dict[str, Any]:
    """A tensor as JSON holds it, for the arrays of JavaScript."""
    data = np.ascontiguousarray(array)
    return {
        "kind": ARRAYS[port.type],
        "dims": list(np.shape(array)),
        "bytes": base64.b64encode(data.tobytes()).decode("ascii"),
    }


_THREADS = """
`model.threads.wasm` computes on several threads: in node, and on pages that are isolated. Those come with the headers
`Cross-Origin-Opener-Policy: same-origin` and `Cross-Origin-Embedder-Policy: require-corp`. Elsewhere
`load` takes `model.wasm`, which gives the same numbers. `load(undefined, {{ threads: 2 }})` asks for so many, at most
{threads}; `model.close()` ends them.
"""


def _readme(request: ExportRequest, has_test: bool, threads: int) -> str:
    test = "\n`node test.js`, or `test.html` in a browser, compares it with stored answers.\n" if has_test else ""
    more = _THREADS.format(threads=threads) if threads > 1 else ""
    taken = "\n".join(f"- `{comment(value.name)}`: {comment(str(value.type))}" for value in request.graph.inputs)
    given = "\n".join(f"- `{comment(value.name)}`: {comment(str(value.type))}" for value in request.graph.outputs)
    return f"""# {request.name}

A model for the browser, written by Intaglio: `model.wasm` (with SIMD), `weights.bin`, and `model.js`, which
loads and runs them in browsers and in node. Weights are read as they come.

```js
import {{ load }} from "./model.js";

const model = await load();
const outputs = model.run({{ name: {{ data, dims }} }}); // typed arrays; an array alone where no size is open
```

`index.html` is a page that shows it: serve the folder (`python -m http.server`) and open it.
{test}{more}
Inputs:

{taken or "none"}

Outputs:

{given}
"""
