"""Gradients of random graphs to the second order against central differences, and at kinks against PyTorch.

Graphs, chains, control flow and single operators are those of the other kinds, in double precision and small. One
gradient serves several sets of sizes.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.printer
import torch
from onnx import TensorProto, helper
from tests.autodiff.kinks import KINKS, compare
from tests.ops.test_agreement import OPSETS

import intaglio
from intaglio.conformance.exported import import_exported
from intaglio.errors import IntaglioError, UnsupportedError
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate_values

from .. import chains, control
from ..anchors import ANCHORS
from ..dice import Dice
from ..draft import Draft, Rejected
from ..growth import Grower, outputs_of
from ..judging import Finding, Verdict
from ..more_operators import DOMAINS, NEWER
from ..operators import ALL, is_far
from ..problem import Problem
from . import Seen, Tell
from .slopes import Arrays, Differences, Function, Move, moves_of, weights_of

SIZES = (1, 2, 3, 4, 5)
GRAPHS = 6
"""How many graphs a seed has, times as many as are asked for."""
KINKS_OF_A_SEED = 2
COMPILED_SHARE = 0.04
NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
MOST_ELEMENTS = 400


class SmallDice(Dice):
    """Choices of small sizes and double precision, of numbers without infinities."""

    def of(self, options: Sequence[Any]) -> Any:
        is_type = "float64" in options and options[0] != "float64"  # those are what values are cast to and back from
        return "float64" if is_type else super().of(options)

    def size(self, sizes: Sequence[int] | None = None) -> int:
        small = [size for size in sizes or SIZES if size <= 9] or [min(sizes or SIZES)]
        return int(small[int(self.sizes.integers(len(small)))])

    def array(self, dtype: str, shape: Sequence[int], special: bool = True, low: float = -4, high: float = 4) -> Any:
        return super().array(dtype, shape, False, low, high)


class DoubleDraft(Draft):
    """A model without roundings to narrower types, which differences would see as steps."""

    def add(self, operator: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> list[str]:
        if operator == "Cast" and attributes["to"] in NARROW:
            raise Rejected("rounds to a narrower type")
        return super().add(operator, *inputs, outputs=outputs, domain=domain, **attributes)


def grown(dice: SmallDice, grow: Callable[[Grower], None]) -> Problem:
    """One graph with one or two sets of sizes."""
    bindings = dice.of((1, 2))
    draft = DoubleDraft(dice, bindings, is_static=bindings == 1 and dice.chance(0.5))
    g = Grower(draft, "float64")
    while not draft.nodes:
        grow(g)
    return draft.problem(outputs_of(g, 0.15))


def chain(dice: SmallDice) -> Problem:
    """A chain around an anchor."""
    return grown(dice, lambda g: chains.chain(g, dice.of(ANCHORS)))


def graph(dice: SmallDice) -> Problem:
    """A graph of all kinds of nodes."""
    return grown(dice, chains.grow_graph)


def flow(dice: SmallDice) -> Problem:
    """A graph with branches, loops and sequences."""
    return grown(dice, control.grow)


def operator(dice: SmallDice) -> Problem:
    """One operator of those that are tried alone."""
    opset = 24
    names = [name for name in sorted(ALL) if {**OPSETS, **NEWER}.get(name, 1) <= opset and not is_far(name)]
    name = dice.of(names)
    case = ALL[name](dice, name)
    used = [None if array is None else f"x{i}" for i, array in enumerate(case.inputs)]
    node = helper.make_node(
        case.operator.partition("@")[0],
        [name or "" for name in used],
        [f"y{i}" for i in range(case.outputs)],
        domain=DOMAINS.get(name, ""),
        **case.attributes,
    )
    feeds = {name: array for name, array in zip(used, case.inputs, strict=True) if name}
    infos = [
        helper.make_tensor_value_info(
            name, TensorProto.STRING if a.dtype.kind == "O" else helper.np_dtype_to_tensor_dtype(a.dtype), a.shape
        )
        for name, a in feeds.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(node.domain, 5 if "ml" in node.domain else 1)] if node.domain else []
    made = helper.make_graph([node], "operator", infos, outputs)
    return Problem(helper.make_model(made, opset_imports=imports, ir_version=10), [feeds])


MAKERS: tuple[tuple[Callable[[SmallDice], Problem], float], ...] = (
    (chain, 0.3), (graph, 0.25), (flow, 0.2), (operator, 0.25)
)  # fmt: skip


def problem_of(seed: int, number: int) -> tuple[str, Problem]:
    """The name of the maker and the problem of a part of a seed."""
    dice = SmallDice(7, seed, number)
    makers, shares = zip(*MAKERS, strict=True)
    maker = makers[int(dice.structure.choice(len(makers), p=shares))]
    return maker.__name__, maker(dice)


def look(seed: int, times: int, tell: Tell) -> Seen:
    """Judge the gradients of the graphs of a seed, and those of some functions at kinks."""
    seen = Seen(0)
    for number in range(GRAPHS * times):
        tell(f"gradients {number}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen.cases += Examined(seed, number, seen.verdict).run()
    tell("kinks")
    for number in range(KINKS_OF_A_SEED * times):
        random = np.random.default_rng([8, seed, number])
        kink = KINKS[int(random.integers(len(KINKS)))]
        found = compare(kink, random)
        seen.cases += 1
        seen.verdict.judges.update({"PyTorch": found.elements - found.open, "open at kinks": found.open})
        seen.verdict.findings += [Finding(f"kink {number}", kink.name, 0, str(each)) for each in found.differences]
    return seen


class Examined:
    """One graph of a seed under examination."""

    def __init__(self, seed: int, number: int, verdict: Verdict) -> None:
        self.random = np.random.default_rng([9, seed, number])
        self.number, self.verdict = number, verdict
        self.maker, self.problem = problem_of(seed, number)
        self.is_compiled = bool(self.random.random() < COMPILED_SHARE)

    def run(self) -> int:
        """Judge it for all its feeds; how many graphs were judged: one, or none where nothing is smooth."""
        try:
            graph = read_model(self.problem.model).graph
        except IntaglioError:
            return 0
        wrt = [v.name for v in graph.inputs if _is_double(v.type) and all(f[v.name].size for f in self.problem.feeds)]
        of = [value.name for value in graph.outputs if _is_double(value.type)]
        wrt = [name for name in wrt if self.random.random() < 0.8] or wrt
        of = [name for name in of if self.random.random() < 0.7] or of
        if not wrt or not of:
            return 0
        self.verdict.judges["graphs"] += 1
        functions = self._functions(of, wrt)
        if not functions:
            return 1
        for place, feeds in enumerate(self.problem.feeds):
            self._judge(functions, of, feeds, place)
        return 1

    def _functions(self, of: list[str], wrt: list[str]) -> list[Function]:
        """The value alone, with its gradient, and with that of the gradient: as many as there are."""
        found = [Function(self.problem.model, of, wrt, 0)]
        for order in (1, 2):
            try:
                found.append(Function(self.problem.model, of, wrt, order))
            except UnsupportedError as error:
                self.verdict.judges[f"refused at order {order}"] += 1
                self.verdict.doubts.append(Finding(self._name, "", 0, f"order {order}: {error}"))
                return found[:order] if order > 1 else []
            except Exception as error:
                self._report("", 0, f"order {order}: {type(error).__name__}: {error}", of, wrt)
                return found[:order] if order > 1 else []
        return found

    @property
    def _name(self) -> str:
        return f"{self.maker} {self.number}"

    def _report(self, where: str, feeds: int, text: str, of: list[str], wrt: list[str]) -> None:
        node = onnx.printer.to_text(self.problem.model)
        self.verdict.findings.append(
            Finding(self._name, where, feeds, f"{text} (of {', '.join(of)} by {', '.join(wrt)})", node)
        )

    def _judge(self, functions: list[Function], of: list[str], feeds: Arrays, place: int) -> None:
        wrt = [value.name for value in functions[0].wrt]
        given = dict(feeds)
        plain = read_model(self.problem.model).graph
        outputs = [value for name in of for value in plain.outputs if value.name == name]
        with np.errstate(all="ignore"):
            results = evaluate_values(plain, [feeds[value.name] for value in plain.inputs], outputs)
        if not all(np.isfinite(array).all() for array in results):
            return
        given |= weights_of([array.shape for array in results], 0, self.random)
        for order in range(1, len(functions)):
            given |= weights_of([feeds[name].shape for name in wrt], order, self.random)
            try:
                bars = functions[order](given, functions[order].gradients[-1])
            except Exception as error:
                self._report(f"order {order}", place, f"{type(error).__name__}: {error}", of, wrt)
                return
            if sum(array.size for array in bars) > MOST_ELEMENTS and order > 1:
                return
            self._judge_order(functions[order - 1], order, dict(zip(wrt, bars, strict=True)), given, place, of)
        if self.is_compiled and len(functions) > 1:
            self._judge_compiled(functions[-1], given, place, of, wrt)

    def _judge_order(
        self, below: Function, order: int, bars: dict[str, Any], given: Arrays, place: int, of: list[str]
    ) -> None:
        """The gradients of one order against differences of the value whose gradients they are."""
        for name, array in bars.items():
            if array.shape != given[name].shape:
                self._report(f"order {order}", place, f"shape {array.shape} of {name}", of, list(bars))
                return
        for move in moves_of(given, list(bars), self.random):
            ours = move.slope(bars)
            differences = Differences(below, below.values[order - 1], given, move)
            verdict = differences.verdict(ours)
            if verdict == "wrong" and not np.isfinite(ours):
                verdict = self._singular(of, list(bars), given, move, order)
            self.verdict.judges[f"order {order} {verdict}"] += 1
            if verdict == "wrong":
                text = f"{ours!r} instead of {differences.slope(1e-5)!r} along {move}"
                self._report(f"order {order}", place, text, of, list(bars))
                return

    def _singular(self, of: list[str], wrt: list[str], given: Arrays, move: Move, order: int) -> str:
        """Whether a gradient that is not finite is so in PyTorch too, such as that of sqrt(relu(x)) below zero."""
        try:
            slope = torch_slope(self.problem.model, of, wrt, given, move, order)
        except (IntaglioError, SyntaxError, RuntimeError) as error:
            text = f"order {order} is not finite, and PyTorch cannot say: {type(error).__name__}: {str(error)[:200]}"
            self.verdict.doubts.append(Finding(self._name, "", 0, text))
            return "singular"
        return "wrong" if np.isfinite(slope) else "singular in PyTorch too"

    def _judge_compiled(self, function: Function, given: Arrays, place: int, of: list[str], wrt: list[str]) -> None:
        wanted = [value for found in function.gradients for value in found]
        expected = function(given, wanted)
        function.graph.set_outputs(list(dict.fromkeys(wanted)))
        model = intaglio.load(function.graph, engine="native")
        found = model.run(
            {name: array for name, array in given.items() if name in {v.name for v in model.graph.inputs}}
        )
        for value, array in zip(wanted, expected, strict=True):
            size = float(np.max(np.abs(array[np.isfinite(array)]), initial=1.0))
            if not np.allclose(found[value.name], array, rtol=1e-6, atol=1e-8 * size, equal_nan=True):
                self._report(f"native {value.name}", place, f"{found[value.name]!r} instead of {array!r}", of, wrt)
                return
        self.verdict.judges["compiled"] += 1


def _is_double(type: Any) -> bool:
    return str(type).startswith("float64")


def torch_slope(model: onnx.ModelProto, of: list[str], wrt: list[str], given: Arrays, move: Move, order: int) -> float:
    """The slope along a move as PyTorch computes it in the exported module; raises where that cannot be."""
    with tempfile.TemporaryDirectory() as folder:
        intaglio.export(model, "torch", folder, simplify=False)
        module = import_exported(Path(folder)).load().double()
    inputs = [info.name for info in model.graph.input]
    tensors = {name: torch.tensor(given[name], requires_grad=name in wrt) for name in inputs}
    results = module(*tensors.values())
    results = results if isinstance(results, tuple) else (results,)
    named = dict(zip([info.name for info in model.graph.output], results, strict=True))
    values = [named[name] for name in of]
    for number in range(order):
        weights = [torch.tensor(given[f"weight{number}.{i}"]) for i in range(len(values))]
        total: Any = sum((value * weight).sum() for value, weight in zip(values, weights, strict=True))
        values = torch.autograd.grad(total, [tensors[name] for name in wrt], create_graph=True, allow_unused=True)
        values = [torch.zeros_like(tensors[n]) if v is None else v for n, v in zip(wrt, values, strict=True)]
    return move.slope({name: value.detach().numpy() for name, value in zip(wrt, values, strict=True)})
