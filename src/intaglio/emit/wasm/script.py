"""The JavaScript of a model: what it takes and gives, for the loader that every model shares."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from intaglio.emit.c.driver import NO_ROOM
from intaglio.emit.c.interface import Interface, Port
from intaglio.emit.c.types import parts
from intaglio.emit.sizes import JAVASCRIPT, size_text

LIBRARY = Path(__file__).parent / "library"

ARRAYS = {
    "float": "Float32Array",
    "double": "Float64Array",
    "bool": "Uint8Array",
    "int64_t": "BigInt64Array",
    "uint64_t": "BigUint64Array",
    **{f"{sign.lower()}int{bits}_t": f"{sign or 'I'}{'int' if sign else 'nt'}{bits}Array"
       for sign in ("", "U") for bits in (8, 16, 32)},
}  # fmt: skip
"""The arrays of JavaScript for the types of C."""


INITIAL_PAGES, MOST_PAGES = 512, 65535
"""Pages of 64 KB that shared memory has at first, and at most."""


def loader_text() -> str:
    """`loader.js`, which is the same for every model."""
    text = (LIBRARY / "loader.js").read_text(encoding="utf-8").replace("__NO_ROOM__", str(NO_ROOM))
    return text.replace("__INITIAL_PAGES__", str(INITIAL_PAGES)).replace("__MOST_PAGES__", str(MOST_PAGES))


def model_text(interface: Interface, weight_bytes: int, threads: int) -> str:
    """`model.js`."""
    variables = {symbol: f"s[{json.dumps(symbol)}]" for symbol in interface.sizes}
    lines = [
        "// A model for WebAssembly, written by Intaglio.",
        'import { loadModel, sizing } from "./loader.js";',
        "",
        "const { floordiv, ceildiv, mod, broadcast, min, max } = sizing;",
        "void [floordiv, ceildiv, mod, broadcast, min, max];",
        "",
        "const described = {",
        f"    hasWeights: {_flag(interface.takes_weights)},",
        f"    weightBytes: {weight_bytes},",
        f"    threads: {threads}, // at most",
        f"    sizes: {{ {', '.join(_places(interface))} }}, // where each is found: the input and its axis",
        "    inputs: [",
        *(f"        {_port(port, variables)}," for port in interface.inputs),
        "    ],",
        "    outputs: [",
        *(f"        {_port(port, variables)}," for port in interface.outputs),
        "    ],",
        "};",
        "",
        "/** The model; its files lie beside this one unless `base` names another folder. */",
        "export async function load(base = import.meta.url, options = {}) {",
        "    return loadModel(base, described, options);",
        "}",
        "",
    ]
    return "\n".join(lines)


def _flag(is_so: bool) -> str:
    return "true" if is_so else "false"


def _places(interface: Interface) -> list[str]:
    return [f"{json.dumps(symbol)}: {list(interface.place_of(symbol))}" for symbol in interface.sizes]


def _port(port: Port, variables: Mapping[str, str]) -> str:
    shape = (
        "null" if port.is_late else f"(s) => [{', '.join(size_text(dim, variables, JAVASCRIPT) for dim in port.shape)}]"
    )
    items = {
        "name": json.dumps(port.title),
        "dtype": json.dumps(port.value.dtype.name),
        "type": json.dumps(port.type),
        "parts": str(parts(port.value.dtype)),
        "dims": json.dumps([dim if isinstance(dim, int) else str(dim) for dim in port.shape]),
        "shape": shape,
        **({"isOptional": "true"} if port.default is not None else {}),
    }
    return f"{{ {', '.join(f'{name}: {text}' for name, text in items.items())} }}"


def types_text(interface: Interface) -> str:
    """`model.d.ts`."""

    def fields(ports: Sequence[Port], suffix: str, *, is_fed: bool) -> list[str]:
        return [
            f"    {json.dumps(port.title)}{'?' if port.default is not None else ''}: "
            f"{suffix}<{ARRAYS[port.type]}>{f' | {ARRAYS[port.type]}' if is_fed else ''}; // {port.about}"
            for port in ports
        ]

    return "\n".join([
        "/** A tensor: its elements in rows, and its sizes. Elements of types that JavaScript lacks are bits. */",
        "export interface Tensor<Data> {",
        "    data: Data;",
        "    dims: number[];",
        "}",
        "export interface Result<Data> extends Tensor<Data> {",
        "    type: string;",
        "}",
        "export interface Inputs {",
        *fields(interface.inputs, "Tensor", is_fed=True),
        "}",
        "export interface Outputs {",
        *fields(interface.outputs, "Result", is_fed=False),
        "}",
        "export interface Port {",
        "    name: string;",
        "    type: string;",
        "    dims: (number | string)[];",
        "}",
        "export interface Model {",
        "    readonly inputs: Port[];",
        "    readonly outputs: Port[];",
        "    readonly threads: number;",
        "    run(feeds: Inputs): Outputs;",
        "    close(): void;",
        "}",
        "export interface Options {",
        "    onProgress?: (loaded: number, total: number) => void;",
        "    threads?: number;",
        "}",
        "export function load(base?: string | URL, options?: Options): Promise<Model>;",
        "",
    ])  # fmt: skip
