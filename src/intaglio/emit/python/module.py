"""A graph as one module that needs NumPy."""

from __future__ import annotations

import re
from collections.abc import Sequence

from intaglio.emit.export import ExportRequest, Source, make_printable, print_alone
from intaglio.emit.names import Names, comment
from intaglio.emit.python.printers import LIBRARY, RESERVED, language
from intaglio.emit.pythonic.block import (
    Language,
    Site,
    Statement,
    Writer,
    indented,
    needed,
    quoted,
    wrapped,
    write_graph,
)
from intaglio.emit.pythonic.parameters import behind_defaults, missing
from intaglio.emit.weights import Weights
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType

WEIGHTS = "npz"
LEFT_OUT = ("integer-arithmetic",)
"""Passes whose results are for engines, not for readers."""


def write(request: ExportRequest) -> Source:
    """The module, its weights and its README."""
    graph = request.graph
    scratch = language(Weights())
    make_printable(graph, lambda node: _try(node, graph, scratch))
    weights = Weights()
    writer = Writer(language(weights), Names(RESERVED | LIBRARY.names | {"load", "Model", "main"}))
    inputs = [writer.declare(value) for value in graph.inputs]
    write_graph(graph, writer)
    outputs = [_output(value, writer) for value in graph.outputs]
    kept = needed(writer.statements, [*graph.outputs, *writer.reads])
    body = _body(kept)
    has_weights = any(
        re.search(r"\bw\[", line) for line in [*body, *outputs, *_defaults(graph, inputs, writer).values()]
    )
    text = _module(request, writer, inputs, body, outputs, has_weights)
    used = {key: array for key, array in weights.arrays.items() if quoted(key) in text}
    return Source({"model.py": text}, used, _readme(request, text))


def _try(node: Node, graph: Graph, scratch: Language) -> None:
    print_alone(node, graph, Writer(scratch, Names(RESERVED)))


def _output(value: Value, writer: Writer) -> str:
    text = writer.read(value)
    is_scalar = isinstance(value.type, TensorType) and value.type.shape in ((), None)
    return f"xp.asarray({text})" if is_scalar and not text.startswith("xp.asarray(") else text


def _body(statements: Sequence[Statement]) -> list[str]:
    """The lines of a function, with the modules of the model as comments and types at the ends of lines."""
    lines: list[str] = []
    scope = ""
    for statement in statements:
        if statement.scope != scope:
            scope = statement.scope
            lines += ["", f"# {comment(scope)}"] if scope else [""]
        code = [part for line in statement.lines for part in wrapped(line)]
        note = comment(statement.note)
        is_short = len(code) == 1 and len(code[0]) + len(note) + 12 <= 120
        lines += [f"{code[0]}  # {note}"] if note and is_short else code
    return lines


def _module(
    request: ExportRequest, writer: Writer, inputs: list[str], body: list[str], outputs: list[str], has_weights: bool
) -> str:
    graph = request.graph
    defaults = _defaults(graph, inputs, writer)
    functions = LIBRARY.source(writer.used)
    result = outputs[0] if len(outputs) == 1 else ", ".join(outputs)
    loading = _load(request, has_weights)
    code = "\n".join([*functions, *body, *outputs, *loading])
    lines = [
        f'"""{comment(graph.name)}: a model as NumPy code, written by Intaglio."""',
        "",
        "from __future__ import annotations",
        "",
        *_imports(code),
        "",
        "",
        "class Model:",
        *indented(_class(graph, inputs, defaults, body, result, has_weights)),
        "",
        "",
        *loading,
    ]
    for function in functions:
        lines += ["", "", *function.splitlines()]
    return "\n".join(lines) + "\n"


def _defaults(graph: Graph, inputs: list[str], writer: Writer) -> dict[str, str]:
    found: dict[str, str] = {}
    for value, name in zip(graph.inputs, inputs, strict=True):
        if value.default is not None:
            stand_in = Value(value.name, value.type, constant=value.default)
            found[name] = writer.language.constant(stand_in, writer)
    return found


