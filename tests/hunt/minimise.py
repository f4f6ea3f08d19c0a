"""A finding, reduced to the few nodes that show it."""

from __future__ import annotations

import base64
import io
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import onnx.printer
from onnx import helper, numpy_helper

from intaglio.errors import IntaglioError
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate_values

from .children import run_in_child
from .judging import Finding, Variant, examine
from .known import captured
from .problem import Problem, part

SECONDS = 120.0
PRINTED_ELEMENTS = 48


def faults(problem: Problem, variant: Variant | None) -> list[Finding]:
    """What one way to run a problem (or, for None, what judges) finds, seen from a process of its own."""
    variants = [] if variant is None else [variant]
    outcome = run_in_child(lambda tell: examine(problem, variants, tell, judged=variant is None).findings, SECONDS)
    return [Finding(outcome.phase, "", 0, outcome.fault)] if outcome.fault else outcome.result


def sort_of(finding: Finding) -> str:
    """What a finding is, regardless of where: a wrong result, a crash, an error by its class."""
    text = finding.text
    for beginning in ("loading raised ", "running raised "):
        if text.startswith(beginning):
            return text[len(beginning) :].partition(":")[0]
    if text.startswith("raised "):  # by the examination itself, such as on a model that cannot be read
        return text.rstrip().rpartition("\n")[2].partition(":")[0]
    return "crash" if "process ended" in text else "hang" if "no result after" in text else "difference"


class Minimiser:
    """Tries smaller problems for as long as they show the same sort of fault."""

    def __init__(self, problem: Problem, variant: Variant | None, wanted: Finding, seconds: float = 240) -> None:
        self.problem, self.variant, self.wanted = problem, variant, wanted
        self.end = time.monotonic() + seconds

    def is_still_wrong(self, problem: Problem) -> bool:
        """Whether a smaller problem shows the fault."""
        if time.monotonic() > self.end:
            return False
        try:
            found = faults(problem, self.variant)
        except Exception:  # a cut that makes no model
            return False
        return any(sort_of(item) == sort_of(self.wanted) for item in found)

    def run(self) -> Problem:
        """The smallest problem that was found."""
        self._try_each(_single_outputs)
        self._try_each(_single_feeds)
        before = -1
        while before != size_of(self.problem):
            before = size_of(self.problem)
            self._try_each(_cuts)
            self._try_each(_bypasses)
            self._try_each(_fewer_outputs)
        self._try_each(_static)
        self._try_each(_plain_numbers)
        return self.problem

    def _try_each(self, changes: Callable[[Problem], Iterator[Problem]]) -> None:
        """Take the first change that keeps the fault, again and again."""
        is_smaller = True
        while is_smaller:
            is_smaller = False
            for changed in changes(self.problem):
                if self.is_still_wrong(changed):
                    self.problem, is_smaller = changed, True
                    break


def size_of(problem: Problem) -> int:
    """How large a problem is to a reader."""
    return 10 * len(problem.model.graph.node) + len(problem.model.graph.input) + len(problem.model.graph.output)


def _pruned(problem: Problem, outputs: list[str], nodes: list[Any] | None = None) -> Problem:
    """The nodes that some outputs need."""
    needed, kept = set(outputs), []
    for node in reversed(nodes if nodes is not None else list(problem.model.graph.node)):
        if needed & set(node.output):
            needed |= {*node.input, *captured(node)}
            kept.append(node)
    return part(problem, kept[::-1], outputs)


def _names(problem: Problem) -> list[str]:
    return [info.name for info in problem.model.graph.output]


