"""LSTM and GRU as loops of a textbook: step by step, with memory for one step alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from intaglio.ir.dim import Dim, product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.target_rules import Anchor
from intaglio.kernels.view import View, whole
from intaglio.targets.plain.expression import TYPES
from intaglio.targets.plain.function import FUNCTIONS, Argument, Body, PlainFunction, function_call

_SCALARS = {"float32": "f32", "float64": "f64"}
_DEFAULTS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh")}
_SIZES = ("steps", "batch", "inputs", "hidden")


@dataclass(frozen=True)
class _Settings:
    """What chooses the form of a layer's function; `buffers` are the names of those that there are."""

    element: str
    buffers: str
    directions: int
    is_reversed: int


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
    buffers.append("next")
    views.append(_temporary(context, node, ((1 if name == "LSTM" else 2) * hidden,)))
    sizes: dict[str, Dim] = {"steps": node.input.shape[0], "batch": batch, "inputs": inputs, "hidden": hidden}
    flops = product((node.input.shape[0], batch, hidden)) * (inputs + hidden) * 8 * directions
    settings = {
        "element": _type(node), "buffers": " ".join(buffers), "directions": directions,
        "is_reversed": int(node.op.direction == "reverse"),
    }  # fmt: skip
    if name == "GRU":
        settings["resets_behind"] = int(node.op.linear_before_reset)
    context.emit(function_call(name.lower(), settings, views, sizes, node, flops))


def _type(node: Node) -> str:
    return TYPES[_SCALARS[node.input.dtype.name]]


def _temporary(context: Context, node: Node, shape: tuple[Dim, ...]) -> View:
    return whole(context.temporary(node.input.dtype, product(shape), f"{node.outputs[0].name}_state"), shape)


@dataclass(frozen=True)
class _Layer:
    """What the statements of a layer depend on."""

    body: Body
    element: str
    has: frozenset[str]
    directions: int
    gates: int

    @property
    def suffix(self) -> str:
        """What stands behind the names of functions of C's library."""
        return "f" if self.element == "float" else ""

    def sigmoid(self, text: str) -> str:
        """The sigmoid of a number."""
        return f"(1 / (1 + exp{self.suffix}(-{text})))"

    def state(self) -> str:
        """Where the state of a row lies among all."""
        return self.body.times(f"({self.body.place('d', ('batch', 'n'))})", "hidden")

    def weight(self, matrix: str, gate: str, inputs: str) -> str:
        """The weight of a gate for unit `u` and input or state `k`."""
        return f"{matrix}[{self.body.place('d', (str(self.gates), gate), ('hidden', 'u'), (inputs, 'k'))}]"

    def bias(self, gate: str) -> str:
        """The bias of a gate: that of the input, and of the state."""
        own, other = (self.one_bias(gate), self.one_bias(f"{self.gates} + {gate}"))
        return f"{own} + {other}" if own != "0" else "0"

    def one_bias(self, gate: str) -> str:
        """One of the biases of unit `u`."""
        return f"b[{self.body.place('d', (str(2 * self.gates), gate), ('hidden', 'u'))}]" if "b" in self.has else "0"

    def add_products(self, gate: str) -> None:
        """Add the weights of a gate times the input and the state."""
        body = self.body
        with body.loops(k="inputs"):
            body.add(f"sum += {self.given()} * {self.weight('w', gate, 'inputs')};")
        with body.loops(k="hidden"):
            body.add(f"sum += h_now[k] * {self.weight('r', gate, 'hidden')};")

    def given(self) -> str:
        """Input `k` of a step."""
        return f"x[{self.body.place('t', ('batch', 'n'), ('inputs', 'k'))}]"


