"""Single operators, dozens of them to a model, none reading another's result."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from tests.ops import agreement_layers as agreement_layers
from tests.ops.agreement_cases import MAKERS, Case
from tests.ops.test_agreement import OPSETS

from intaglio.errors import IntaglioError
from intaglio.ir.types import TensorType
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate

from . import far_operators
from .dice import Dice
from .more_operators import DOMAINS, NEWER, OWN
from .problem import Problem

ALL = {**MAKERS, **OWN}
FAR_SHARE = 0.12
"""How many nodes of a model are of the makers for long rows, whole vectors and extreme numbers."""
NODES = 40
MOST_TIMES = 2
"""A model of still more nodes costs more to lower than it saves."""
FEEDS = 4
MOST_INPUT = 1 << 20
SIZED = frozenset(("DFT", "STFT"))
"""Operators whose meaning depends on a size: that of the last axis tells whether numbers are complex."""


def operators_of(opset: int) -> list[str]:
    """The operators that a model of an operator set can have."""
    return sorted(name for name in ALL if {**OPSETS, **NEWER}.get(name, 1) <= opset)


def is_far(name: str) -> bool:
    """Whether a maker is one for long rows, whole vectors and extreme numbers."""
    return ALL[name].__module__ == far_operators.__name__ or name.endswith("@long")


def problem(seed: int, times: int = 1) -> Problem:
    """A model of many nodes, each with several sets of sizes and values."""
    dice, nodes = Dice(1, seed), NODES * min(times, MOST_TIMES)
    opset = dice.of((21, 21, 23, 23, 24, 26, 26))
    names = operators_of(opset)
    far = [name for name in names if is_far(name)]
    draft = Draft(opset, is_loose=dice.chance(0.1), is_ranked=dice.chance(0.9))
    for number in range(2 * nodes):
        operator = names[(seed * nodes + number) % len(names)] if dice.chance(0.5) else dice.of(names)
        operator = dice.of(far) if dice.chance(FAR_SHARE) else operator
        if len(draft.nodes) < nodes:
            draft.add(operator, (1, seed, number))
    return draft.problem()


def cases_of(operator: str, seed: tuple[int, ...]) -> list[Case]:
    """A case, and more of the same structure: with other sizes, or at least with other values."""
    make = ALL[operator]
    first = make(Dice(*seed), operator)
    found = [first]
    for number in range(1, FEEDS):
        for sizes in (number, 0):
            case = make(Dice(*seed, sizes=sizes, values=number), operator)
            if is_alike(case, first, with_sizes=sizes == 0):
                found.append(case)
                break
    return found


def is_alike(left: Case, right: Case, with_sizes: bool) -> bool:
    """Whether one node can serve two cases."""
    if (left.operator, left.attributes, left.outputs) != (right.operator, right.attributes, right.outputs):
        return False
    return len(left.inputs) == len(right.inputs) and all(
        (a is None) == (b is None)
        and (a is None or (a.dtype == b.dtype and a.ndim == b.ndim and _is_sized_alike(a.shape, b.shape, with_sizes)))
        for a, b in zip(left.inputs, right.inputs, strict=True)
    )


def _is_sized_alike(left: tuple[int, ...], right: tuple[int, ...], with_sizes: bool) -> bool:
    """Whether shapes are equal, or at least broadcast alike: else a node would need a plan for each of them."""
    return left == right if with_sizes else all((a == 1) == (b == 1) for a, b in zip(left, right, strict=True))


class Draft:
    """A model of independent nodes in the making; a loose one says nowhere that sizes are equal.

    A ranked one has no node whose number of axes depends on sizes: one such node gives the whole model a plan for each
    set of sizes, and then symbols are not tried.
    """

    def __init__(self, opset: int, is_loose: bool, is_ranked: bool) -> None:
        self.opset, self.count, self.is_loose, self.is_ranked = opset, 0, is_loose, is_ranked
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[str] = []
        self.constants: list[Any] = []
        self.feeds: list[dict[str, Any]] = [{} for _ in range(1 if is_loose else FEEDS)]
        self.refused: list[str] = []

    def add(self, operator: str, seed: tuple[int, ...]) -> None:
        """Add a node, with fed inputs or constants, and with sizes that are numbers or symbols."""
        cases = [case for case in cases_of(operator, seed) if _elements(case) < MOST_INPUT]
        if not cases:
            return
        dice, first = Dice(*seed, 9), cases[0]
        names = ["" if array is None else f"n{len(self.nodes)}x{i}" for i, array in enumerate(first.inputs)]
        while names and not names[-1]:
            names.pop()
        results = [f"n{len(self.nodes)}y{i}" for i in range(first.outputs)]
        domain = DOMAINS.get(operator, "")
        node = helper.make_node(first.operator.partition("@")[0], names, results, domain=domain, **first.attributes)
        is_static, has_constants = dice.chance(0.3), dice.chance(0.6)
        fixed = {name for name in names[1:] if name} if has_constants else set()
        cases = [case for case in cases if _is_same(case, first, names, fixed)][: len(self.feeds)]
        constants = [numpy_helper.from_array(a, n) for n, a in zip(names, first.inputs, strict=False) if n in fixed]
        if not is_static and self.is_ranked:
            infos = _infos([_fed(case, names, fixed) for case in cases], False, self.is_loose)
            is_static = not self._has_ranks(node, infos, constants)
        if is_static:
            cases = [case for case in cases if is_alike(case, first, with_sizes=True)]
        feeds = [_fed(case, names, fixed) for case in cases]
        infos = _infos(feeds, is_static, self.is_loose)
        taken = [
            item for item, case in zip(feeds, cases, strict=True) if self._takes(node, infos, constants, item, case)
        ]
        if not taken:
            return
        self.count += len(taken)
        self.nodes.append(node)
        self.inputs += infos
        self.constants += constants
        self.outputs += results
        for number, items in enumerate(self.feeds):
            items |= taken[number % len(taken)]

    def _has_ranks(self, node: Any, infos: Any, constants: Any) -> bool:
        """Whether the numbers of axes are known without the sizes; what cannot be read is not asked about."""
        try:
            graph = read_model(self._model([node], infos, list(node.output), constants)).graph
        except IntaglioError:
            return True
        types = [value.type for value in graph.outputs]
        is_open = any(isinstance(type_, TensorType) and type_.shape is None for type_ in types)
        return not is_open and node.op_type not in SIZED

    def _takes(self, node: Any, infos: Any, constants: Any, feeds: Any, case: Case) -> bool:
        try:
            graph = read_model(self._model([node], infos, list(node.output), constants)).graph
            with np.errstate(all="ignore"):
                evaluate(graph, [feeds[value.name] for value in graph.inputs])
        except IntaglioError as error:
            if "does not fit an axis" not in str(error):  # windows are made without a look at the sides
                self.refused.append(f"{str(case)[:300]}: {type(error).__name__}: {error}")
            return False
        return True

    def _model(self, nodes: Any, infos: Any, outputs: list[str], constants: Any) -> onnx.ModelProto:
        graph = helper.make_graph(nodes, "hunt", infos, [onnx.ValueInfoProto(name=n) for n in outputs], constants)
        domains = sorted({node.domain for node in nodes} - {""})
        imports = [
            helper.make_opsetid("", self.opset),
            *(helper.make_opsetid(name, 5 if "ml" in name else 1) for name in domains),
        ]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def problem(self) -> Problem:
        """The model with all its nodes."""
        model = self._model(self.nodes, self.inputs, self.outputs, self.constants)
        return Problem(model, self.feeds, self.count, self.refused)


def _elements(case: Case) -> int:
    return sum(array.size for array in case.inputs if array is not None)


def _is_same(case: Case, first: Case, names: list[str], fixed: set[str]) -> bool:
    """Whether the inputs that are constants are the same, or of no account for the sizes."""
    pairs = zip(names, case.inputs, first.inputs, strict=False)
    return all(
        a.shape == b.shape and (a.dtype.kind not in "iub" or np.array_equal(a, b)) for n, a, b in pairs if n in fixed
    )


def _fed(case: Case, names: list[str], fixed: set[str]) -> dict[str, Any]:
    return {name: array for name, array in zip(names, case.inputs, strict=False) if name and name not in fixed}


def _infos(feeds: list[dict[str, Any]], is_static: bool, is_loose: bool) -> list[Any]:
    """The inputs of a node. Sizes that are equal in all feeds have one symbol, unless the model is loose about it."""
    symbols: dict[tuple[int, ...], str] = {}
    found = []
    for name, array in feeds[0].items():
        number = onnx.TensorProto.STRING if array.dtype.kind == "O" else helper.np_dtype_to_tensor_dtype(array.dtype)
        shape: list[int | str] = []
        for axis in range(array.ndim):
            sizes = tuple(item[name].shape[axis] for item in feeds)
            is_list = array.dtype.kind == "i" and name != next(iter(feeds[0]))  # indices and sizes
            if is_static or set(sizes) == {1} or (is_list and len(set(sizes)) == 1):
                shape.append(sizes[0])
            else:
                own = f"{name}_{axis}"
                shape.append(own if is_loose else symbols.setdefault(sizes, own))
        found.append(helper.make_tensor_value_info(name, number, shape))
    return found
