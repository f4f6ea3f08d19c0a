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
from intaglio.targets.plain.function import Argument, Lines, PlainFunction, function_call

_SCALARS = {"float32": "f32", "float64": "f64"}
_DEFAULTS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh")}
_SIZES = ("steps", "batch", "inputs", "hidden")


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
    buffers, views = [Argument("x", _type(node))], [context.contiguous(node.input)]
    for key, value in given.items():
        if value is not None:
            buffers.append(Argument(key, _type(node)))
            views.append(context.contiguous(value))
    for key, place in (("y", 0), ("h", 1), ("c", 2)):
        if key == "y" and not _is_wanted(node.outputs[0]):
            continue
        if key == "c" and name == "GRU":
            continue
        buffers.append(Argument(key, _type(node), True))
        is_told = place < len(node.outputs) and _is_wanted(node.outputs[place])
        shape = (directions, batch, hidden)
        views.append(context.allocate(node.outputs[place]) if is_told else _temporary(context, node, shape))
    buffers.append(Argument("next", _type(node), True))
    views.append(_temporary(context, node, ((1 if name == "LSTM" else 2) * hidden,)))
    function = _function(node, buffers)
    sizes: dict[str, Dim] = {"steps": node.input.shape[0], "batch": batch, "inputs": inputs, "hidden": hidden}
    flops = product((node.input.shape[0], batch, hidden)) * (inputs + hidden) * 8 * directions
    context.emit(function_call(function, views, sizes, node, flops))


def _type(node: Node) -> str:
    return TYPES[_SCALARS[node.input.dtype.name]]


def _temporary(context: Context, node: Node, shape: tuple[Dim, ...]) -> View:
    return whole(context.temporary(node.input.dtype, product(shape), f"{node.outputs[0].name}_state"), shape)


def _function(node: Node, buffers: list[Argument]) -> PlainFunction:
    name, has = node.op.name, {each.name for each in buffers}
    lines = Lines([])
    lines.loop(("d", str(node.op.directions)), ("n", "batch"))
    _begin(lines, node, has)
    lines.loop(("s", "steps"))
    turned = {"forward": "0", "reverse": "1", "bidirectional": "d"}[node.op.direction]
    lines.add(f"const int64_t t = {turned} ? steps - 1 - s : s;" if turned != "0" else "const int64_t t = s;")
    (_lstm if name == "LSTM" else _gru)(lines, node, has)
    if "y" in has:
        lines.loop(("u", "hidden"))
        lines.add(f"y[((t * {node.op.directions} + d) * batch + n) * hidden + u] = h_now[u];")
        lines.close()
    about = f"{name}: step by step, for each direction and each of the batch."
    return PlainFunction(name.lower(), about, tuple(buffers), _SIZES, lines.text)


def _begin(lines: Lines, node: Node, has: set[str]) -> None:
    """The states of a row at the beginning."""
    for key in ("h", "c") if node.op.name == "LSTM" else ("h",):
        lines.add(f"{_type(node)} *const {key}_now = {key} + (d * batch + n) * hidden;")
    lines.loop(("u", "hidden"))
    for key in ("h", "c") if node.op.name == "LSTM" else ("h",):
        start = f"{key}0[(d * batch + n) * hidden + u]" if f"{key}0" in has else "0"
        lines.add(f"{key}_now[u] = {start};")
    lines.close()


def _bias(gates: int, gate: str) -> str:
    return f"b[(d * {2 * gates} + {gate}) * hidden + u] + b[(d * {2 * gates} + {gates} + {gate}) * hidden + u]"


def _sum(lines: Lines, gates: int, gate: str) -> None:
    """Add the weights of a gate times the input and the state."""
    lines.loop(("k", "inputs"))
    lines.add(f"sum += x[(t * batch + n) * inputs + k] * w[((d * {gates} + {gate}) * hidden + u) * inputs + k];")
    lines.close()
    lines.loop(("k", "hidden"))
    lines.add(f"sum += h_now[k] * r[((d * {gates} + {gate}) * hidden + u) * hidden + k];")
    lines.close()


def _suffix(node: Node) -> str:
    return "f" if node.input.dtype.name == "float32" else ""


def _sigmoid(node: Node, text: str) -> str:
    return f"(1 / (1 + exp{_suffix(node)}(-{text})))"


def _lstm(lines: Lines, node: Node, has: set[str]) -> None:
    """Gates in the order input, output, forget, candidate."""
    type, tanh = _type(node), f"tanh{_suffix(node)}"
    lines.loop(("u", "hidden"))
    lines.add(f"{type} gate[4];")
    lines.loop(("g", "4"))
    lines.add(f"{type} sum = {_bias(4, 'g') if 'b' in has else '0'};")
    _sum(lines, 4, "g")
    lines.add("gate[g] = sum;")
    lines.close()
    lines.add(f"c_now[u] = {_sigmoid(node, 'gate[2]')} * c_now[u] + {_sigmoid(node, 'gate[0]')} * {tanh}(gate[3]);")
    lines.add(f"next[u] = {_sigmoid(node, 'gate[1]')} * {tanh}(c_now[u]);")
    lines.close()
    lines.loop(("u", "hidden"))
    lines.add("h_now[u] = next[u];")
    lines.close()


def _gru(lines: Lines, node: Node, has: set[str]) -> None:
    """Gates in the order update, reset, candidate; a reset acts on the state before or behind the weights."""
    type, tanh = _type(node), f"tanh{_suffix(node)}"
    lines.loop(("g", "2"), ("u", "hidden"))
    lines.add(f"{type} sum = {_bias(3, 'g') if 'b' in has else '0'};")
    _sum(lines, 3, "g")
    lines.add(f"next[g * hidden + u] = {_sigmoid(node, 'sum')};")
    lines.close(2)
    lines.loop(("u", "hidden"))
    before = bool(node.op.linear_before_reset)
    lines.add(f"{type} sum = {'b[(d * 6 + 2) * hidden + u]' if 'b' in has else '0'};")
    lines.add(f"{type} old = {'b[(d * 6 + 5) * hidden + u]' if 'b' in has else '0'};")
    lines.loop(("k", "inputs"))
    lines.add("sum += x[(t * batch + n) * inputs + k] * w[((d * 3 + 2) * hidden + u) * inputs + k];")
    lines.close()
    lines.loop(("k", "hidden"))
    state = "h_now[k]" if before else "next[hidden + k] * h_now[k]"
    lines.add(f"old += {state} * r[((d * 3 + 2) * hidden + u) * hidden + k];")
    lines.close()
    candidate = f"{tanh}(sum + {'next[hidden + u] * old' if before else 'old'})"
    lines.add(f"next[u] = (1 - next[u]) * {candidate} + next[u] * h_now[u];")
    lines.close()
    lines.loop(("u", "hidden"))
    lines.add("h_now[u] = next[u];")
    lines.close()


RECURRENT = {name: Anchor(lower_recurrent, _refuse) for name in _DEFAULTS}
"""The layers that are written here."""
