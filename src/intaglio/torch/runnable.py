# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""A torch.fx graph that runs: models of ours and calls of PyTorch, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from sympy import Equality, expand
from torch.fx import GraphModule, Node

from intaglio.errors import UnsupportedError
from intaglio.ir.graph import Graph, Value
from intaglio.ir.origin import Origin
from intaglio.runtime.engine.binding import lone_symbol
from intaglio.runtime.model.model import Model
from intaglio.targets import executor_for
from intaglio.torch.instructions import (
    BindInstruction,
    EagerInstruction,
    RestrideInstruction,
    SizeInstruction,
    Slot,
    SolveInstruction,
)
from intaglio.torch.model_instruction import CarriedSize, LateModel, ModelInstruction, Operand, Result
from intaglio.torch.partition import Classified, Part, attribute, cut, is_item, is_size
from intaglio.torch.strides import is_gapless, is_overlapping, is_zero, kept_offset, memory_order, viewed
from intaglio.torch.translate import SYMBOLIC, Translator

Make = Callable[[Graph], Model | LateModel]
"""What compiles a graph."""


class RunnableGraph:
    """The steps of a graph; called with a list of arguments, which is emptied, it gives the outputs."""

    def __init__(self, steps: Sequence[Any], count: int, inputs: int, outputs: Sequence[Any], constants: Any) -> None:
        self.steps = list(steps)
        self._count, self._inputs, self._outputs = count, inputs, list(outputs)
        self._constants = dict(constants)
        self.threads: int | None = None
        self._is_ours = all(
            isinstance(step, (ModelInstruction, BindInstruction, SizeInstruction, SolveInstruction))
            for step in self.steps
        )
        self._boxed_call = True  # on the object: PyTorch wraps functions with what stands there

    @property
    def models(self) -> list[Model]:
        """The models of the program, in order."""
        found = [step.model for step in self.steps if isinstance(step, ModelInstruction)]
        return [model for model in found if isinstance(model, Model)]

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """Run all steps."""
        slots = [*arguments, *[None] * (self._count - self._inputs)]
        arguments.clear()
        for slot, tensor in self._constants.items():
            slots[slot] = tensor
        bindings: dict[str, int] = {}
        if self.threads is not None and torch.get_num_threads() != self.threads:
            with executor_for().using_threads(torch.get_num_threads()):
                self._run(slots, bindings)
        else:
            self._run(slots, bindings)
        return [slots[each.place] if isinstance(each, Slot) else each for each in self._outputs]

    def _run(self, slots: list[Any], bindings: dict[str, int]) -> None:
        if self._is_ours:  # what we run has no gradients anyway
            for step in self.steps:
                step.run(slots, bindings)
            return
        with torch.no_grad():
            for step in self.steps:
                step.run(slots, bindings)


