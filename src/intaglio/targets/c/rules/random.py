"""Random numbers, the same as the reference draws from the same key."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.ir.dim import pieces
from intaglio.ir.dtype import FLOAT32, UINT64
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import whole
from intaglio.ops.random import key_of, uniform_bits
from intaglio.targets.c.kernel_file import Value as Setting
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.printing.register import MEMORY, float_literal
from intaglio.targets.c.routine import (
    Parameter,
    Routine,
    at_least_one,
    memory_type,
    reader,
    reads,
    row_blocks,
    writes,
)
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.target_rules import machine


def _key(context: Context, node: Node) -> Parameter:
    """The key of a node's numbers: a constant that its seed gives, or one drawn anew in each run."""
    if node.op.seed is not None:
        array = key_of(node.op.seed)
        return reads("key", whole(context.constant(array), array.shape))
    view = whole(context.temporary(UINT64, 2, "key"), (2,))
    context.emit(Routine("new_key", kernel("new_key"), [writes("key", view)], [], 1, 1000, checks=True).call(node))
    return reads("key", view)


@anchor(
    "RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike", reads=lambda node: [],
    needs={"vectors", "int128"},
)  # fmt: skip
def random_numbers(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A vector of numbers in double precision, rounded once; element i comes from word i (or pair i / 2)."""
    result = context.allocate(node.output)
    is_normal = "Normal" in node.op.name
    parameters = [_key(context, node), writes("out", result)]
    elements = machine(context).lanes * (2 if is_normal else 1)
    row_bytes, row_cost = elements * node.output.dtype.itemsize, elements * (6 if is_normal else 3)
    count = node.output.tensor.size
    rows = pieces(count, elements)
    blocks, tasks, cost = row_blocks(rows, row_bytes, row_cost)
    sizes: list[tuple[str, Size]] = [("count", count), ("rows", rows), *blocks]
    instance = kernel("random_normal", _normal(node)) if is_normal else kernel("random_uniform", _uniform(node))
    context.emit(Routine(node.op.name.lower(), instance, parameters, sizes, tasks, cost).call(node))


def _stored(node: Node) -> dict[str, Setting]:
    """The elements that double precision is rounded to, as parameters of a kernel."""
    element, suffix = MEMORY[node.output.dtype.name]
    narrowed = {"f64": "", "f32": "ig_cast_f64_f32"}.get(suffix, "ig_odd_f32")
    return {"ELEMENT": element, "SUFFIX": suffix, "NARROWED": narrowed}


def _normal(node: Node) -> dict[str, Setting]:
    scale, mean = float_literal(float(node.op.scale), "f64"), float_literal(float(node.op.mean), "f64")
    return _stored(node) | {"FACTOR": scale, "OFFSET": mean}


def _uniform(node: Node) -> dict[str, Setting]:
    low, high = float(node.op.low), float(node.op.high)
    factor, offset = float_literal(high - low, "f64"), float_literal(low, "f64")
    return _stored(node) | {"BITS": uniform_bits(node.output.dtype), "FACTOR": factor, "OFFSET": offset}


def _refuse_mask(node: Node) -> Refusal | None:
    seed = node.op.seed
    return None if seed is None or 0 <= seed < 1 << 32 else Refusal(Cause.FORM, f"the seed {seed} is not below 2^32")


@anchor(
    "DropoutMask",
    refuse=_refuse_mask,
    reads=lambda node: [v for v in node.inputs[1:] if v is not None],
    needs={"int128"},
)
def dropout_mask(context: Context, node: Node, epilogue: Epilogue) -> None:
    """True where a random number is not below the share; with a seed in order, as NumPy's older generator draws."""
    (ratio, training), result = _two(node.inputs[1:]), context.allocate(node.output)
    is_seeded = node.op.seed is not None
    parameters = [_state(context, node.op.seed) if is_seeded else _key(context, node)]
    parameters += [reads("mode", context.contiguous(training))] if training is not None else []
    parameters += [reads("ratio", context.contiguous(ratio))] if ratio is not None else []
    parameters.append(writes("out", result))
    count = node.output.tensor.size
    sizes: list[tuple[str, Size]] = [("count", count), ("rows", pieces(count, 4))]
    if is_seeded:
        tasks, cost = 1, 1 + count * 8
    else:
        blocks, tasks, cost = row_blocks(pieces(count, 4), 4, 12)
        sizes += [*blocks, ("tasks", tasks)]
        tasks = at_least_one(tasks)
    name = "dropout_mask_seeded" if is_seeded else "dropout_mask"
    instance = kernel(name, _share(training, ratio))
    routine = Routine("dropout_mask", instance, parameters, sizes, tasks, cost, checks=True)
    routine.scratch = 624 * 4 if is_seeded else 0
    context.emit(routine.call(node))


def _share(training: Value | None, ratio: Value | None) -> dict[str, Setting]:
    """What tells the share that is dropped, as parameters of a kernel."""
    dtype = FLOAT32 if ratio is None else ratio.dtype
    return {
        "HAS_MODE": training is not None,
        "HAS_RATIO": ratio is not None,
        "RATIO": memory_type(dtype),
        "READ_RATIO": reader(dtype),
    }


def _two(values: Any) -> tuple[Value | None, Value | None]:
    first, second = (*values, None, None)[:2]
    return first, second


def _state(context: Context, seed: int) -> Parameter:
    """The state of NumPy's older generator behind its seeding."""
    array = np.asarray(np.random.RandomState(seed).get_state(legacy=False)["state"]["key"], np.uint32)
    return reads("state", whole(context.constant(array), array.shape))


@anchor("Multinomial", needs={"int128"})
def multinomial(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Running sums of each row's weights, and a search among them for each number drawn."""
    (data,) = (value for value in node.inputs if value is not None)
    parameters = [_key(context, node), reads("data", context.contiguous(data))]
    parameters.append(writes("out", context.allocate(node.output)))
    (rows, classes), samples = data.shape, node.op.sample_size
    blocks, tasks, cost = row_blocks(rows, (classes + samples) * 8, 8 + classes * 10 + samples * 20)
    sizes: list[tuple[str, Size]] = [
        ("rows", rows), ("classes", classes), ("samples", samples), *blocks, ("tasks", tasks)
    ]  # fmt: skip
    instance = kernel(
        "multinomial",
        DATA=memory_type(data.dtype),
        READ_DATA=reader(data.dtype),
        ELEMENT=memory_type(node.output.dtype),
    )
    routine = Routine("multinomial", instance, parameters, sizes, at_least_one(tasks), cost, checks=True)
    routine.scratch = (classes + 1) * 8
    context.emit(routine.call(node))
