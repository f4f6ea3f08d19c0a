"""Sampled products by constants of few columns, many to a model, fused and not, against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper, parser

from intaglio.runtime.model.loading import load

COLUMNS = [1, 1, 2, 3, 4, 5, 7, 8, 9, 10, 15, 16, 17, 33]
DEPTHS = [1, 5, 16, 31, 32, 33, 64, 100, 130, 300]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32])
def test_sampled_products(dtype: Any, seed: int) -> None:
    """x @ w with x transposed or not, of open or known size; whole numbers, of which every sum is exact."""
    random = np.random.default_rng([seed, np.dtype(dtype).num])
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes, inputs, constants, feed, expected = [], [], [], dict[str, Any](), dict[str, Any]()
    for index in range(24):
        rows, depth, columns = (int(random.choice(sizes)) for sizes in ([1, 2, 7, 16, 33], DEPTHS, COLUMNS))
        x = random.integers(-2, 3, (rows, depth)).astype(dtype)
        w = random.integers(-2, 3, (depth, columns)).astype(dtype)
        is_turned, is_open, is_fused = random.random(3) < (0.2, 0.4, 0.5)
        given = np.ascontiguousarray(x.T) if is_turned else x
        shape = [
            f"d{index}{axis}" if is_open and (axis == 1) == is_turned else size for axis, size in enumerate(given.shape)
        ]
        inputs.append(helper.make_tensor_value_info(f"x{index}", number, shape))
        constants.append(numpy_helper.from_array(w, f"w{index}"))
        feed[f"x{index}"], name = given, f"x{index}"
        if is_turned:
            nodes.append(helper.make_node("Transpose", [name], [f"t{index}"], perm=[1, 0]))
            name = f"t{index}"
        wanted = x.astype(np.float64) @ w.astype(np.float64)
        nodes.append(helper.make_node("MatMul", [name, f"w{index}"], [f"m{index}"]))
        result = f"m{index}"
        if is_fused:
            nodes.append(helper.make_node("Abs", [result], [f"a{index}"]))
            result, wanted = f"a{index}", np.abs(wanted)
        nodes.append(helper.make_node("Identity", [result], [f"y{index}"]))
        expected[f"y{index}"] = wanted.astype(dtype)
    outputs = [helper.make_tensor_value_info(name, number, None) for name in expected]
    graph = helper.make_graph(nodes, "products", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for threads in (1, 2):
        results = load(model, engine="native", threads=threads).run(feed)
        for name, wanted in expected.items():
            np.testing.assert_array_equal(results[name], wanted, name)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize(("m", "k", "n"), [(2100, 64, 40), (300, 900, 33), (5000, 20, 5)])
def test_matrices_of_a_run_with_many_rows(m: int, k: int, n: int, dtype: Any) -> None:
    """Such products pack the right operand once, or strips of a left one whose columns lie side by side."""
    names = {"a": (m, k), "left": (k, m), "b": (k, n), "right": (n, k)}
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [helper.make_node("Transpose", [name], [f"{name}.turned"], perm=[1, 0]) for name in ("left", "right")]
    pairs = [("a", "b"), ("a", "right.turned"), ("left.turned", "b"), ("left.turned", "right.turned")]
    nodes += [helper.make_node("MatMul", list(pair), [f"y{i}"]) for i, pair in enumerate(pairs)]
    inputs = [helper.make_tensor_value_info(name, number, shape) for name, shape in names.items()]
    outputs = [helper.make_tensor_value_info(f"y{i}", number, None) for i in range(len(pairs))]
    graph = helper.make_graph(nodes, "products", inputs, outputs)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    rng = np.random.default_rng(k)
    feeds = {name: rng.integers(-2, 3, shape).astype(dtype) for name, shape in names.items()}
    turned = feeds | {f"{name}.turned": feeds[name].T for name in ("left", "right")}
    for threads in (1, 2):
        found = load(proto, strict=True, threads=threads).run(feeds)
        for i, (left, right) in enumerate(pairs):
            np.testing.assert_array_equal(found[f"y{i}"], turned[left] @ turned[right])


SHAPES = [(3, 5), (2, 3, 7, 40), (2, 1, 7, 40), (1, 4, 1, 33), (2, 33, 16), (3, 2, 1), (2, 15, 130)]
"""Left operands; the last of them has no whole vector of rows and several of depth."""


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_batches_of_products_with_few_columns(dtype: Any) -> None:
    """Fed right operands of few columns, as they lie and turned, under left ones as they lie and turned."""
    rng = np.random.default_rng(np.dtype(dtype).num)
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes, feeds, expected = [], dict[str, Any](), dict[str, Any]()
    for index, (shape, columns) in enumerate((shape, columns) for shape in SHAPES for columns in (1, 2, 5, 8, 17)):
        arrays = [rng.integers(-2, 3, each).astype(dtype) for each in (shape, (*shape[:-2], shape[-1], columns))]
        names = [f"a{index}", f"b{index}"]
        expected[f"y{index}"] = (arrays[0].astype(np.float64) @ arrays[1].astype(np.float64)).astype(dtype)
        for place, array in enumerate(arrays):
            is_turned = rng.random() < 0.3
            feeds[names[place]] = np.ascontiguousarray(array.swapaxes(-1, -2)) if is_turned else array
            if is_turned:
                order = [*range(array.ndim - 2), array.ndim - 1, array.ndim - 2]
                nodes.append(helper.make_node("Transpose", [names[place]], [f"{names[place]}t"], perm=order))
                names[place] += "t"
        nodes.append(helper.make_node("MatMul", names, [f"y{index}"]))
    inputs = [helper.make_tensor_value_info(name, number, array.shape) for name, array in feeds.items()]
    outputs = [helper.make_tensor_value_info(name, number, None) for name in expected]
    graph = helper.make_graph(nodes, "products", inputs, outputs)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for threads in (1, 2):
        found = load(proto, strict=True, threads=threads).run(feeds)
        for name, wanted in expected.items():
            np.testing.assert_array_equal(found[name], wanted, name)


@pytest.mark.parametrize("columns", [2, 5, 8])
def test_few_columns_that_are_fed_have_tiles_as_narrow_as_constant_ones(columns: int) -> None:
    constant = f"w = Constant<value = float[64,{columns}] {{{','.join('1' * 64 * columns)}}}>()"
    proto = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[4,30,64] a, float[4,64,{columns}] b) => (y, z)'
        f" {{ y = MatMul(a, b)  {constant}  z = MatMul(a, w) }}"
    )
    fed, packed = re.findall(r"tile \d+x(\d+)", str(load(proto, engine="native").explain()))
    assert fed == packed