class Assembly:
    """Makes the program of a classified graph; `seen` are the nodes whose results PyTorch sees.

    `frozen` are inputs that are taken for constants, with their tensors. With `is_restrided`, inputs may lie otherwise
    than PyTorch expects.
    """

    def __init__(
        self,
        module: GraphModule,
        classified: Classified,
        make: Make,
        seen: set[Node],
        frozen: Mapping[Node, torch.Tensor] | None = None,
        is_restrided: bool = False,
    ) -> None:
        self._frozen = dict(frozen or {})
        self._module = module
        self._classified = classified
        self._make = make
        self._nodes: list[Node] = list(module.graph.nodes)
        self._slots = {node: place for place, node in enumerate(self._nodes)}
        self._output = self._nodes[-1]
        self.returned = returned_nodes(module)
        self._seen = seen
        self._views = {node for node in seen if node not in classified.eager and viewed(node) in seen}
        self._is_restrided = is_restrided
        self.plain: set[Node] = set()
        """Tensors that no user sees, which lie in the usual order here, whatever PyTorch expects."""

    def program(self) -> RunnableGraph:
        """The whole program."""
        steps: list[Any] = []
        constants = {
            self._slots[node]: attribute(self._module, str(node.target))
            for node in self._nodes
            if node.op == "get_attr"
        }
        known: set[str] = set()
        given = [node for node in self._nodes if node.op == "placeholder"]
        steps += self._binding(known, given)
        steps += self._restriding(given, known) if self._is_restrided else []
        sized: set[Node] = set()
        for part in cut(self._module, self._classified.eager):
            steps += self._our_steps(part, known, sized) if part.is_ours else self._eager_steps(part, known, sized)
        steps += self._sizes_for(self._output, known, sized)
        inputs = sum(node.op == "placeholder" for node in self._nodes)
        outputs = [Slot(self._slots[each]) if isinstance(each, Node) else each for each in self.returned]
        return RunnableGraph(steps, len(self._nodes), inputs, outputs, constants)

    def _our_steps(self, part: Part, known: set[str], sized: set[Node]) -> list[Any]:
        """The model of a part, and the views of its results that PyTorch sees."""
        given = self._wanted(part)
        shown = [node for node in given if node in self._seen]
        seen = [node for node in shown if not is_gapless(node.meta["val"]) or not is_zero(kept_offset(node))]
        steps = [*self._model_steps(part, given), *self._binding(known, given), *self._restriding(seen, known)]
        for node in part.nodes:
            steps += self._eager_step(node, known, sized) if node in self._views else []
        return steps

    def _eager_steps(self, part: Part, known: set[str], sized: set[Node]) -> list[Any]:
        return [step for node in part.nodes for step in self._eager_step(node, known, sized)]

    def _eager_step(self, node: Node, known: set[str], sized: set[Node]) -> list[Any]:
        """An operator that PyTorch runs, behind the numbers that it reads; the symbols that it shows are bound."""
        numbers = self._sizes_for(node, known, sized)
        return [*numbers, EagerInstruction(node, self._slots[node], self._slots), *self._binding(known, [node])]

    def _restriding(self, nodes: Sequence[Node], known: set[str]) -> list[Any]:
        """Steps that move tensors which PyTorch sees to where it expects them, as far as strides are known.

        PyTorch makes views of inputs that were written to at the offsets that views of our results have. Its own
        writes to parts of tensors keep offsets, so that results have those of inputs.
        """
        values = [(node, node.meta.get("val")) for node in nodes if node in self._seen]
        tensors = [(node, value) for node, value in values if isinstance(value, torch.Tensor)]
        told = [(node, value) for node, value in tensors if set(_symbols_of(value.stride())) <= known]
        return [
            RestrideInstruction(self._slots[node], value, _known_offset(node, known))
            for node, value in told
            if not is_overlapping(value)
        ]

    def _binding(self, known: set[str], nodes: Sequence[Node]) -> list[Any]:
        """Steps that bind the symbols which these nodes show, or that follow from what they show."""
        found: dict[str, tuple[int, int | None]] = {}
        for node in nodes:
            for name, axis in _told(node):
                if name not in known:
                    known.add(name)
                    found[name] = (self._slots[node], axis)
        return [*([BindInstruction(found)] if found else []), *self._solving(known, nodes)]

    def _solving(self, known: set[str], nodes: Sequence[Node]) -> list[Any]:
        """Steps for symbols that no node shows by themselves: s + 2 * t shows s where t is known."""
        shown = [(expression, (self._slots[node], axis)) for node in nodes for expression, axis in _shown(node)]
        steps: list[SolveInstruction] = []
        while step := _solved(shown, known):
            known.add(step.name)
            steps.append(step)
        return steps

    def _sizes_for(self, node: Node, known: set[str], sized: set[Node]) -> list[Any]:
        """Steps for the symbolic numbers that a node reads which PyTorch runs, or the output."""
        steps: list[Any] = []
        for each in node.all_input_nodes:
            if is_size(each) and each.op == "call_function" and each not in sized:
                sized.add(each)
                steps.append(self._size_step(each, known))
        return steps

    def _size_step(self, node: Node, known: set[str]) -> Any:
        value = node.meta["val"]
        if not set(_symbols_of(value)) <= known:
            raise UnsupportedError(f"the number {node.name} ({value}), whose symbols come from data")
        return SizeInstruction(value, self._slots[node])

    def _wanted(self, part: Part) -> list[Node]:
        """The tensors of a part that others read, and that are no views which PyTorch makes."""
        inside = set(part.nodes)
        tensors = [n for n in part.nodes if isinstance(n.meta.get("val"), torch.Tensor) and n not in self._views]
        return [node for node in tensors if node in self._seen or _is_read(node, inside)]

    def _model_steps(self, part: Part, wanted: Sequence[Node]) -> list[Any]:
        """The model of a part, with what it reads and what others read of it."""
        if not wanted:
            return []
        nodes = _leading_to(wanted, part.nodes)
        translator = Translator()
        operands = self._read(nodes, translator)
        sizes = self._carried(nodes, translator)
        for node in nodes:
            self._translate_sizes(node, translator)
            translator.add(node)
        results = self._written(wanted, translator)
        model = self._make(translator.graph)
        return [ModelInstruction(model, operands, sizes, results, len(results))]

    def _read(self, nodes: Sequence[Node], translator: Translator) -> list[Operand]:
        operands: list[Operand] = []
        inside = set(nodes)
        for node in nodes:
            for each in node.all_input_nodes:
                if each in inside or each in translator.values or is_size(each) or is_item(each):
                    continue
                if each.op == "get_attr" or each in self._frozen:
                    held = self._frozen.get(each)
                    translator.constant(each, attribute(self._module, str(each.target)) if held is None else held)
                    continue
                order = memory_order(each.meta["val"])
                translator.add_input(each, order)
                operands.append(Operand(self._slots[each], order))
        return operands

    def _carried(self, nodes: Sequence[Node], translator: Translator) -> list[CarriedSize]:
        """Inputs for symbols that no tensor among these nodes has as a size of its own."""
        needed: dict[str, Any] = {}
        own: set[str] = set()
        for node in nodes:
            for each in (node, *node.all_input_nodes):
                needed |= _symbols_of(each.meta.get("val"))
            own |= _decided_by(node)
        bound = {lone for v in translator.graph.inputs for d in v.shape if (lone := lone_symbol(d)) is not None}
        carried: list[CarriedSize] = []
        for name in sorted(set(needed) - bound - own):
            carried += [CarriedSize(name, sign) for sign in translator.add_symbol(name, needed[name])]
        return carried

    def _translate_sizes(self, node: Node, translator: Translator) -> None:
        for each in node.all_input_nodes:
            if (is_size(each) or is_item(each)) and each not in translator.values:
                value = each.meta["val"]
                if isinstance(value, SYMBOLIC):
                    translator.add(each)
                else:
                    translator.values[each] = value

    def _written(self, wanted: Sequence[Node], translator: Translator) -> list[Result]:
        """The outputs of a part's graph; each is a value of its own."""
        outputs: list[Value] = []
        results: list[Result] = []
        b = translator.builder
        b.origin = Origin("output")
        for node in wanted:
            value = translator.values[node]
            order = memory_order(node.meta["val"]) if node in self._seen else None
            if order is not None:
                value = b.Transpose(value, perm=order)
            elif value.producer is None or value in outputs or (not value.shape and value.constant is not None):
                value = b.Identity(value)
            if node not in self._seen:
                self.plain.add(node)
            outputs.append(value)
            results.append(Result(self._slots[node], order))
        translator.graph.set_outputs(outputs)
        return results


