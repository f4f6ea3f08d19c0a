# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""A torch.fx graph that runs: models of ours and calls of PyTorch, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from sympy import Integer
from torch._prims_common import is_contiguous_for_memory_format
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from intaglio.errors import UnsupportedError
from intaglio.ir.dim import Dim, symbol
from intaglio.ir.graph import Graph, Value
from intaglio.ir.origin import Origin
from intaglio.runtime.engine.binding import lone_symbol
from intaglio.runtime.model.model import Model
from intaglio.targets.c.native import using_threads
from intaglio.torch.model_step import LateModel, ModelStep, Operand, Result
from intaglio.torch.partition import Classified, Part, attribute, cut, is_size
from intaglio.torch.translate import SYMBOLIC, Translator

Make = Callable[[Graph], Model | LateModel]
"""What compiles a graph."""


class EagerStep:
    """One operator that PyTorch runs."""

    def __init__(self, node: Node, slot: int, places: Mapping[Node, Any]) -> None:
        self.target = node.target
        self.slot = slot
        self.arguments = _placed(node.args, places)
        self.named = _placed(node.kwargs, places)

    def run(self, slots: list[Any], bindings: Mapping[str, int]) -> None:
        """Call the operator on what is in the slots."""
        arguments, named = _filled(self.arguments, slots), _filled(self.named, slots)
        assert callable(self.target)
        slots[self.slot] = self.target(*arguments, **named)


def _placed(arguments: Any, places: Mapping[Node, int]) -> Any:
    """The arguments of a node with slots in the place of nodes."""
    replace: Any = lambda each: _Slot(places[each])  # noqa: E731
    return map_arg(arguments, replace)


class _Slot:
    def __init__(self, place: int) -> None:
        self.place = place


def _filled(arguments: Any, slots: Sequence[Any]) -> Any:
    if isinstance(arguments, _Slot):
        return slots[arguments.place]
    if isinstance(arguments, (list, tuple)):
        return [_filled(each, slots) for each in arguments]
    if isinstance(arguments, dict):
        return {name: _filled(each, slots) for name, each in arguments.items()}
    return arguments


class SizeStep:
    """A symbolic number, from the sizes that are known by then."""

    def __init__(self, number: Any, slot: int) -> None:
        self.number, self.slot = number, slot

    def run(self, slots: list[Any], bindings: Mapping[str, int]) -> None:
        """Write the number."""
        slots[self.slot] = _evaluated(self.number, bindings)


def _evaluated(number: Any, bindings: Mapping[str, int]) -> Any:
    """A symbolic number of PyTorch for given symbols."""
    if isinstance(number, (bool, int, float)):
        return number
    expression = number.node.expr
    value = expression.xreplace({each: Integer(bindings[str(each)]) for each in expression.free_symbols})
    kind = int if isinstance(number, torch.SymInt) else bool if isinstance(number, torch.SymBool) else float
    return kind(value)


class BindStep:
    """The values of symbols, read off tensors and numbers that are there by now."""

    def __init__(self, sources: Mapping[str, tuple[int, int | None]]) -> None:
        self.sources = dict(sources)

    def run(self, slots: list[Any], bindings: dict[str, int]) -> None:
        """Bind the symbols."""
        for name, (slot, axis) in self.sources.items():
            bindings[name] = slots[slot] if axis is None else slots[slot].shape[axis]


class Program:
    """The steps of a graph; called with a list of arguments, which is emptied, it gives the outputs."""

    def __init__(self, steps: Sequence[Any], count: int, inputs: int, outputs: Sequence[Any], constants: Any) -> None:
        self.steps = list(steps)
        self._count, self._inputs, self._outputs = count, inputs, list(outputs)
        self._constants = dict(constants)
        self.threads: int | None = None
        self._is_ours = all(isinstance(step, (ModelStep, BindStep, SizeStep)) for step in self.steps)
        self._boxed_call = True  # on the object: PyTorch wraps functions with what stands there

    @property
    def models(self) -> list[Model]:
        """The models of the program, in order."""
        found = [step.model for step in self.steps if isinstance(step, ModelStep)]
        return [model for model in found if isinstance(model, Model)]

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """Run all steps."""
        slots = [*arguments, *[None] * (self._count - self._inputs)]
        arguments.clear()
        for slot, tensor in self._constants.items():
            slots[slot] = tensor
        bindings: dict[str, int] = {}
        if self.threads is not None and torch.get_num_threads() != self.threads:
            with using_threads(torch.get_num_threads()):
                self._run(slots, bindings)
        else:
            self._run(slots, bindings)
        return [slots[each.place] if isinstance(each, _Slot) else each for each in self._outputs]

    def _run(self, slots: list[Any], bindings: dict[str, int]) -> None:
        if self._is_ours:  # what we run has no gradients anyway
            for step in self.steps:
                step.run(slots, bindings)
            return
        with torch.no_grad():
            for step in self.steps:
                step.run(slots, bindings)


