"""Ways to compile and call C from tests."""

import ctypes
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from intaglio.errors import CompileError
from intaglio.targets.c.cache import Cache, CFunction
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.target import Target, host_target, named_target

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
        (loaded,) = cache.ensure([function], find_compiler(), target)
        entry = KERNEL(loaded.address)

        def call(arrays: list[NDArray[np.generic]], sizes: list[int], tasks: int) -> None:
            buffers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
            entry(buffers, (ctypes.c_int64 * max(1, len(sizes)))(*sizes), 0, tasks, None)

        return call

    return compile_kernel


@pytest.fixture(scope="session")
def elementwise(several: Callable[..., Callable[..., list["NDArray[np.generic]"]]]) -> Callable[..., Map]:
    """A C expression on vectors x, y, ... as a function of NumPy arrays; the vectors have the types given."""

    def make(expression: str, inputs: str, output: str, target: Target) -> Map:
        function = several([(expression, output)], inputs, target)
        return lambda *arrays: function(*arrays)[0]

    return make


@pytest.fixture(scope="session")
def several(
    kernel: Callable[[CFunction, Target], Callable[..., None]],
) -> Callable[..., Callable[..., list["NDArray[np.generic]"]]]:
    """`elementwise` for a list of (expression, output type), compiled together."""

    def make(
        expressions: list[tuple[str, str]], inputs: str, target: Target
    ) -> Callable[..., list[NDArray[np.generic]]]:
        kinds = inputs.split()
        lines = [_load(i, kind) for i, kind in enumerate(kinds)]
        lines += [_store(len(kinds) + i, *pair) for i, pair in enumerate(expressions)]
        run = kernel(CFunction("map", MAP_SOURCE.format(body="\n        ".join(lines))), target)

        def apply(*arrays: NDArray[np.generic]) -> list[NDArray[np.generic]]:
            results: list[NDArray[np.generic]] = [np.empty(arrays[0].shape, _DTYPES[kind]) for _, kind in expressions]
            run([*(np.ascontiguousarray(array) for array in arrays), *results], [], arrays[0].size)
            return results

        return apply

    return make


def _load(index: int, kind: str) -> str:
    place = f"({_SCALARS[kind]} *)buffer[{index}] + i"
    return f"ig_{kind} {'xyz'[index]} = n == IG_LANES ? ig_load_{kind}({place}) : ig_load_n_{kind}({place}, n);"


def _store(index: int, expression: str, kind: str) -> str:
    place = f"({_SCALARS[kind]} *)buffer[{index}] + i"
    return (
        f"{{ ig_{kind} r = {expression}; if (n == IG_LANES) ig_store_{kind}({place}, r); "
        f"else ig_store_n_{kind}({place}, r, n); }}"
    )


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
