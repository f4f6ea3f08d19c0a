"""Elements at indices which are data: a thread for each element."""

from __future__ import annotations

from intaglio.ir.dim import Dim, product
from intaglio.ir.graph import Node
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.ops.shared.indices import resolve_axis
from intaglio.targets.c.routine import bits_type, disagreement, memory_type, three_parts
from intaglio.targets.c.rules import ANCHORS as RULES_OF_C
from intaglio.targets.c.rules.gather import progression, three_strides
from intaglio.targets.c.rules.places import inputs_of, refuse_unknown_tuples, tuple_length
from intaglio.targets.cuda.rules.routine import Buffer, emit_tasks
from intaglio.targets.cuda.rules.table import anchor


@anchor("Gather")
def gather(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy what stands at each index along an axis; evenly spaced constant indices are a view, as in C."""
    data, indices = inputs_of(node)
    axis = resolve_axis(node.op.axis, data.rank)
    if progression(indices, data.shape[axis]) is not None:
        RULES_OF_C["Gather"].lower(context, node, epilogue)
        return
    outer, extent, inner = three_parts(data.shape, axis)
    source, outer_step, axis_step = three_strides(context, data, axis)
    count = indices.tensor.size
    bits = bits_type(data.dtype)
    lines = [
        "const int64_t row = divided(begin, inner), at = begin - row * inner;",
        "const int64_t o = divided(row, count), i = row - o * count;",
        "const int64_t given = (int64_t)index[i], place = given < 0 ? given + extent : given;",
        "if (place < 0 || place >= extent)",
        "    *fault = 1;",
        "else",
        "    out[begin] = data[o * outer_step + place * axis_step + at];",
    ]
    buffers = [
        Buffer("data", bits, source),
        Buffer("index", memory_type(indices.dtype), context.contiguous(indices)),
        Buffer("out", bits, context.allocate(node.output), True),
    ]
    sizes: dict[str, Dim] = {
        "count": count,
        "extent": extent,
        "inner": inner,
        "outer_step": outer_step,
        "axis_step": axis_step,
    }
    emit_tasks(context, node, "gather", lines, buffers, sizes, outer * count * inner, 0, checks=True)


@anchor("GatherND", refuse=refuse_unknown_tuples)
def gather_nd(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy slices from where index tuples point, batch by batch."""
    data, indices = inputs_of(node)
    batch, length = int(node.op.batch_dims), tuple_length(indices)
    rows, inner = product(indices.shape[:-1]), product(data.shape[batch + length :])
    bits = bits_type(data.dtype)
    lines = [
        "const int64_t row = divided(begin, inner), at = begin - row * inner;",
        "int64_t place = divided(row, tuples) * batch_step + at;",
        "bool is_inside = mismatch == 0;",
    ]
    for axis in range(length):
        lines += [
            f"const int64_t given{axis} = (int64_t)index[row * {length} + {axis}];",
            f"const int64_t place{axis} = given{axis} < 0 ? given{axis} + extent{axis} : given{axis};",
            f"is_inside = is_inside && place{axis} >= 0 && place{axis} < extent{axis};",
            f"place += place{axis} * step{axis};",
        ]
    lines += ["if (is_inside)", "    out[begin] = data[place];", "else", "    *fault = 1;"]
    buffers = [
        Buffer("data", bits, context.contiguous(data)),
        Buffer("index", memory_type(indices.dtype), context.contiguous(indices)),
        Buffer("out", bits, context.allocate(node.output), True),
    ]
    sizes: dict[str, Dim] = {
        "mismatch": disagreement(list(zip(data.shape[:batch], indices.shape[:batch], strict=True))),
        "tuples": product(indices.shape[batch:-1]), "batch_step": product(data.shape[batch:]), "inner": inner,
    }  # fmt: skip
    for axis in range(length):
        sizes |= {f"extent{axis}": data.shape[batch + axis], f"step{axis}": product(data.shape[batch + axis + 1 :])}
    emit_tasks(context, node, "gather_nd", lines, buffers, sizes, rows * inner, 0, checks=True)
