"""Numbers at the ends of their range where a model computes sizes, strides and offsets with them.

Both engines give the same, or both refuse; nothing overflows on the way to another answer. Under the sanitizer
(`make sanitize`) no arithmetic of generated code overflows either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from intaglio.errors import IntaglioError, LimitError
from intaglio.ir.dim import Dim, Expr, floordiv, maximum, minimum, mod, symbol
from intaglio.ir.limits import Limits
from intaglio.ir.substitution import evaluate
from intaglio.kernels.overflow import LARGEST, fits, safe_limit
from intaglio.runtime.model.loading import load
from intaglio.runtime.model.model import Model

LIMITS = Limits(memory=1 << 22, time=30)
EXTREMES = (
    -(2**63), -(2**63) + 1, -(2**62), -(2**40), -(2**32), -(2**31) - 1, -9, -3, -2, -1,
    0, 1, 2, 3, 5, 9, 2**31 - 1, 2**32 + 1, 2**40, 2**61 + 1, 2**62, 2**63 - 2, 2**63 - 1,
)  # fmt: skip
USUAL = (-3, -2, -1, 0, 1, 2, 3, 5)
SHAPES = ((5, 4), (1, 1), (2, 7), (0, 3))


@dataclass(frozen=True)
class Case:
    """An operator on a matrix and lists of integers, each with its length, and attributes made of a list."""

    operator: str
    lengths: Sequence[int | None]
    fixed: Mapping[int, Sequence[int]] = field(default_factory=dict[int, Sequence[int]])
    attributes: Callable[[list[int]], dict[str, Any]] = lambda numbers: {}
    has_data: bool = True
    outputs: int = 1


CASES = [
    Case("Slice", (2, 2, 2, 2), {2: (0, 1)}),
    Case("Slice", (1, 1, 1, 1), {2: (-1,)}),
    Case("Range", (None, None, None), has_data=False),
    Case("Pad", (4,)),
    Case("Tile", (2,)),
    Case("Expand", (2,)),
    Case("Expand", (3,)),
    Case("Reshape", (2,)),
    Case("Reshape", (3,)),
    Case("ConstantOfShape", (2,), has_data=False),
    Case("Trilu", (None,)),
    Case("Gather", (3,)),
    Case("GatherElements", (1,), attributes=lambda numbers: {"axis": 0}),
    Case("Unsqueeze", (1,)),
    Case("ReduceSum", (1,)),
    Case("CumSum", (None,)),
    Case("TopK", (1,), outputs=2),
    Case("CenterCropPad", (2,)),
    Case("Split", (2,), outputs=2),
    Case("EyeLike", (), attributes=lambda numbers: {"k": numbers[0]}),
]  # fmt: skip


def model_of(case: Case, numbers: Sequence[Sequence[int]], is_fed: bool, is_open: bool) -> onnx.ModelProto:
    """The operator, then Neg and a sum, so that what it gives is read as a view where it is one."""
    inputs: list[Any] = []
    constants: list[Any] = []
    names: list[str] = []
    if case.has_data:
        names.append("x")
        inputs.append(helper.make_tensor_value_info("x", TensorType, ["n", "m"] if is_open else SHAPES[0]))
    for place, (items, length) in enumerate(zip(numbers, case.lengths, strict=True)):
        array = np.array(items if length is not None else items[0], np.int64)
        names.append(f"p{place}")
        if is_fed and place not in case.fixed:
            inputs.append(helper.make_tensor_value_info(f"p{place}", TensorProto.INT64, array.shape))
        else:
            constants.append(numpy_helper.from_array(array, f"p{place}"))
    given = [*names]
    if case.operator == "GatherElements":
        constants.append(numpy_helper.from_array(np.array([1, -1], np.int64), "shape"))
        given[1] = "places"
    results = [f"y{place}" for place in range(case.outputs)]
    attributes = case.attributes([items[0] for items in numbers] or [0])
    nodes = [helper.make_node(case.operator, given, results, **attributes)]
    if case.operator == "GatherElements":
        nodes.insert(0, helper.make_node("Reshape", [names[1], "shape"], ["places"]))
    nodes += [helper.make_node("Neg", [name], [f"{name}_negative"]) for name in results]
    outputs = [onnx.ValueInfoProto(name=f"{name}_negative") for name in results]
    graph = helper.make_graph(nodes, case.operator, inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


TensorType = TensorProto.FLOAT


def result(model: Model, feeds: Mapping[str, Any]) -> dict[str, Any] | IntaglioError:
    """The outputs, or the error where the run is refused."""
    try:
        return model.run(feeds)
    except IntaglioError as error:
        return error


def loaded(proto: onnx.ModelProto, engine: Any) -> Model | None:
    try:
        return load(proto, engine=engine, threads=1, limits=LIMITS)
    except IntaglioError:
        return None


def check(case: Case, generator: np.random.Generator) -> bool:
    """Whether both engines ran at least once."""
    is_fed, is_open = bool(generator.integers(2)), bool(generator.integers(4))
    numbers = [list(map(int, generator.choice(EXTREMES, length or 1))) for length in case.lengths]
    for items in numbers:
        for place in range(len(items)):
            if generator.integers(2):
                items[place] = int(generator.choice(USUAL))
    for place, items in case.fixed.items():
        numbers[place] = list(items)
    if case.operator == "EyeLike":
        numbers = [[int(generator.choice(EXTREMES))]]
    proto = model_of(case, numbers if case.lengths else [], is_fed, is_open) if case.lengths else eye(numbers[0][0])
    native, reference = (loaded(proto, engine) for engine in ("native", "reference"))
    if native is None or reference is None:
        assert native is None or not is_fed, f"only the reference refuses {case.operator} of {numbers}"
        return False
    ran = False
    for shape in SHAPES if is_open else SHAPES[:1]:
        feeds: dict[str, Any] = {"x": generator.integers(-9, 9, shape).astype(np.float32)} if case.has_data else {}
        fed = [item.name for item in native.inputs]
        for place, (items, length) in enumerate(zip(numbers, case.lengths, strict=False)):
            if f"p{place}" in fed:
                feeds[f"p{place}"] = np.array(items if length is not None else items[0], np.int64)
        got, expected = result(native, feeds), result(reference, feeds)
        told = f"{case.operator} of {numbers} on {shape}, {'fed' if is_fed else 'constant'}"
        if isinstance(expected, LimitError) and isinstance(got, dict):
            assert all(array.size == 0 for array in got.values()), told  # computed by way of something larger
            continue
        assert isinstance(got, IntaglioError) == isinstance(expected, IntaglioError), f"{told}: {got}, {expected}"
        if isinstance(got, dict) and isinstance(expected, dict):
            for name, array in expected.items():
                np.testing.assert_array_equal(got[name], array, err_msg=told)
            ran = True
    return ran


def eye(k: int) -> onnx.ModelProto:
    nodes = [helper.make_node("EyeLike", ["x"], ["y"], k=k), helper.make_node("Neg", ["y"], ["z"])]
    inputs = [helper.make_tensor_value_info("x", TensorType, ["n", "m"])]
    graph = helper.make_graph(nodes, "eye", inputs, [onnx.ValueInfoProto(name="z")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.operator}-{len(case.lengths)}")
@pytest.mark.parametrize("seed", range(3))
def test_extreme_numbers(case: Case, seed: int) -> None:
    generator = np.random.default_rng([seed, len(case.operator), sum(map(ord, case.operator))])
    for _ in range(4):
        check(case, generator)


@pytest.mark.parametrize("step", [-(2**63), -(2**63) + 1, -(2**62), -(2**40), 2**40, 2**62, 2**63 - 1])
@pytest.mark.parametrize("start", [-(2**63), -1, 1, 2**62, 2**63 - 1])
def test_slices_with_extreme_steps(start: int, step: int) -> None:
    """One element or none, at any size: the number of elements is not computed by an overflow."""
    end = 1 if step < 0 else 2**63 - 1
    proto = model_of(CASES[0], [[start, 0], [end, 2**63 - 1], [0, 1], [step, 1]], False, True)
    native, reference = (load(proto, engine=engine) for engine in ("native", "reference"))
    for shape in ((5, 4), (3, 2), (1, 1), (0, 2), (5, 4)):
        feeds = {"x": np.random.default_rng(shape[0]).standard_normal(shape).astype(np.float32)}
        np.testing.assert_array_equal(native.run(feeds)["y0_negative"], reference.run(feeds)["y0_negative"])
    assert native.host_runs == 0


WINDOWS = ("Conv", "ConvTranspose", "ConvInteger", "MaxPool", "AveragePool", "LpPool")
STEPS = (1, 2, 3, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1)


def window_model(operator: str, generator: np.random.Generator) -> onnx.ModelProto:
    """A convolution or a pool, with strides, dilations, pads and kernels of all sizes."""

    def pick(count: int, least: int) -> list[int]:
        is_far = generator.integers(3, size=count) == 0
        return [int(generator.choice(STEPS)) if far else int(generator.integers(least, 3)) for far in is_far]

    attributes: dict[str, Any] = {}
    for name, count, least in (("pads", 4, 0), ("strides", 2, 1), ("dilations", 2, 1)):
        if generator.integers(2):
            attributes[name] = pick(count, least)
    kernel = list(map(int, generator.integers(1, 4, 2)))
    kind, constants = np.float32, list[Any]()
    if operator.startswith("Conv"):
        kind = np.uint8 if operator == "ConvInteger" else np.float32
        constants = [numpy_helper.from_array(generator.integers(0, 4, (2, 2, *kernel)).astype(kind), "w")]
    else:
        attributes |= {"kernel_shape": kernel if generator.integers(4) else [2**31, 2]}
        attributes |= {"ceil_mode": int(generator.integers(2))}
    node = helper.make_node(operator, ["x", *(item.name for item in constants)], ["y"], **attributes)
    info = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(kind)), ["n", 2, "h", "w"])
    graph = helper.make_graph([node], operator, [info], [onnx.ValueInfoProto(name="y")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize("operator", WINDOWS)
@pytest.mark.parametrize("seed", range(3))
def test_extreme_windows(operator: str, seed: int) -> None:
    generator = np.random.default_rng([seed, sum(map(ord, operator))])
    for _ in range(2):
        proto = window_model(operator, generator)
        native, reference = (loaded(proto, engine) for engine in ("native", "reference"))
        assert (native is None) == (reference is None)
        for shape in ((1, 2, 5, 4), (2, 2, 1, 1), (1, 2, 3, 7)):
            x = generator.integers(0, 9, shape).astype(np.uint8 if operator == "ConvInteger" else np.float32)
            if native is None or reference is None:
                continue
            got, expected = result(native, {"x": x}), result(reference, {"x": x})
            told = f"{native.graph} on {shape}: {got}, {expected}"
            assert isinstance(expected, LimitError) or isinstance(got, IntaglioError) == isinstance(
                expected, IntaglioError
            ), told  # the reference pads, for which there may be no room
            if isinstance(got, dict) and isinstance(expected, dict):
                np.testing.assert_allclose(got["y"], expected["y"], rtol=1e-4, atol=1e-4, err_msg=told)


N, M = symbol("n"), symbol("m")


def random_dim(generator: np.random.Generator, depth: int) -> Dim:
    """An expression with coefficients and constants of all sizes."""
    if depth == 0:
        kind = generator.integers(3)
        return (N, M, int(generator.choice(EXTREMES)))[kind]
    left, right = random_dim(generator, depth - 1), random_dim(generator, depth - 1)
    functions: list[Callable[[Dim, Dim], Dim]] = [
        lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b, minimum, maximum,
        lambda a, b: floordiv(a, maximum(b, 1)), lambda a, b: mod(a, maximum(b, 1)),
    ]  # fmt: skip
    return functions[generator.integers(len(functions))](left, right)


@pytest.mark.parametrize("seed", range(40))
def test_sizes_within_the_limit_fit(seed: int) -> None:
    generator = np.random.default_rng(seed)
    for _ in range(20):
        dim = random_dim(generator, int(generator.integers(1, 4)))
        if not isinstance(dim, Expr):
            continue
        limit = safe_limit([dim])
        for _ in range(5):
            values = {name: int(generator.integers(0, max(limit, 0) + 1)) for name in ("n", "m")}
            if limit >= 0:
                assert abs(evaluate(dim, values)) <= LARGEST
                assert fits([dim], values)
        large = {"n": 2**62, "m": 2**61}
        if fits([dim], large):
            assert -(2**63) <= evaluate(dim, large) < 2**63
