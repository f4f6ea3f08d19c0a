"""Plain C: what people read compiles without a warning and computes what the reference computes."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from intaglio.errors import UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.clone import clone
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import BOOL, DTYPES, FLOAT32, INT64, DType
from intaglio.ir.graph import Graph
from intaglio.ir.substitution import evaluate as size_of
from intaglio.ir.types import TensorType
from intaglio.kernels.lower import lower
from intaglio.kernels.plan import Call, Segment
from intaglio.ops.evaluate import evaluate
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.plain.expression import Helpers
from intaglio.targets.plain.printing import HEADERS, parameter_sizes, plain_function
from intaglio.targets.plain.target_rules import PlainRules

FLAGS = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]

UNARY = [
    "Abs", "Neg", "Sign", "Relu", "BitwiseNot", "Identity", "Ceil", "Floor", "Round", "Sqrt", "Exp", "Log", "Sin",
    "Cos", "Tanh", "Erf", "Sigmoid", "Reciprocal", "Not", "IsNaN", "IsInf",
]  # fmt: skip
BINARY = [
    "Add", "Sub", "Mul", "Div", "Min", "Max", "Mod", "BitwiseAnd", "BitwiseXor", "Equal", "Less", "GreaterOrEqual",
    "And", "Xor", "Pow",
]  # fmt: skip
TYPES = [DTYPES[name] for name in ("float32", "float64", "float16", "bfloat16", "int8", "int64", "uint8", "uint32")]
CASTS = [DTYPES[name] for name in ("float32", "float16", "int8", "uint8", "int32", "int64", "uint64", "bool")]


def single(operator: str, dtypes: list[DType], **attributes: Any) -> Graph | None:
    graph = Graph(operator)
    inputs = [graph.add_input(f"x{i}", TensorType(dtype, (symbol("n"),))) for i, dtype in enumerate(dtypes)]
    builder = Builder(graph)
    try:
        with builder.active():
            graph.set_outputs([getattr(builder, operator)(*inputs, **attributes)])
    except Exception:  # a type that the operator does not take
        return None
    return graph


def graphs() -> dict[str, Graph]:
    found: dict[str, Graph | None] = {}
    for dtype in (*TYPES, BOOL):
        found |= {f"{name} {dtype}": single(name, [dtype]) for name in UNARY}
        found |= {f"{name} {dtype}": single(name, [dtype] * 2) for name in BINARY}
        found |= {f"Cast {dtype} {to}": single("Cast", [dtype], to=to.number) for to in CASTS}
    found |= {f"Mod fmod {dtype}": single("Mod", [dtype] * 2, fmod=1) for dtype in TYPES}
    return {title: graph for title, graph in found.items() if graph is not None and len(list(graph.nodes)) == 1}


def fused() -> dict[str, Graph]:
    found: dict[str, Graph] = {}
    for title, build in {
        "softmax": lambda b, x, y: b.Softmax(x, axis=-1),
        "layernorm": lambda b, x, y: b.LayerNormalization(b.Add(x, y), b.constant(np.arange(7) / 4, FLOAT32), axis=-1),
        "columns": lambda b, x, y: b.Exp(b.ReduceSum(x, b.constant([0], INT64), keepdims=1)),
        "all": lambda b, x, y: b.ReduceMax(b.Transpose(x, perm=[1, 0]), keepdims=0),
        "chain": lambda b, x, y: b.Where(b.Less(x, y), b.Sigmoid(x), b.LeakyRelu(y, alpha=0.25)),
        "running": lambda b, x, y: b.CumSum(x, b.constant(1, INT64)),
        "columns running": lambda b, x, y: b.CumSum(x, b.constant(0, INT64), exclusive=1, reverse=1),
        "running product": lambda b, x, y: b.CumProd(x, b.constant(0, INT64), reverse=1),
        "mean": lambda b, x, y: b.ReduceMean(b.Cast(b.Mul(x, y), to=7), b.constant([1], INT64), keepdims=1),
    }.items():
        graph = Graph(title)
        inputs = [graph.add_input(name, TensorType(FLOAT32, (symbol("n"), 7))) for name in ("x0", "x1")]
        builder = Builder(graph)
        with builder.active():
            graph.set_outputs([build(builder, *inputs)])
        found[title] = graph
    return found


def samples(dtype: DType, shape: tuple[int, ...], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if dtype == BOOL:
        return rng.random(shape) < 0.5
    if dtype.is_integer:
        info = ml_dtypes.iinfo(dtype.numpy)
        extremes = rng.choice([info.min, info.max, 0, 1, 2, 3, 7], shape)
        return np.where(rng.random(shape) < 0.5, extremes, rng.integers(0, 9, shape)).astype(dtype.numpy)
    numbers = rng.normal(scale=3, size=shape)
    special = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 2.5, 300.0, -70000.0], shape)
    with np.errstate(over="ignore"):
        return np.where(rng.random(shape) < 0.3, special, numbers).astype(dtype.numpy)


def compiled(calls: dict[str, Call], folder: Path, sizes: dict[str, int] | None = None) -> ctypes.CDLL:
    """All kernels as one library, each behind a function that takes arrays of pointers and sizes."""
    helpers, parts = Helpers(), list[str]()
    for name, call in calls.items():
        code = call.kernel.loops
        assert code is not None
        parts.append(plain_function(code, name, helpers, sizes))
        buffers = [f"b[{place}]" for place in range(len(code.parameters))]
        given = [f"s[{place}]" for place in range(len(parameter_sizes(code, sizes)))]
        parts.append(f"void call_{name}(void *const *b, const int64_t *s);")
        parts.append(f"void call_{name}(void *const *b, const int64_t *s)\n{{\n    (void)s;")
        parts.append(f"    {name}({', '.join([*buffers, *given])});\n}}\n")
    source = folder / "kernels.c"
    source.write_text("\n".join([HEADERS, helpers.text, *parts]))
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("there is no C compiler")
    gcc = [*compiler.command]
    subprocess.run([*gcc, *FLAGS, str(source), "-o", str(folder / "kernels.so"), "-lm"], check=True)
    return ctypes.CDLL(str(folder / "kernels.so"))


def only_call(graph: Graph) -> Call | None:
    """The call of a graph that is one kernel; None where it is more, or where plain C cannot say it."""
    plan = lower(graph, PlainRules())
    steps = [step for step in plan.parts if isinstance(step, Segment)]
    calls = [action for step in steps for action in step.actions if isinstance(action, Call)]
    return calls[0] if len(plan.parts) == len(calls) == 1 else None


def run(library: ctypes.CDLL, name: str, call: Call, feeds: dict[str, Any], constants: list[Any], result: Any) -> None:
    """Run a kernel on the arrays of the graph's inputs."""
    held = {"input": feeds.__getitem__, "output": lambda _: result}
    arrays = [
        constants[each.buffer.index] if each.buffer.kind == "constant" else held[each.buffer.kind](each.buffer.name)
        for each in call.operands
    ]
    rows = len(next(iter(feeds.values())))
    numbers = [size_of(dim, {"n": rows}) for _, dim in call.sizes if not isinstance(dim, str)]
    pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    getattr(library, f"call_{name}")(pointers, (ctypes.c_int64 * max(1, len(numbers)))(*numbers))


