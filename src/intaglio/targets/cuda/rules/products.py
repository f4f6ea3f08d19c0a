"""Matrix products by the library that owns them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intaglio.ir.dim import Dim, product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.kernel import Kernel, LibraryCall
from intaglio.kernels.plan import Call, Operand
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, row_major, whole
from intaglio.targets.c.rules.linear import as_matrix, batch_shape, batches_are_known, levels_of
from intaglio.targets.cuda.rules.finish import finish, target_of
from intaglio.targets.cuda.rules.table import anchor

ELEMENTS = ("float32", "float64", "float16", "bfloat16")


def _refuse(node: Node) -> Refusal | None:
    a, b = node.input, node.needed(1)
    if a.dtype.name not in ELEMENTS:
        return Refusal(Cause.ELEMENTS, f"the library has no product of {a.dtype}")
    is_known = batches_are_known(a, b, node.output)
    return None if is_known else Refusal(Cause.FORM, "its batch dimensions may or may not be broadcast")


def _takes(nodes: Sequence[Node], node: Node) -> bool:
    """Whether a node adds a vector to all rows of a product and is the first behind it."""
    result = nodes[0].output
    others = [value for value in node.inputs if value is not None and value is not result]
    if len(nodes) > 1 or node.op.name != "Add" or len(others) != 1:
        return False
    (bias,) = others
    return bias.rank == 1 and result.rank > 1 and bias.shape[0] == result.shape[-1] and bias.dtype == result.dtype


@anchor("MatMul", refuse=_refuse, fuses=True, takes=_takes)
def matmul(context: Context, node: Node, epilogue: Epilogue) -> None:
    """One call of the library for all matrices of the batch, which adds a bias itself."""
    a, b = node.input, node.needed(1)
    batch = batch_shape(a, b)
    left, right = as_matrix(context.view(a), is_left=True), as_matrix(context.view(b), is_left=False)
    left = left.broadcast((*batch, *left.shape[-2:]))
    if all(dim == 1 for dim in right.shape[:-2]):
        left, batch = _folded(context, a, left), ()
        right = View(right.buffer, right.offset, right.shape[-2:], right.strides[-2:])
    right = right.broadcast((*batch, *right.shape[-2:]))
    m, n = left.shape[-2], right.shape[-1]
    bias, follows = (None, epilogue) if context.exact else _biased(epilogue)
    result = target_of(context, follows)
    target = View(result.buffer, result.offset, (*batch, m, n), row_major((*batch, m, n)))
    bias_view = None if bias is None else context.contiguous(bias)
    emit_product(context, node, (a, left), (b, right), target, bias_view)
    finish(context, node, follows, result)


def _refuse_gemm(node: Node) -> Refusal | None:
    op: Any = node.op
    a, b, c = node.input, node.needed(1), node.optional(2)
    if a.dtype.name not in ELEMENTS or {a.rank, b.rank} != {2}:
        return Refusal(Cause.ELEMENTS, f"the library has no product of {a.dtype}")
    is_plain = op.alpha == 1 and (c is None or op.beta == 1)
    is_vector = c is None or (c.rank == 1 and c.shape[0] == node.output.shape[-1])
    return None if is_plain and is_vector else Refusal(Cause.FORM, "it scales, or adds what is no vector")


@anchor("Gemm", refuse=_refuse_gemm)
def gemm(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A product of two matrices, either of them transposed, to which the library adds a bias."""
    op: Any = node.op
    views = [context.view(node.input), context.view(node.needed(1))]
    left, right = (
        view.transpose((1, 0)) if is_turned else view
        for view, is_turned in zip(views, (op.transA, op.transB), strict=True)
    )
    bias = node.optional(2)
    target = context.allocate(node.output)
    bias_view = None if bias is None else context.contiguous(bias)
    emit_product(context, node, (node.input, left), (node.needed(1), right), target, bias_view)


