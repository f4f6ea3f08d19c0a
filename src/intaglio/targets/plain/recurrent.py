"""LSTM and GRU as loops of a textbook: step by step, with memory for one step alone."""

from __future__ import annotations

from intaglio.ir.dim import Dim, product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.target_rules import Anchor
from intaglio.kernels.view import View, whole
from intaglio.targets.plain.expression import TYPES
from intaglio.targets.plain.one_lane import function_call, textbook

_SCALARS = {"float32": "f32", "float64": "f64"}
_DEFAULTS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh")}


def _refuse(node: Node) -> Refusal | None:
    op, name = node.op, node.op.name
    wanted = _DEFAULTS[name] * op.directions
    is_plain = tuple(each.lower() for each in op.activation_names()) == wanted and op.clip is None and op.layout == 0
    if not is_plain or getattr(op, "input_forget", 0) or node.input.dtype.name not in _SCALARS:
        return Refusal(Cause.FORM, f"this {name} is written in simpler operators")
    has_more = node.optional(4) is not None or (name == "LSTM" and node.optional(7) is not None)
    return Refusal(Cause.FORM, f"this {name} is written in simpler operators") if has_more else None


def _is_wanted(value: Value) -> bool:
    return bool(value.uses) or value.is_output


def lower_recurrent(context: Context, node: Node, epilogue: Epilogue) -> None:
    """One function for all directions; the states lie where the last of them are wanted."""
    name, (_, batch, inputs) = node.op.name, node.input.shape
    hidden, directions = node.needed(2).shape[2], node.op.directions
    given = {"w": node.needed(1), "r": node.needed(2), "b": node.optional(3), "h0": node.optional(5)}
    if name == "LSTM":
        given["c0"] = node.optional(6)
    buffers, views = ["x"], [context.contiguous(node.input)]
    for key, value in given.items():
        if value is not None:
            buffers.append(key)
            views.append(context.contiguous(value))
    for key, place in (("y", 0), ("h", 1), ("c", 2)):
        if key == "y" and not _is_wanted(node.outputs[0]):
            continue
        if key == "c" and name == "GRU":
            continue
        buffers.append(key)
        is_told = place < len(node.outputs) and _is_wanted(node.outputs[place])
        shape = (directions, batch, hidden)
        views.append(context.allocate(node.outputs[place]) if is_told else _temporary(context, node, shape))
    views.append(_temporary(context, node, ((1 if name == "LSTM" else 2) * hidden,)))
    sizes: dict[str, Dim] = {"steps": node.input.shape[0], "batch": batch, "inputs": inputs, "hidden": hidden}
    flops = product((node.input.shape[0], batch, hidden)) * (inputs + hidden) * 8 * directions
    has = {"HAS_BIAS": "b" in buffers, "HAS_H0": "h0" in buffers, "HAS_Y": "y" in buffers}
    own = {"HAS_C0": "c0" in buffers} if name == "LSTM" else {"RESETS_BEHIND": bool(node.op.linear_before_reset)}
    form = textbook(
        name.lower(), has | own, ELEMENT=_type(node), IS_DOUBLE=_type(node) == "double", DIRECTIONS=directions,
        IS_REVERSED=node.op.direction == "reverse",
    )  # fmt: skip
    context.emit(function_call(name.lower(), form, views, sizes, node, flops))


def _type(node: Node) -> str:
    return TYPES[_SCALARS[node.input.dtype.name]]


def _temporary(context: Context, node: Node, shape: tuple[Dim, ...]) -> View:
    return whole(context.temporary(node.input.dtype, product(shape), f"{node.outputs[0].name}_state"), shape)


RECURRENT = {name: Anchor(lower_recurrent, _refuse) for name in _DEFAULTS}
"""The layers that are written here."""