def _known_offset(node: Node, known: set[str]) -> Any:
    """Where the result of a node begins in its memory; raises UnsupportedError where symbols of it are not known."""
    offset = kept_offset(node)
    if not set(_symbols_of(offset)) <= known:
        raise UnsupportedError(f"the offset {offset} of {node.name}, whose symbols no input has")
    return offset


def returned_nodes(module: GraphModule) -> list[Any]:
    """What a graph returns: nodes, numbers and None."""
    (returned,) = next(iter(reversed(module.graph.nodes))).args
    return list(returned) if isinstance(returned, (list, tuple)) else [returned]


def _leading_to(wanted: Sequence[Node], nodes: Sequence[Node]) -> list[Node]:
    """Those of some nodes that the wanted ones are computed from, in order."""
    found: set[Node] = set()
    waiting = list(wanted)
    inside = set(nodes)
    while waiting:
        node = waiting.pop()
        if node in inside and node not in found:
            found.add(node)
            waiting.extend(node.all_input_nodes)
    return [node for node in nodes if node in found]


def _is_read(node: Node, inside: set[Node]) -> bool:
    return any(user not in inside and not is_size(user) for user in node.users)


def _told(node: Node) -> list[tuple[str, int | None]]:
    """The symbols whose value a node's result is or shows."""
    value = node.meta.get("val")
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        return [(lone, None)] if (lone := _lone(value)) is not None else []
    if isinstance(value, torch.SymBool):
        return [(name, None)] if (name := _truth(value)) is not None else []
    if isinstance(value, torch.Tensor):
        return [(lone, axis) for axis, size in enumerate(value.shape) if (lone := _lone(size)) is not None]
    return []


