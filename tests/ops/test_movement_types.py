"""Scatter and Resize combine elements of every type that their schema allows, in every mode."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import defs
from tests.present import operator

from intaglio.ir.dtype import DTYPES


def ints(*values):
    return np.array(values, np.int64)


CASES: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "ScatterElements": lambda x: (x, ints(0, 0, 1).reshape(1, 3), x[:1]),
    "ScatterND": lambda x: (x, ints(1).reshape(1, 1), x[:1]),
    "Resize": lambda x: (x, None, np.array([2, 2], np.float32)),
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


@pytest.mark.parametrize("name", ["ScatterElements", "ScatterND"])
@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
def test_every_type_is_combined(name, reduction):
    arguments = CASES[name]
    for dtype in allowed(name):
        if dtype.kind not in ("string", "complex"):
            result = operator(name, reduction=reduction).reference(*arguments(sample(dtype)))
            assert result.dtype == dtype.numpy


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_every_number_is_interpolated(mode):
    for dtype in allowed("Resize"):
        if dtype.kind != "string":
            result = operator("Resize", mode=mode).reference(*CASES["Resize"](sample(dtype)))
            assert result.dtype == dtype.numpy
            assert result.shape == (4, 6)