def _class(
    graph: Graph, inputs: list[str], defaults: dict[str, str], body: list[str], result: str, has_weights: bool
) -> list[str]:
    taken = "\n".join(f"{name}: {comment(str(value.type))}" for name, value in zip(inputs, graph.inputs, strict=True))
    given = ", ".join(comment(f"{value.name}: {value.type}") for value in graph.outputs)
    behind = behind_defaults(graph.inputs)
    named = list(zip(inputs, graph.inputs, strict=True))
    parameters = ["self", *(f"{name}=None" if name in defaults or value in behind else name for name, value in named)]
    start = ["xp = self.xp"] + (["w = self.weights"] if has_weights else [])
    start += [line for name, value in named if value in behind for line in missing(name, value)]
    start += [f"{name} = {text} if {name} is None else {name}" for name, text in defaults.items()]
    return [
        '"""Takes and gives arrays in the order of the model; `xp` is NumPy or a module like it."""',
        "",
        "def __init__(self, weights: dict[str, Any], xp: Any = np) -> None:",
        "    self.weights = {name: xp.asarray(array) for name, array in weights.items()}",
        "    self.xp = xp",
        "",
        '@np.errstate(all="ignore")',
        f"def __call__({', '.join(parameters)}):",
        *indented(_docstring(taken.splitlines(), given)),
        *indented(start),
        *indented(body),
        f"    return {result or 'None'}",
    ]


def _docstring(taken: Sequence[str], given: str) -> list[str]:
    return ['"""', *taken, f"-> {given}", '"""']


def _imports(code: str) -> list[str]:
    """The imports that the code needs."""
    modules = ("contextlib", "functools", "itertools", "json", "math", "re")
    standard = [name for name in modules if re.search(rf"\b{name}\.", code)]
    lines = [f"import {name}" for name in standard]
    lines += ["from pathlib import Path", "from typing import Any", ""]
    return [*lines, *(["import ml_dtypes"] if "ml_dtypes." in code else []), "import numpy as np"]


def _load(request: ExportRequest, has_weights: bool) -> list[str]:
    lines = [
        "def load(folder: str | Path | None = None, xp: Any = np) -> Model:",
        '    """The model with its weights, which lie in the folder of this module unless another is named."""',
    ]
    if not has_weights:
        return [*lines, "    return Model({}, xp)"]
    lines.append("    place = Path(__file__).parent if folder is None else Path(folder)")
    if request.weights == "npz":
        return [
            *lines,
            '    with np.load(place / "weights.npz", allow_pickle=False) as file:',
            "        return Model(dict(file), xp)",
        ]
    return [*lines, '    return Model(read_safetensors(place / "weights.safetensors"), xp)', "", "", *_READER]


_READER = '''
def read_safetensors(path: Path) -> dict[str, Any]:
    """The tensors of a file: eight bytes of length, a header in JSON, then all bytes."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    kinds = {"BOOL": "?", "BF16": "<u2", "F8_E4M3": "u1", "F8_E5M2": "u1"}
    arrays = {}
    for name, entry in header.items():
        kind = kinds.get(entry["dtype"]) or "<" + entry["dtype"].lower()[0] + str(int(entry["dtype"][1:]) // 8)
        first, last = entry["data_offsets"]
        arrays[name] = np.frombuffer(data[start + first : start + last], kind).reshape(entry["shape"])
    return arrays
'''.strip().splitlines()


def _readme(request: ExportRequest, text: str) -> str:
    graph = request.graph
    needs = "NumPy and ml_dtypes" if "import ml_dtypes" in text else "NumPy 2"
    taken = "\n".join(f"- `{comment(value.name)}`: {comment(str(value.type))}" for value in graph.inputs)
    given = "\n".join(f"- `{comment(value.name)}`: {comment(str(value.type))}" for value in graph.outputs)
    return f"""# {request.name}

A model as plain Python, written by Intaglio. `model.py` needs {needs} and nothing else.

```python
from model import load

model = load()
outputs = model(...)  # arrays in the order below
```

`load(xp=cupy)` computes with another array module that has NumPy's interface.

Inputs:

{taken or "none"}

Outputs:

{given}
"""


__all__ = ["LEFT_OUT", "WEIGHTS", "Site", "write"]