def _shown(node: Node) -> list[tuple[Any, int | None]]:
    """The expressions of SymPy whose values a node's result is or has as sizes."""
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt):
        return [(expand(value.node.expr), None)]
    if not isinstance(value, torch.Tensor):
        return []
    sizes: Sequence[Any] = value.shape
    return [(expand(size.node.expr), axis) for axis, size in enumerate(sizes) if isinstance(size, torch.SymInt)]


def _solved(shown: Sequence[tuple[Any, tuple[int, int | None]]], known: set[str]) -> SolveInstruction | None:
    """A step for the first unknown symbol that stands alone in one of these expressions, times a number."""
    for expression, source in shown:
        unknown = [each for each in expression.free_symbols if str(each) not in known]
        if len(unknown) != 1:
            continue
        factor = expression.coeff(unknown[0])
        rest = expression - factor * unknown[0]
        if factor.is_Integer and factor != 0 and unknown[0] not in rest.free_symbols:
            return SolveInstruction(str(unknown[0]), source, int(factor), rest)
    return None


def _decided_by(node: Node) -> set[str]:
    """The sizes of a node's result that its data decides: symbols of PyTorch that stand in none of its operands."""
    given = {name for each in node.all_input_nodes for name in _symbols_of(each.meta.get("val"))}
    return {name for name, _ in _told(node) if name.startswith("u") and name not in given}


def _truth(value: torch.SymBool) -> str | None:
    """The symbol that is 1 where a truth value that was read off a tensor holds."""
    expression = value.node.expr
    is_read = isinstance(expression, Equality) and expression.lhs.is_Symbol and expression.rhs == 1
    return str(expression.lhs) if is_read else None


def _lone(size: Any) -> str | None:
    if isinstance(size, int):
        return None
    expression = size.node.expr
    return str(expression) if expression.is_Symbol else None


def _symbols_of(value: Any) -> dict[str, Any]:
    """The symbols of a number or of a shape by name, each with a number that they stand in."""
    if isinstance(value, SYMBOLIC):
        return {str(each): value for each in value.node.expr.free_symbols}
    numbers: Sequence[Any] = value.shape if isinstance(value, torch.Tensor) else ()
    if isinstance(value, (list, tuple)):
        numbers = cast("Sequence[Any]", value)
    return {name: number for each in numbers for name, number in _symbols_of(each).items()}