class Assembly:
    """Makes the program of a classified graph; `visible` outputs keep the strides that PyTorch expects.

    `frozen` are inputs that are taken for constants, with their tensors.
    """

    def __init__(
        self,
        module: GraphModule,
        classified: Classified,
        make: Make,
        visible: int | None = None,
        frozen: Mapping[Node, torch.Tensor] | None = None,
    ) -> None:
        self._frozen = dict(frozen or {})
        self._module = module
        self._classified = classified
        self._make = make
        self._nodes: list[Node] = list(module.graph.nodes)
        self._slots = {node: place for place, node in enumerate(self._nodes)}
        self._output = self._nodes[-1]
        (returned,) = self._output.args
        self.returned: list[Any] = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        self._visible = visible
        self.plain: set[Node] = set()
        """Tensors that no user sees, which lie in the usual order here, whatever PyTorch expects."""

    def program(self) -> Program:
        """The whole program."""
        steps: list[Any] = []
        constants = {
            self._slots[node]: attribute(self._module, str(node.target))
            for node in self._nodes
            if node.op == "get_attr"
        }
        known: set[str] = set()
        steps += self._binding(known, [node for node in self._nodes if node.op == "placeholder"])
        sized: set[Node] = set()
        for part in cut(self._module, self._classified.eager):
            steps += self._sizes_for(part.nodes, known, sized)
            given = self._wanted(part) if part.is_ours else part.nodes
            if part.is_ours:
                steps += self._model_steps(part, given)
            else:
                steps += [EagerStep(node, self._slots[node], self._slots) for node in part.nodes]
            steps += self._binding(known, given)
        steps += self._sizes_for([self._output], known, sized)
        inputs = sum(node.op == "placeholder" for node in self._nodes)
        outputs = [_Slot(self._slots[each]) if isinstance(each, Node) else each for each in self.returned]
        return Program(steps, len(self._nodes), inputs, outputs, constants)

    def _binding(self, known: set[str], nodes: Sequence[Node]) -> list[Any]:
        """A step that binds the symbols which these nodes tell; nothing where they tell none."""
        found: dict[str, tuple[int, int | None]] = {}
        for node in nodes:
            for name, axis in _told(node):
                if name not in known:
                    known.add(name)
                    found[name] = (self._slots[node], axis)
        return [BindStep(found)] if found else []

    def _sizes_for(self, nodes: Sequence[Node], known: set[str], sized: set[Node]) -> list[Any]:
        """Steps for the symbolic numbers that nodes which PyTorch runs, or the output, read."""
        steps: list[Any] = []
        for node in nodes:
            if node not in self._classified.eager and node is not self._output:
                continue
            for each in node.all_input_nodes:
                if is_size(each) and each.op == "call_function" and each not in sized:
                    sized.add(each)
                    steps.append(self._size_step(each, known))
        return steps

    def _size_step(self, node: Node, known: set[str]) -> Any:
        value = node.meta["val"]
        if not _symbols_of(value) <= known:
            raise UnsupportedError(f"the number {node.name} ({value}), whose symbols come from data")
        return SizeStep(value, self._slots[node])

    def _wanted(self, part: Part) -> list[Node]:
        """The tensors of a part that others read."""
        inside = set(part.nodes)
        return [n for n in part.nodes if isinstance(n.meta.get("val"), torch.Tensor) and _is_read(n, inside)]

    def _model_steps(self, part: Part, wanted: Sequence[Node]) -> list[Any]:
        """The model of a part, with what it reads and what others read of it."""
        nodes = set(part.nodes)
        if not wanted:
            return []
        translator = Translator()
        operands = self._read(part, nodes, translator)
        sizes = self._carried(part, translator)
        for node in part.nodes:
            self._translate_sizes(node, translator)
            translator.add(node)
        results = self._written(wanted, translator)
        model = self._make(translator.graph)
        return [ModelStep(model, operands, sizes, results, len(results))]

    def _read(self, part: Part, nodes: set[Node], translator: Translator) -> list[Operand]:
        operands: list[Operand] = []
        for node in part.nodes:
            for each in node.all_input_nodes:
                if each in nodes or each in translator.values or is_size(each):
                    continue
                if each.op == "get_attr" or each in self._frozen:
                    held = self._frozen.get(each)
                    translator.constant(each, attribute(self._module, str(each.target)) if held is None else held)
                    continue
                order = memory_order(each.meta["val"])
                translator.add_input(each, order)
                operands.append(Operand(self._slots[each], order))
        return operands

    def _carried(self, part: Part, translator: Translator) -> list[Dim]:
        """Inputs for symbols that no tensor of the part has as a size of its own."""
        needed: set[str] = set()
        own: set[str] = set()
        for node in part.nodes:
            for each in (node, *node.all_input_nodes):
                needed |= _symbols_of(each.meta.get("val"))
            own |= {name for name, _ in _told(node) if name.startswith("u")}
        bound = {lone for v in translator.graph.inputs for d in v.shape if (lone := lone_symbol(d)) is not None}
        names = sorted(needed - bound - own)
        for name in names:
            translator.add_size(name)
        return [symbol(name) for name in names]

    def _translate_sizes(self, node: Node, translator: Translator) -> None:
        for each in node.all_input_nodes:
            if is_size(each) and each not in translator.values:
                value = each.meta["val"]
                if isinstance(value, SYMBOLIC):
                    translator.add(each)
                else:
                    translator.values[each] = value

    def _written(self, wanted: Sequence[Node], translator: Translator) -> list[Result]:
        """The outputs of a part's graph; each is a value of its own."""
        shown = set(self.returned if self._visible is None else self.returned[: self._visible])
        outputs: list[Value] = []
        results: list[Result] = []
        b = translator.builder
        b.origin = Origin("output")
        for node in wanted:
            value = translator.values[node]
            order = memory_order(node.meta["val"]) if node in shown else None
            if order is not None:
                value = b.Transpose(value, perm=order)
            elif value.producer is None or value in outputs or (not value.shape and value.constant is not None):
                value = b.Identity(value)
            if node not in shown:
                self.plain.add(node)
            outputs.append(value)
            results.append(Result(self._slots[node], order))
        translator.graph.set_outputs(outputs)
        return results


