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
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate

from .dice import Dice
from .more_operators import DOMAINS, NEWER, OWN
from .problem import Problem

ALL = {**MAKERS, **OWN}
CASES = 40
MOST_INPUT = 1 << 20


def operators_of(opset: int) -> list[str]:
    """The operators that a model of an operator set can have."""
    return sorted(name for name in ALL if {**OPSETS, **NEWER}.get(name, 1) <= opset)


def problem(seed: int) -> Problem:
    """A model of many nodes."""
    dice = Dice(1, seed)
    opset = dice.of((21, 21, 23, 23, 24, 26))
    names = operators_of(opset)
    draft = Draft(opset)
    draws = 0
    while draft.count < CASES and draws < 2 * CASES:
        draws += 1
        operator = names[(seed * CASES + draws) % len(names)] if dice.chance(0.5) else dice.of(names)
        draft.add(ALL[operator](dice, operator), DOMAINS.get(operator, ""), dice)
    return draft.problem()


class Draft:
    """A model of independent nodes in the making."""

    def __init__(self, opset: int) -> None:
        self.opset, self.count = opset, 0
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[str] = []
        self.constants: list[Any] = []
        self.feeds: dict[str, Any] = {}
        self.refused: list[str] = []

    def add(self, case: Case, domain: str, dice: Dice) -> None:
        """Add a node, with fed inputs or constants, and with sizes that are numbers or symbols."""
        if sum(a.size for a in case.inputs if a is not None) > MOST_INPUT:
            return
        prefix = f"n{self.count}"
        names = ["" if array is None else f"{prefix}x{i}" for i, array in enumerate(case.inputs)]
        while names and not names[-1]:
            names.pop()
        results = [f"{prefix}y{i}" for i in range(case.outputs)]
        node = helper.make_node(case.operator.partition("@")[0], names, results, domain=domain, **case.attributes)
        is_static, has_constants = dice.chance(0.5), dice.chance(0.6)
        infos, constants, feeds = [], [], {}
        for i, (name, array) in enumerate(zip(names, case.inputs, strict=False)):
            if array is None:
                continue
            if has_constants and i > 0:
                constants.append(numpy_helper.from_array(array, name))
                continue
            infos.append(_info(name, array, is_static or (i > 0 and array.ndim == 1)))
            feeds[name] = array
        if not self._is_taken(node, infos, constants, feeds, case):
            return
        self.count += 1
        self.nodes.append(node)
        self.inputs += infos
        self.constants += constants
        self.feeds |= feeds
        self.outputs += results

    def _is_taken(self, node: Any, infos: Any, constants: Any, feeds: Any, case: Case) -> bool:
        try:
            graph = read_model(self._model([node], infos, list(node.output), constants)).graph
            with np.errstate(all="ignore"):
                evaluate(graph, [feeds[value.name] for value in graph.inputs])
        except IntaglioError as error:
            if "does not fit an axis" in str(error):  # windows are made without a look at the sides
                return False
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
        return Problem(model, [self.feeds], self.count, self.refused)


def _info(name: str, array: Any, is_static: bool) -> Any:
    number = onnx.TensorProto.STRING if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype)
    shape = array.shape if is_static else [f"{name}_{axis}" for axis in range(array.ndim)]
    return helper.make_tensor_value_info(name, number, shape)
