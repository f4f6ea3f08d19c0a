"""What the tests need that the hunt writes."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import onnx
import onnx.parser
from onnx import numpy_helper

from .judging import Variant, examine
from .problem import Problem


def packed(text: str) -> Any:
    """An array from the text that `minimise` made of it."""
    tensor = onnx.TensorProto()
    tensor.ParseFromString(zlib.decompress(base64.b85decode(text)))
    return numpy_helper.to_array(tensor)


def written_problem(text: str, constants: dict[str, Any], feeds: list[dict[str, Any]]) -> Problem:
    """A problem from ONNX's text form, in which constants stand as inputs."""
    model = onnx.parser.parse_model(text)
    inputs = [info for info in model.graph.input if info.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return Problem(model, feeds)


def assert_agrees(text: str, constants: dict[str, Any], feeds: list[dict[str, Any]], variant: Variant | None) -> None:
    """Fail where a model differs from the reference, or (for None) the reference from other judges."""
    problem = written_problem(text, constants, feeds)
    found = examine(problem, [] if variant is None else [variant], judged=variant is None).findings
    assert not found, "\n".join(map(str, found))
