"""An executor in NumPy: a second target for the engine, which judges the seam between the two; it knows no C.

Kernels are run over whole arrays. What it has no words for, loops and kernels of files among it, is refused when a plan
is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from intaglio.errors import CompileError
from intaglio.ir.dim import Dim
from intaglio.ir.substitution import evaluate
from intaglio.kernels.language import Apply, Expr, Let, Load, LoopKernel, Name, Number, Parameter, Reduce, Store
from intaglio.kernels.plan import (
    FAULT,
    Action,
    Allocate,
    Assign,
    Branch,
    Call,
    Check,
    Fill,
    FindSizes,
    Operand,
    walk,
)
from intaglio.kernels.plan_form import PlanForm, SegmentForm
from intaglio.kernels.view import Buffer
from intaglio.targets.errors import RefusedPlanError
from intaglio.targets.executor import Progress
from intaglio.targets.step import Into, PlanSource, Ready, Step, places

Array = np.ndarray[Any, Any]

TYPES = {
    "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_,
}  # fmt: skip

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "neg": np.negative, "sign": np.sign, "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "div": np.divide, "min": np.minimum, "max": np.maximum, "pow": np.power, "ceil": np.ceil, "floor": np.floor,
    "rint": np.rint, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "expm1": np.expm1,
    "relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "is_nan": np.isnan, "and": np.logical_and, "or": np.logical_or,
    "xor": np.logical_xor, "not": np.logical_not, "select": np.where, "cast": lambda x: x,
    "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor, "bit_not": np.invert,
}  # fmt: skip

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "mean": np.mean, "product": np.prod, "max": np.max, "min": np.min
}  # fmt: skip


class NumPyExecutor:
    """See `intaglio.targets.executor.Executor`."""

    description = "numpy"
    rules: Any = None
    """Plans are lowered elsewhere."""

    def compile(self, forms: Sequence[PlanForm], progress: Progress) -> None:
        """Nothing is compiled; raises RefusedPlanError for the first plan with actions that NumPy has no words for."""
        refused = [action for segment in forms[0].segments for action in walk(segment.actions) if not _is_known(action)]
        if refused:
            reason = CompileError(f"NumPy cannot run {type(refused[0]).__name__} {refused[0].title!r}")
            raise RefusedPlanError(reason, [tuple(node.id for node in each.served) for each in refused])

    def load(self, plan: PlanSource, code: None, constants: Sequence[Array], threads: int) -> list[Step]:
        """The segments of a plan."""
        segments = plan.read().segments
        return [NumPyStep(frame, part, constants) for frame, part in zip(plan.frames, segments, strict=True)]


def _is_known(action: Action) -> bool:
    if not isinstance(action, Call):
        return isinstance(action, (Allocate, Assign, Branch, Check, Fill, FindSizes))
    kernel = action.kernel.loops
    return kernel is not None and not action.checks and all(map(_is_statement_known, kernel.body))


def _is_statement_known(statement: Any) -> bool:
    def is_known(value: Expr) -> bool:
        if not isinstance(value, Apply):
            return True
        return value.function in FUNCTIONS and not value.options and all(map(is_known, value.arguments))

    if isinstance(statement, Reduce):
        return not statement.round and is_known(statement.value)
    return isinstance(statement, Load) or (isinstance(statement, (Let, Store)) and is_known(statement.value))


class NumPyStep(Step):
    """A segment, run action by action."""

    def __init__(self, frame: Any, segment: SegmentForm, constants: Sequence[Array]) -> None:
        super().__init__(frame)
        self.segment, self.constants = segment, constants

    def prepare(self, bindings: dict[str, int], rooms: Sequence[int]) -> dict[str, int]:
        """The sizes; memory is NumPy's."""
        return dict(bindings)

    def call(
        self, ready: Ready, inputs: Sequence[Any], time: int, told: Sequence[Any] = (), into: Into | None = None
    ) -> tuple[int, list[Any]]:
        """The status of the action that stopped the run, or 0, and the outputs."""
        outputs = places(ready, into)
        run = _Run(self, dict(ready.prepared), inputs, outputs)
        status = run.block(self.segment.actions)
        if told and not status:
            told[0][:] = [run.sizes[name] for name in self.segment.late[: self.segment.told]]
        return status, run.outputs