def _function(name: str, step: Callable[[_Layer], None], gates: int, settings: _Settings) -> PlainFunction:
    """A layer whose steps are written by `step`."""
    names = settings.buffers.split()
    has = frozenset(names)
    written = has & {"y", "h", "c", "next"}

    def write(body: Body) -> None:
        layer = _Layer(body, settings.element, has, settings.directions, gates)
        with body.loops(d=str(settings.directions), n="batch"):
            _begin(layer)
            with body.loops(s="steps"):
                body.add(_step_number(settings, body.sizes["steps"]))
                step(layer)
                if "y" in has:
                    row = body.place("t", (str(settings.directions), "d"), ("batch", "n"), ("hidden", "u"))
                    with body.loops(u="hidden"):
                        body.add(f"y[{row}] = h_now[u];")

    arguments = tuple(Argument(each, settings.element, each in written) for each in names)
    about = f"{name}: step by step, for each direction and each of the batch."
    return PlainFunction(about, arguments, _SIZES, write)


def _step_number(settings: _Settings, steps: str) -> str:
    """The step that comes next in a direction."""
    if settings.directions == 1 and not settings.is_reversed:
        return "const int64_t t = s;"
    turned = "d" if settings.directions == 2 else "1"
    return f"const int64_t t = {turned} ? {steps} - 1 - s : s;"


def _begin(layer: _Layer) -> None:
    """The states of a row at the beginning."""
    body, keys = layer.body, ("h", "c") if "c" in layer.has else ("h",)
    for key in keys:
        body.add(f"{layer.element} *const {key}_now = {key} + {layer.state()};")
    with body.loops(u="hidden"):
        for key in keys:
            start = f"{key}0[{layer.state()} + u]" if f"{key}0" in layer.has else "0"
            body.add(f"{key}_now[u] = {start};")


def _keep_state(layer: _Layer) -> None:
    with layer.body.loops(u="hidden"):
        layer.body.add("h_now[u] = next[u];")


def lstm(**settings: Any) -> PlainFunction:
    """An LSTM; its gates come in the order input, output, forget, candidate."""

    def step(layer: _Layer) -> None:
        body, tanh, sigmoid = layer.body, f"tanh{layer.suffix}", layer.sigmoid
        with body.loops(u="hidden"):
            body.add(f"{layer.element} gate[4];")
            with body.loops(g="4"):
                body.add(f"{layer.element} sum = {layer.bias('g')};")
                layer.add_products("g")
                body.add("gate[g] = sum;")
            body.add(f"c_now[u] = {sigmoid('gate[2]')} * c_now[u] + {sigmoid('gate[0]')} * {tanh}(gate[3]);")
            body.add(f"next[u] = {sigmoid('gate[1]')} * {tanh}(c_now[u]);")
        _keep_state(layer)

    return _function("LSTM", step, 4, _Settings(**settings))


def gru(resets_behind: int, **settings: Any) -> PlainFunction:
    """A GRU; its gates come in the order update, reset, candidate. A reset acts on the state before or behind the
    weights."""

    def step(layer: _Layer) -> None:
        body, element = layer.body, layer.element
        reset = f"next[{body.sizes['hidden']} + {{}}]"
        with body.loops(g="2", u="hidden"):
            body.add(f"{element} sum = {layer.bias('g')};")
            layer.add_products("g")
            body.add(f"next[{body.place('g', ('hidden', 'u'))}] = {layer.sigmoid('sum')};")
        with body.loops(u="hidden"):
            body.add(f"{element} sum = {layer.one_bias('2')};", f"{element} old = {layer.one_bias('5')};")
            with body.loops(k="inputs"):
                body.add(f"sum += {layer.given()} * {layer.weight('w', '2', 'inputs')};")
            with body.loops(k="hidden"):
                state = "h_now[k]" if resets_behind else f"{reset.format('k')} * h_now[k]"
                body.add(f"old += {state} * {layer.weight('r', '2', 'hidden')};")
            old = f"{reset.format('u')} * old" if resets_behind else "old"
            body.add(f"next[u] = (1 - next[u]) * tanh{layer.suffix}(sum + {old}) + next[u] * h_now[u];")
        _keep_state(layer)

    return _function("GRU", step, 3, _Settings(**settings))


FUNCTIONS |= {"lstm": lstm, "gru": gru}

RECURRENT = {name: Anchor(lower_recurrent, _refuse) for name in _DEFAULTS}
"""The layers that are written here."""