def check(titled: dict[str, Graph], folder: Path, shape: tuple[int, ...]) -> int:
    """Compare every graph that is one plain kernel with the reference; how many there were."""
    calls: dict[str, Call] = {}
    for place, graph in enumerate(titled.values()):
        try:
            call = only_call(clone(graph))
        except UnsupportedError:
            continue
        if call is not None:
            calls[f"k{place}"] = call
    library = compiled(calls, folder)
    for place, (title, graph) in enumerate(titled.items()):
        if f"k{place}" in calls:
            compare(title, graph, library, f"k{place}", calls[f"k{place}"], shape, place)
    return len(calls)


def compare(
    title: str, graph: Graph, library: ctypes.CDLL, name: str, call: Call, shape: tuple[int, ...], seed: int
) -> None:
    feeds = {value.name: samples(value.dtype, shape, seed + at) for at, value in enumerate(graph.inputs)}
    with np.errstate(all="ignore"):
        (expected,) = evaluate(graph, list(feeds.values()))
    constants = lower(clone(graph), PlainRules()).constants
    result = np.zeros(expected.shape, expected.dtype)
    run(library, name, call, feeds, constants, result)
    tolerance = {"float32": 2e-6, "float64": 1e-13, "float16": 1e-3, "bfloat16": 8e-3}.get(str(expected.dtype), 0)
    if tolerance:
        result, expected = result.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance, err_msg=title)


def test_every_operator_and_type(tmp_path: Path) -> None:
    assert check(graphs(), tmp_path, (257,)) > 150


def test_fused_nodes_and_reductions(tmp_path: Path) -> None:
    assert check(fused(), tmp_path, (5, 7)) == 9


PLAIN = """\
/* ReduceMax, Sub, Exp, ReduceSum, Div */
static void softmax(const float *scores, float *probabilities)
{
    for (int64_t i0 = 0; i0 < 8; i0++) {
        float v1_total = -INFINITY;
        for (int64_t j0 = 0; j0 < 7; j0++) {
            const float v0 = scores[i0 * 7 + j0];
            v1_total = max_f32(v1_total, v0);
        }
        const float v1 = v1_total;
        float v4_total = 0;
        for (int64_t j0 = 0; j0 < 7; j0++) {
            const float v0 = scores[i0 * 7 + j0];
            const float v2 = v0 - v1;
            const float v3 = expf(v2);
            v4_total = v4_total + v3;
        }
        const float v4 = v4_total;
        for (int64_t j0 = 0; j0 < 7; j0++) {
            const float v0 = scores[i0 * 7 + j0];
            const float v2 = v0 - v1;
            const float v3 = expf(v2);
            const float v5 = v3 / v4;
            probabilities[i0 * 7 + j0] = v5;
        }
    }
}
"""


def test_it_reads_as_a_person_would_write_it() -> None:
    call = only_call(clone(fused()["softmax"]))
    assert call is not None
    assert call.kernel.loops is not None
    sizes = {"n0": 8, "m0": 7, "x0.n0": 7, "x1.n0": 7}
    names = {"x0": "scores", "x1": "probabilities"}
    assert plain_function(call.kernel.loops, "softmax", Helpers(), sizes, names) == PLAIN


def test_what_plain_c_cannot_say_is_refused() -> None:
    graph = Graph("complex")
    x = graph.add_input("x", TensorType(DTYPES["complex128"], (2, 3)))
    graph.set_outputs([Builder(graph).Transpose(x, perm=(1, 0))])
    with pytest.raises(UnsupportedError, match="plain C has no"):
        lower(graph, PlainRules())