class _Run:
    """One run of a segment: its sizes, and the memory of its buffers as flat arrays."""

    def __init__(self, step: NumPyStep, sizes: dict[str, int], inputs: Sequence[Array], outputs: list[Any]) -> None:
        self.sizes, self.inputs, self.outputs, self.constants = sizes, inputs, outputs, step.constants
        self.own: dict[int, Array] = {}
        self.numbers = {id(action): place for place, action in enumerate(walk(step.segment.actions))}

    def block(self, actions: Sequence[Action]) -> int:
        for action in actions:
            status = self.action(action)
            if status:
                return status
        return 0

    def action(self, action: Action) -> int:
        match action:
            case Call():
                self.kernel(action)
            case Fill():
                self.at(action.operand)[: len(action.items)] = [self.size(item) for item in action.items]
            case Assign():
                self.sizes |= {name: self.size(dim) for name, dim in action.items}
            case FindSizes():
                return self.find(action)
            case Allocate():
                self.allocate(action.buffer)
            case Check():
                is_met = any(self.size(left) == self.size(right) for left, right in action.pairs)
                return 0 if is_met else self.refusal(action) if action.status == FAULT else action.status
            case Branch():
                return self.block(action.then if self.at(action.condition)[0] else action.otherwise)
            case _:
                raise AssertionError(f"{type(action).__name__} was refused")
        return 0

    def refusal(self, action: Action) -> int:
        return FAULT + self.numbers[id(action)]

    def size(self, dim: Dim) -> int:
        return evaluate(dim, self.sizes)

    def find(self, action: FindSizes) -> int:
        numbers = self.at(action.numbers)[: len(action.names)].tolist()
        least = min(numbers) if action.least is None else action.least
        most = max(numbers) if action.limit is None else self.size(action.limit)
        if any(not least <= number <= most for number in numbers):
            return self.refusal(action)
        self.sizes |= {name: number for name, number in zip(action.names, numbers, strict=True) if name is not None}
        return 0

    def allocate(self, buffer: Buffer) -> None:
        array = np.empty(self.size(buffer.size), buffer.dtype.numpy)
        self.own[id(buffer)] = array
        if buffer.kind == "output":
            self.outputs[buffer.index] = array.reshape([self.size(dim) for dim in buffer.shape])

    def memory(self, buffer: Buffer) -> Array:
        if buffer.place is not None:
            return self.memory(buffer.place)[self.size(buffer.place_offset) :]
        known = {"input": self.inputs, "output": self.outputs, "constant": self.constants}
        if buffer.kind in known and not buffer.is_late:
            return known[buffer.kind][buffer.index].reshape(-1)
        if id(buffer) not in self.own:
            self.allocate(buffer)
        return self.own[id(buffer)]

    def at(self, operand: Operand) -> Array:
        return self.memory(operand.buffer)[self.size(operand.offset) :]

    def kernel(self, call: Call) -> None:
        kernel = call.kernel.loops
        assert kernel is not None
        sizes = {name: self.size(size) for name, size in call.sizes}
        views = {
            each.name: _view(each, self.memory(operand.buffer), self.size(operand.offset), kernel, sizes)
            for each, operand in zip(kernel.parameters, call.operands, strict=True)
        }
        with np.errstate(all="ignore"):
            execute(kernel, views)


def _view(parameter: Parameter, memory: Array, offset: int, kernel: LoopKernel, sizes: Mapping[str, int]) -> Array:
    """The elements of a parameter, one for each step of all loops."""
    shape = [sizes[loop.name] for loop in kernel.loops]
    steps = [sizes[step] if isinstance(step, str) else step for step in parameter.steps]
    item = memory.dtype.itemsize
    return as_strided(memory[offset:], shape, [step * item for step in steps])


def execute(kernel: LoopKernel, views: Mapping[str, Array]) -> None:
    """Run a kernel of the neutral language; reductions keep their axes, so that all values broadcast."""
    axes = tuple(place for place, loop in enumerate(kernel.loops) if loop.is_reduced)
    known: dict[str, Any] = {}
    for statement in kernel.body:
        match statement:
            case Load():
                known[statement.name] = views[statement.parameter].astype(TYPES[statement.type])
            case Let():
                known[statement.name] = compute(statement.value, known)
            case Reduce():
                value = np.asarray(compute(statement.value, known)).astype(TYPES[statement.total])
                shape = np.broadcast_shapes(value.shape, *(view.shape for view in views.values()))
                total = REDUCTIONS[statement.function](np.broadcast_to(value, shape), axis=axes, keepdims=True)
                known[statement.name] = total.astype(TYPES[statement.type])
            case Store():
                views[statement.parameter][...] = compute(statement.value, known)
            case _:
                raise AssertionError(f"{type(statement).__name__} was refused")


def compute(value: Expr, known: Mapping[str, Any]) -> Any:
    """The value of an expression, for all steps of the loops at once."""
    match value:
        case Name():
            return known[value.name]
        case Number():
            return TYPES[value.type](value.value)
        case Apply():
            function = (
                np.floor_divide if value.function == "div" and value.type[0] in "iu" else FUNCTIONS[value.function]
            )
            return np.asarray(function(*(compute(each, known) for each in value.arguments))).astype(TYPES[value.type])
