"""Ways to compile and call C from tests."""

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from intaglio.c.cache import Cache, CFunction
from intaglio.c.compiler import require_compiler
from intaglio.c.target import Target, host_target, named_target
from intaglio.errors import CompileError

Map = Callable[..., "NDArray[np.generic]"]

KERNEL = ctypes.CFUNCTYPE(
    None,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_int64),
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_void_p,
)

MAP_SOURCE = """
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch) {{
    for (int64_t i = begin; i < end; i += IG_LANES) {{
        int64_t n = end - i < IG_LANES ? end - i : IG_LANES;
        {body}
    }}
}}
"""


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("cache") / "intaglio")


@pytest.fixture(scope="session", params=["c", "sse2", "avx2", "host"])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    try:
        yield host_target() if request.param == "host" else named_target(request.param)
    except CompileError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def kernel(cache: Cache) -> Callable[[CFunction, Target], Callable[..., None]]:
    """Compile one kernel; call it with (arrays, sizes, tasks)."""

    def compile_kernel(function: CFunction, target: Target) -> Callable[..., None]:
        (loaded,) = cache.ensure([function], require_compiler(), target)
        entry = KERNEL(loaded.address)

        def call(arrays: list[NDArray[np.generic]], sizes: list[int], tasks: int) -> None:
            buffers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
            entry(buffers, (ctypes.c_int64 * max(1, len(sizes)))(*sizes), 0, tasks, None)

        return call

    return compile_kernel


@pytest.fixture(scope="session")
def elementwise(kernel: Callable[[CFunction, Target], Callable[..., None]]) -> Callable[..., Map]:
    """A C expression on vectors x, y, ... as a function of NumPy arrays; the vectors have the types given."""

    def make(expression: str, inputs: str, output: str, target: Target) -> Map:
        loads = [
            f"const {_SCALARS[kind]} *p{i} = ({_SCALARS[kind]} *)buffer[{i}] + i;\n"
            f"        ig_{kind} {name} = n == IG_LANES ? ig_load_{kind}(p{i}) : ig_load_n_{kind}(p{i}, n);"
            for i, (name, kind) in enumerate(zip("xyz", inputs.split(), strict=False))
        ]
        out = f"({_SCALARS[output]} *)buffer[{len(loads)}] + i"
        store = f"ig_{output} r = {expression}; if (n == IG_LANES) ig_store_{output}({out}, r);"
        body = "\n        ".join([*loads, store, f"else ig_store_n_{output}({out}, r, n);"])
        run = kernel(CFunction("map", MAP_SOURCE.format(body=body)), target)

        def apply(*arrays: NDArray[np.generic]) -> NDArray[np.generic]:
            result = np.empty(arrays[0].shape, _DTYPES[output])
            run([*(np.ascontiguousarray(array) for array in arrays), result], [], result.size)
            return result

        return apply

    return make


_SCALARS = {
    "f32": "float",
    "f64": "double",
    **{f"{sign}{bits}": f"{prefix}int{bits}_t" for sign, prefix in (("i", ""), ("u", "u")) for bits in (8, 16, 32, 64)},
}
_DTYPES = {
    "f32": np.float32,
    "f64": np.float64,
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
}
SOURCE_ROOT = Path(__file__).parents[2] / "src"
