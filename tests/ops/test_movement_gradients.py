"""The reverse-mode rules of shape, movement and indexing operators against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from tests.present import operator

from intaglio.ir.build import EagerBuilder, constant_value
from intaglio.ir.op import OPERATORS

X = np.random.default_rng(0).random((3, 4))
U = np.random.default_rng(1).random((2, 4))


def ints(*values):
    return np.array(values, np.int64)


FAR = 2**62
CASES = [
    ("Reshape", [X, ints(2, -1)], {}),
    ("Squeeze", [X[None], ints(0)], {}),
    ("Squeeze", [X[None]], {}),
    ("Unsqueeze", [X, ints(1)], {}),
    ("Flatten", [X], {}),
    ("Expand", [X[:1], ints(2, 3, 4)], {}),
    ("Tile", [X, ints(2, 3)], {}),
    ("Transpose", [X[None]], {"perm": (2, 0, 1)}),
    ("Transpose", [X], {}),
    ("Concat", [X, U], {"axis": 0}),
    ("Slice", [X, ints(1), ints(3)], {}),
    ("Slice", [X, ints(-3, 0), ints(FAR, 2), ints(1, 0)], {}),
    ("Slice", [X, ints(-9), ints(2), ints(1), ints(1)], {}),
    ("Slice", [X, ints(FAR, 0), ints(-FAR, 3), ints(1, 0), ints(-2, 2)], {}),
    ("Pad", [X, ints(1, 0, -1, 2)], {}),
    ("Pad", [X, ints(1, 2), None, ints(1)], {}),
    ("Gather", [X, ints(0, 2, 2)], {}),
    ("Gather", [X, ints(1, 1, 3, 0).reshape(2, 2)], {"axis": 1}),
    ("Gather", [X, np.array(-1)], {"axis": 1}),
    ("GatherElements", [X, ints(0, 0, 2, 1).reshape(1, 4)], {}),
    ("GatherND", [X, ints(0, 1, 0, 1, 2, 3).reshape(3, 2)], {}),
    ("ScatterElements", [X, ints(0, 1, 2, 0, 2, 2, 1, 1).reshape(2, 4), U], {}),
    ("ScatterElements", [X, ints(0, 1, 2, 0, 0, 1, 1, 1).reshape(2, 4), U], {"reduction": "add"}),
    ("ScatterND", [X, ints(2, 0).reshape(2, 1), U], {}),
    ("ScatterND", [X, ints(1, 1).reshape(2, 1), U], {"reduction": "add"}),
    ("ReverseSequence", [X, ints(1, 3, 2, 0)], {}),
    ("Trilu", [X, np.array(1)], {}),
    ("Trilu", [X], {"upper": 0}),
]


def numerical(op, arrays, position, bar):
    result = np.zeros_like(arrays[position])
    for index in np.ndindex(result.shape):
        ends = []
        for step in (1e-6, -1e-6):
            moved = [None if array is None else array.copy() for array in arrays]
            moved[position][index] += step
            ends.append(float(np.sum(op.reference(*moved) * bar)))
        result[index] = (ends[0] - ends[1]) / 2e-6
    return result


@pytest.mark.parametrize(("name", "arrays", "attributes"), CASES)
def test_pullbacks_agree_with_finite_differences(name, arrays, attributes):
    op = OPERATORS[("", name)](**attributes)
    output = op.reference(*arrays)
    bar = np.random.default_rng(2).random(output.shape)
    builder = EagerBuilder()
    with builder.active():
        inputs = [None if array is None else constant_value(array) for array in arrays]
        bars = op.pullback(builder, inputs, [constant_value(output)], [constant_value(bar)])
    for position, (array, found) in enumerate(zip(arrays, bars, strict=True)):
        if array is None or array.dtype.kind != "f":
            assert found is None
            continue
        assert found.constant.shape == array.shape
        np.testing.assert_allclose(found.constant, numerical(op, arrays, position, bar), rtol=1e-5, atol=1e-7)


def test_split_puts_its_parts_together():
    op = operator("Split", axis=1, output_count=2)
    parts = op.reference(X, ints(1, 3))
    builder = EagerBuilder()
    with builder.active():
        values = [constant_value(part) for part in parts]
        gradient, none = op.pullback(
            builder, [constant_value(X), constant_value(ints(1, 3))], values, [None, values[1]]
        )
    assert none is None
    np.testing.assert_array_equal(gradient.constant, np.concatenate([parts[0] * 0, parts[1]], axis=1))


def test_top_k_passes_its_gradient_to_the_chosen_elements():
    op = OPERATORS[("", "TopK")]()
    values, places = op.reference(X, ints(2))
    builder = EagerBuilder()
    with builder.active():
        outputs = [constant_value(values), constant_value(places)]
        inputs = [constant_value(X), constant_value(ints(2))]
        gradient, _ = op.pullback(builder, inputs, outputs, [constant_value(np.ones_like(values)), None])
    np.testing.assert_array_equal(gradient.constant, np.greater_equal(X, values[:, 1:]))