def _is_read(node: Node, inside: set[Node]) -> bool:
    return any(user not in inside and not is_size(user) for user in node.users)


def memory_order(tensor: Any) -> tuple[int, ...] | None:
    """The order of axes in which a tensor lies in memory without gaps; None for the usual order, and where gaps are."""
    strides = tensor.stride()
    if tensor.ndim < 2 or not all(isinstance(stride, int) for stride in strides):
        return _symbolic_order(tensor)
    if tensor.is_contiguous():
        return None
    order = tuple(sorted(range(tensor.ndim), key=lambda axis: (-strides[axis], axis)))
    return order if tensor.permute(order).is_contiguous() else None


def _symbolic_order(tensor: Any) -> tuple[int, ...] | None:
    """Channels last is known of sizes that are open too."""
    if tensor.ndim not in (4, 5):
        return None
    last = torch.channels_last if tensor.ndim == 4 else torch.channels_last_3d
    hints = [_hint(stride) for stride in tensor.stride()]
    if any(hint is None for hint in hints) or not is_contiguous_for_memory_format(tensor, memory_format=last):
        return None
    sizes = [_hint(size) for size in tensor.shape]
    if 1 in sizes[1:2] or all(size == 1 for size in sizes[2:]):
        return None
    return (0, *range(2, tensor.ndim), 1)


def _hint(size: Any) -> int | None:
    return size if isinstance(size, int) else size.node.hint


def _told(node: Node) -> list[tuple[str, int | None]]:
    """The symbols whose value a node's result is or shows."""
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt):
        return [(lone, None)] if (lone := _lone(value)) is not None else []
    if isinstance(value, torch.Tensor):
        return [(lone, axis) for axis, size in enumerate(value.shape) if (lone := _lone(size)) is not None]
    return []


def _lone(size: Any) -> str | None:
    if isinstance(size, int):
        return None
    expression = size.node.expr
    return str(expression) if expression.is_Symbol else None


def _symbols_of(value: Any) -> set[str]:
    if isinstance(value, SYMBOLIC):
        return {str(each) for each in value.node.expr.free_symbols}
    if isinstance(value, torch.Tensor):
        return set().union(*(_symbols_of(size) for size in value.shape)) if value.ndim else set()
    if isinstance(value, (list, tuple)):
        return set().union(*map(_symbols_of, value)) if value else set()
    return set()
