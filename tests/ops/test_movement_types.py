"""Operators that move, choose or combine elements work on every type that their schema allows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import defs

from intaglio.ir.dtype import DTYPES
from intaglio.ir.op import OPERATORS


def ints(*values):
    return np.array(values, np.int64)


def square(x):
    """The 2 x 3 matrix as an image of 1 x 4 x 2 x 1."""
    return np.concatenate([x, x])[:, :2].reshape(1, 4, 2, 1)


CASES: dict[str, tuple[Callable[[Any], tuple[Any, ...]], dict[str, Any]]] = {
    "Reshape": (lambda x: (x, ints(3, 2)), {}),
    "Transpose": (lambda x: (x,), {}),
    "Concat": (lambda x: (x, x), {"axis": 0}),
    "Split": (lambda x: (x, ints(1, 1)), {"output_count": 2}),
    "Slice": (lambda x: (x, ints(1), ints(0), ints(1), ints(-1)), {}),
    "Pad": (lambda x: (x, ints(1, 0, 0, 1)), {}),
    "Gather": (lambda x: (x, ints(1, 0)), {}),
    "GatherElements": (lambda x: (x, ints(0, 1, 0).reshape(1, 3)), {}),
    "GatherND": (lambda x: (x, ints(0, 1).reshape(1, 2)), {}),
    "ScatterElements": (lambda x: (x, ints(0, 0, 1).reshape(1, 3), x[:1]), {}),
    "ScatterND": (lambda x: (x, ints(1).reshape(1, 1), x[:1]), {}),
    "Expand": (lambda x: (x, ints(2, 2, 3)), {}),
    "Tile": (lambda x: (x, ints(2, 1)), {}),
    "Squeeze": (lambda x: (x[:1], ints(0)), {}),
    "Unsqueeze": (lambda x: (x, ints(0)), {}),
    "Flatten": (lambda x: (x,), {}),
    "EyeLike": (lambda x: (x,), {}),
    "DepthToSpace": (lambda x: (square(x),), {"blocksize": 2}),
    "SpaceToDepth": (lambda x: (square(x).reshape(1, 1, 4, 2),), {"blocksize": 2}),
    "ReverseSequence": (lambda x: (x, ints(1, 2, 1)), {}),
    "Trilu": (lambda x: (x,), {}),
    "CenterCropPad": (lambda x: (x, ints(3, 1)), {}),
    "TensorScatter": (lambda x: (x, x[:, :1], ints(1, 2)), {"axis": 1}),
    "Compress": (lambda x: (x, np.array([True, False, True])), {}),
    "Unique": (lambda x: (x,), {}),
    "TopK": (lambda x: (x, ints(2)), {}),
    "Resize": (lambda x: (x, None, np.array([2, 2], np.float32)), {}),
}
NAMES = {"float": "float32", "double": "float64"}


def allowed(name):
    """The element types of the first input in the newest schema."""
    schema = defs.get_schema(name)
    types = {item.type_param_str: item.allowed_type_strs for item in schema.type_constraints}
    found = (re.fullmatch(r"tensor\((\w+)\)", text) for text in types[schema.inputs[0].type_str])
    return [DTYPES[NAMES.get(match[1], match[1])] for match in found if match]


def sample(dtype):
    if dtype.kind == "string":
        return np.array([["b", "a", "b"], ["", "b", "c"]], object)
    return np.array([[1, 0, 1], [1, 1, 0]]).astype(dtype.numpy)


def as_plain(array):
    return array if array.dtype == object else array.astype(np.complex128)


@pytest.mark.parametrize("name", CASES)
def test_every_type_is_moved_alike(name):
    arguments, attributes = CASES[name]
    op = OPERATORS[("", name)](**attributes)

    def first(x):
        result = op.reference(*arguments(x))
        return result[0] if isinstance(result, tuple) else result

    expected = first(np.array([[1, 0, 1], [1, 1, 0]], np.float32))
    for dtype in allowed(name):
        result = first(sample(dtype))
        assert result.dtype == dtype.numpy, dtype
        if dtype.kind != "string" and dtype.name != "float8e8m0":  # that one has no zero
            np.testing.assert_array_equal(as_plain(result), as_plain(expected), err_msg=str(dtype))


@pytest.mark.parametrize("name", ["ScatterElements", "ScatterND"])
@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
def test_every_type_is_combined(name, reduction):
    arguments, _ = CASES[name]
    for dtype in allowed(name):
        if dtype.kind not in ("string", "complex"):
            result = OPERATORS[("", name)](reduction=reduction).reference(*arguments(sample(dtype)))
            assert result.dtype == dtype.numpy


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_every_number_is_interpolated(mode):
    for dtype in allowed("Resize"):
        if dtype.kind != "string":
            result = OPERATORS[("", "Resize")](mode=mode).reference(*CASES["Resize"][0](sample(dtype)))
            assert result.dtype == dtype.numpy
            assert result.shape == (4, 6)