def _biased(epilogue: Epilogue) -> tuple[Value | None, Epilogue]:
    """A vector that the library adds to all rows of a product, and what is left to follow.

    The library adds before it rounds: results of 16 bits are rounded once, and not twice.
    """
    if len(epilogue.nodes) != 1 or epilogue.result in epilogue.stores:
        return None, epilogue
    (bias,) = (value for value in epilogue.nodes[0].inputs if value is not None and value is not epilogue.result)
    return bias, Epilogue(epilogue.nodes[0].output, [], {}, epilogue.stores)


def _folded(context: Context, value: Value, left: View) -> View:
    """All batches of the left operand as rows of one matrix."""
    shape = (product(left.shape[:-1]), left.shape[-1])
    folded = left.reshape(shape)
    return whole(context.copy(value, left).buffer, shape) if folded is None else folded


def emit_product(
    context: Context, node: Node, a: tuple[Value, View], b: tuple[Value, View], target: View, bias: View | None = None,
    *, relu: bool = False,
) -> None:  # fmt: skip
    """The products of two batches of matrices; operands are copied where they are uneven.

    The rows of `target` lie evenly, and so do its matrices.

    `bias` has a number for each column, which is added; with `relu`, what is below 0 becomes 0.
    """
    views = [view if _is_turned(view) is not None else context.copy(value, view) for value, view in (a, b)]
    batch = target.shape[:-2]
    levels = levels_of(batch, [view.strides[:-2] for view in views])
    if len(levels) > 1:
        pairs = zip((a, b), views, strict=True)
        views = [view if _is_one_level(view) else context.copy(value, view) for (value, _), view in pairs]
        levels = levels_of(batch, [view.strides[:-2] for view in views])
    count, (a_batch, b_batch) = levels[0] if levels else (1, (0, 0))
    (m, k), n = views[0].shape[-2:], views[1].shape[-1]
    turned = [bool(_is_turned(view)) for view in views]
    sizes: list[tuple[str, Dim]] = [
        ("m", m), ("n", n), ("k", k), ("batch", count), ("a_step", _step(views[0])), ("b_step", _step(views[1])),
        ("c_step", target.strides[-2]), ("a_batch", a_batch), ("b_batch", b_batch), ("c_batch", m * target.strides[-2]),
    ]  # fmt: skip
    form = {"a_turned": int(turned[0]), "b_turned": int(turned[1]), "element": a[0].dtype.name}
    form["tf32"] = int(bool(getattr(context.rules, "tf32", False)) and a[0].dtype.name == "float32")
    form |= {"result": target.buffer.dtype.name, "follows": ("bias" if bias else "") + ("_relu" if relu else "")}
    operands = [
        *(Operand(view.buffer, view.offset) for view in views),
        *([Operand(bias.buffer, bias.offset)] if bias else []),
    ]
    operands.append(Operand(target.buffer, target.offset, True))
    title = f"{node.op.name} {m} x {n} x {k} -> {node.output.name}"
    flops = count * m * n * k * 2
    context.emit(
        Call(
            Kernel("product", LibraryCall("product", tuple(sorted(form.items())))),
            operands,
            sizes,
            1,
            1,
            nodes=(node,),
            title=title,
            flops=flops,
        )
    )


def _is_one_level(view: View) -> bool:
    """Whether the matrices of a batch lie evenly behind each other."""
    levels = levels_of(view.shape[:-2], [view.strides[:-2], (0,) * (len(view.shape) - 2)])
    return len(levels) < 2


def _is_turned(view: View) -> bool | None:
    """Whether columns of a matrix lie in order and not rows; None where neither do."""
    rows, columns = view.shape[-2:]
    if view.strides[-1] == 1 or columns == 1:
        return False
    return True if view.strides[-2] == 1 or rows == 1 else None


def _step(view: View) -> Dim:
    """How far apart the rows of a matrix lie, or its columns where these lie in order."""
    rows, columns = view.shape[-2:]
    if _is_turned(view):
        return view.strides[-1] if columns != 1 else rows
    return view.strides[-2] if rows != 1 else columns