def _single_outputs(problem: Problem) -> Iterator[Problem]:
    names = _names(problem)
    while len(names) > 2:  # halves first, since models can have dozens
        half = names[: len(names) // 2]
        yield _pruned(problem, half)
        yield _pruned(problem, names[len(half) :])
        break
    if len(names) > 1:
        for name in names:
            yield _pruned(problem, [name])


def _fewer_outputs(problem: Problem) -> Iterator[Problem]:
    names = _names(problem)
    for name in names if len(names) > 1 else []:
        yield _pruned(problem, [other for other in names if other != name])


def _single_feeds(problem: Problem) -> Iterator[Problem]:
    for feeds in problem.feeds if len(problem.feeds) > 1 else []:
        yield Problem(problem.model, [feeds])


def _cuts(problem: Problem) -> Iterator[Problem]:
    """Values that are computed become inputs with what the reference computes; the last ones first."""
    graph = read_model(problem.model).graph
    values = {value.name: value for node in graph.nodes for value in node.outputs}
    outputs = set(_names(problem))
    for node in reversed(problem.model.graph.node):
        if set(node.output) & outputs:
            if len(outputs) == 1 and node.input:  # the end of the chain may be ahead of it
                yield from _earlier(problem, node)
            continue
        names = [name for name in node.output if name in values]
        try:
            arrays = [
                evaluate_values(graph, [feeds[v.name] for v in graph.inputs], [values[name] for name in names])
                for feeds in problem.feeds
            ]
        except IntaglioError:
            continue
        if all(isinstance(array, np.ndarray) for found in arrays for array in found):
            yield _cut(problem, node, names, arrays)


def _earlier(problem: Problem, node: Any) -> Iterator[Problem]:
    produced = {name for other in problem.model.graph.node for name in other.output}
    inner = [name for name in node.input if name in produced]
    if inner:
        yield _pruned(_with_outputs(problem, inner), inner)


def _with_outputs(problem: Problem, names: list[str]) -> Problem:
    model = onnx.ModelProto()
    model.CopyFrom(problem.model)
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return Problem(model, problem.feeds)


def _cut(problem: Problem, node: Any, names: list[str], arrays: list[list[Any]]) -> Problem:
    model = onnx.ModelProto()
    model.CopyFrom(problem.model)
    nodes = [other for other in model.graph.node if other.output[0] != node.output[0]]
    feeds = [dict(item) for item in problem.feeds]
    for position, name in enumerate(names):
        found = [item[position] for item in arrays]
        shape = [n if len({a.shape[i] for a in found}) == 1 else f"{name}_{i}" for i, n in enumerate(found[0].shape)]
        number = helper.np_dtype_to_tensor_dtype(found[0].dtype)
        model.graph.input.append(helper.make_tensor_value_info(name, number, shape))
        for item, array in zip(feeds, found, strict=True):
            item[name] = array
    return _pruned(Problem(model, feeds), _names(problem), nodes)


def _bypasses(problem: Problem) -> Iterator[Problem]:
    """A node's readers read what it read."""
    outputs = set(_names(problem))
    for node in problem.model.graph.node:
        if set(node.output) & outputs or not node.input or not node.input[0]:
            continue
        model = onnx.ModelProto()
        model.CopyFrom(problem.model)
        for other in model.graph.node:
            for i, name in enumerate(other.input):
                if name == node.output[0]:
                    other.input[i] = node.input[0]
        yield _pruned(Problem(model, problem.feeds), _names(problem))


def _static(problem: Problem) -> Iterator[Problem]:
    """Numbers in place of symbols."""
    if len(problem.feeds) > 1:
        return
    model = onnx.ModelProto()
    model.CopyFrom(problem.model)
    is_changed = False
    for info in model.graph.input:
        for dim, size in zip(info.type.tensor_type.shape.dim, problem.feeds[0][info.name].shape, strict=True):
            is_changed |= dim.HasField("dim_param")
            dim.dim_value = size
    if is_changed:
        yield Problem(model, problem.feeds)


def _plain_numbers(problem: Problem) -> Iterator[Problem]:
    """Inputs and constants of numbers that can be written in a line."""
    for name in [name for name, array in problem.feeds[0].items() if _is_long(array)]:
        feeds = [{**item, name: _made_up(item[name])} for item in problem.feeds]
        yield Problem(problem.model, feeds)
    for position, item in enumerate(problem.model.graph.initializer):
        if _is_long(numpy_helper.to_array(item)):
            model = onnx.ModelProto()
            model.CopyFrom(problem.model)
            made = _made_up(numpy_helper.to_array(item))
            model.graph.initializer[position].CopyFrom(numpy_helper.from_array(made, item.name))
            yield Problem(model, problem.feeds)


def _is_long(array: Any) -> bool:
    is_kind = array.dtype in (np.float32, np.float64)
    return is_kind and array.size > PRINTED_ELEMENTS and not np.array_equal(array, _made_up(array))


def _made_up(array: Any) -> Any:
    return np.random.default_rng(0).uniform(-1, 1, array.shape).astype(array.dtype)


# The test


def test_of(problem: Problem, variant: Variant | None, title: str) -> str:
    """A test for pytest that fails as long as the fault is there."""
    model = onnx.ModelProto()
    model.CopyFrom(problem.model)
    constants = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    del model.graph.initializer[:]
    for name in constants:  # they come back as constants, written as arrays
        number = helper.np_dtype_to_tensor_dtype(constants[name].dtype)
        model.graph.input.append(helper.make_tensor_value_info(name, number, constants[name].shape))
    text = onnx.printer.to_text(model).rstrip()
    feeds = ",\n        ".join(
        "{" + ", ".join(f'"{n}": {written(a)}' for n, a in f.items()) + "}" for f in problem.feeds
    )
    weights = ", ".join(f'"{name}": {written(array)}' for name, array in constants.items())
    way = "None" if variant is None else repr(variant)
    return f'''"""Found by the hunt: {title}."""

import numpy as np

from tests.hunt.judging import Variant
from tests.hunt.written import assert_agrees, packed

MODEL = """
{text}
"""


def test_{"".join(c if c.isalnum() else "_" for c in title.lower()).strip("_")}():
    constants = {{{weights}}}
    feeds = [
        {feeds},
    ]
    assert_agrees(MODEL, constants, feeds, {way})
'''


def written(array: Any) -> str:
    """An array as Python text."""
    array = np.asarray(array)
    if array.dtype in (np.float32, np.float64) and array.size and np.array_equal(array, _made_up(array)):
        return f"np.random.default_rng(0).uniform(-1, 1, {array.shape}).astype(np.{array.dtype})"
    if array.size <= PRINTED_ELEMENTS and np.dtype(array.dtype).kind in "iub":
        return f"np.array({array.tolist()}, np.{array.dtype}).reshape({array.shape})"
    if array.size <= PRINTED_ELEMENTS and array.dtype in (np.float32, np.float64) and np.isfinite(array).all():
        return f"np.array({array.tolist()}, np.{array.dtype}).reshape({array.shape})"
    return f'packed("{_packed(array)}")'


def _packed(array: Any) -> str:
    file = io.BytesIO()
    tensor = numpy_helper.from_array(array)
    file.write(tensor.SerializeToString())
    return base64.b85encode(zlib.compress(file.getvalue(), 9)).decode().replace("\\", "\\\\").replace('"', '\\"')
