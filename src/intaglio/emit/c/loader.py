"""A module of Python that calls a compiled model by ctypes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from intaglio.emit.c.interface import Interface, Port
from intaglio.emit.c.lowered import Lowered
from intaglio.emit.names import comment
from intaglio.emit.sizes import PYTHON, size_text
from intaglio.ir.dim import Dim


def numpy_type(port: Port) -> str:
    """The element type of the arrays for a port, as Python code; what NumPy lacks is of ml_dtypes, or its bits."""
    dtype = np.dtype(port.value.dtype.numpy)
    return f"_extended({dtype.name!r}, {dtype.itemsize})" if dtype.num >= 256 else repr(dtype.str)


def loader(lowered: Lowered, interface: Interface, library: str, weight_bytes: int) -> str:
    """The text of the module."""
    taken = "\n".join(f"    {port.name}: {comment(port.about)}" for port in interface.inputs)
    given = ", ".join(comment(port.about) for port in interface.outputs)
    lines = [_HEAD.format(name=interface.prefix, library=library)]
    lines += [
        "class Model:",
        '    """Takes and gives arrays in the order of the model.',
        "",
        taken,
        f"    -> {given}",
        '    """',
        "",
    ]
    lines += [_INIT.format(prefix=interface.prefix)]
    if interface.takes_weights:
        lines += ["        self._weights = _aligned((Path(__file__).parent / 'weights.bin').read_bytes())"]
        lines += [f"        assert self._weights.nbytes == {weight_bytes}"]
    lines += ["", *(f"    {line}" for line in _call_lines(lowered, interface))]
    return "\n".join([*lines, _TAIL])


_HEAD = '''\
"""{name} as a compiled library, called by ctypes; written by Intaglio."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

LIBRARY = "{library}"

'''

_INIT = """\
    def __init__(self, library: str | Path | None = None) -> None:
        loaded = ctypes.CDLL(str(Path(__file__).resolve().parent / LIBRARY if library is None else library))
        self._run = loaded.{prefix}_run
        self._run.restype = ctypes.c_int
        self._error = loaded.{prefix}_error
        self._error.restype = ctypes.c_char_p
        self._library = loaded"""

_TAIL = '''

def load(library: str | Path | None = None) -> Model:
    """The model; its library lies beside this file unless another is named."""
    return Model(library)


def _extended(name: str, itemsize: int) -> Any:
    """A type that NumPy does not have itself; without ml_dtypes its elements are bits."""
    try:
        import ml_dtypes
    except ImportError:
        return f"<u{itemsize}"
    return np.dtype(getattr(ml_dtypes, name))


def _array(name: str, given: Any, kind: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """An input as the library takes it."""
    array = np.asarray(given)
    if array.dtype != np.dtype(kind):
        raise TypeError(f"{name} is {array.dtype}, expected {np.dtype(kind)}")
    if array.shape != shape:
        raise ValueError(f"{name} has the shape {array.shape}, expected {shape}")
    return np.require(array, None, "CA").reshape(shape)  # which makes no array of a scalar


def _aligned(given: bytes | int) -> np.ndarray[Any, Any]:
    """Memory whose address is a multiple of 64."""
    size = given if isinstance(given, int) else len(given)
    whole = np.zeros(size + 64, np.uint8)
    start = -whole.ctypes.data % 64
    part = whole[start : start + size]
    if not isinstance(given, int):
        part[:] = np.frombuffer(given, np.uint8)
    return part


def _floordiv(a: int, b: int) -> int:
    return a // b if b else 0


def _ceildiv(a: int, b: int) -> int:
    return -(-a // b) if b else 0


def _mod(a: int, b: int) -> int:
    return a % b if b else 0


def _broadcast(a: int, b: int) -> int:
    return b if a == 1 else a
'''


def _call_lines(lowered: Lowered, interface: Interface) -> list[str]:
    names = [port.name for port in interface.inputs]
    lines = [
        f"def __call__(self, {', '.join(f'{n}: Any' for n in names)}) -> Any:"
        if names
        else "def __call__(self) -> Any:"
    ]
    body: list[str] = []
    sizes = {symbol: f"size_{name}" for symbol, name in interface.sizes.items()}
    for symbol, name in sizes.items():
        index, axis = interface.place_of(symbol, are_all_given=True)
        body.append(f"{name} = np.shape({interface.inputs[index].name})[{axis}]")
    for port in interface.inputs:
        body.append(
            f"{port.name} = _array({port.name!r}, {port.name}, {numpy_type(port)}, {_shape(port.shape, sizes)})"
        )
    late = any(port.is_late for port in interface.outputs)
    if late:
        body += ["room = 1024", "while True:"]
    inner: list[str] = []
    arguments = [f"ctypes.c_int64({name})" for name in sizes.values()]
    arguments += [f"ctypes.c_void_p({port.name}.ctypes.data)" for port in interface.inputs]
    results: list[str] = []
    for place, port in enumerate(interface.outputs):
        name = f"out_{place}"
        shape = "(room,)" if port.is_late else _shape(port.shape, sizes)
        inner.append(f"{name} = np.empty({shape}, {numpy_type(port)})")
        arguments.append(f"ctypes.c_void_p({name}.ctypes.data)")
        results.append(name)
        if port.is_late:
            inner.append(f"{name}_shape = np.zeros({max(1, len(port.shape))}, np.int64)")
            arguments += ["ctypes.c_int64(room)", f"ctypes.c_void_p({name}_shape.ctypes.data)"]
            cut = f"{name}_shape[:{len(port.shape)}]"
            results[-1] = f"{name}[: int(np.prod({cut}))].reshape({cut})"
    if interface.takes_arena:
        inner += [f"self._library.{interface.prefix}_arena_bytes.restype = ctypes.c_int64"]
        inner += [
            f"arena = _aligned(self._library.{interface.prefix}_arena_bytes({', '.join(arguments[: len(sizes)])}))"
        ]
        arguments.append("ctypes.c_void_p(arena.ctypes.data)")
    if interface.takes_weights:
        arguments.append("ctypes.c_void_p(self._weights.ctypes.data)")
    inner.append(f"status = self._run({', '.join(arguments)})")
    if late:
        inner += ["if status == 6 and room < 1 << 32:", "    room *= 4", "    continue"]
    inner += ["if status:", f'    raise RuntimeError(f"{interface.prefix}_run: {{self._error(status).decode()}}")']
    inner.append(f"return {', '.join(results)}" if results else "return None")
    body += [f"    {line}" for line in inner] if late else inner
    return [*lines, *(f"    {line}" for line in body)]


def _shape(shape: tuple[Dim, ...], names: Mapping[str, str]) -> str:
    items = "".join(f"{size_text(dim, names, PYTHON)}, " for dim in shape)
    return f"({items.strip()})"
