"""Recurrent layers: the steps of a sequence behind the projection of all its inputs.

Gates stand interleaved: for each block of a vector's lanes of hidden units one vector a gate, in the projected inputs
and in the recurrence weights, so that the activations follow the sums in registers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from intaglio.targets.c.kernel_file import Instance, Value, kernel
from intaglio.targets.c.structured.source import VectorTarget

Cell = Literal["LSTM", "GRU", "GRU_linear", "RNN"]

GATES: dict[Cell, tuple[int, ...]] = {"LSTM": (4,), "GRU": (2, 1), "GRU_linear": (3,), "RNN": (1,)}
"""How many gates each product of the state with recurrence weights computes."""

_PARAMETERS: dict[str, tuple[float | None, float | None]] = {
    "affine": (1.0, 0.0),
    "elu": (1.0, None),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01, None),
    "relu": (None, None),
    "scaledtanh": (1.0, 1.0),
    "sigmoid": (None, None),
    "softplus": (None, None),
    "softsign": (None, None),
    "tanh": (None, None),
    "thresholdedrelu": (1.0, None),
}
"""The activations of kernels/activation.h, with alpha and beta where a model gives none; None where they have none."""


@dataclass(frozen=True)
class Activation:
    """An activation with its parameters; its input is bounded by `clip` where that is given."""

    name: str
    alpha: float
    beta: float
    clip: float | None

    @property
    def arguments(self) -> str:
        """What the kernel's file calls the activation: its name, parameters, whether there is a clip, and the clip."""
        return f"{self.name.upper()}, {self.alpha!r}, {self.beta!r}, {int(self.clip is not None)}, {self.clip or 0.0!r}"


def resolve_activations(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float], clips: Sequence[float | None]
) -> list[Activation]:
    """Activations that take their parameters from the lists in order, each as far as it has them."""
    alpha, beta = iter(alphas), iter(betas)
    found: list[Activation] = []
    for name, clip in zip(names, clips, strict=True):
        defaults = _PARAMETERS[name.lower()]
        first, second = (_parameter(*pair) for pair in zip((alpha, beta), defaults, strict=True))
        found.append(Activation(name.lower(), first, second, clip))
    return found


def _parameter(given: Iterator[float], default: float | None) -> float:
    return 0.0 if default is None else float(next(given, default))


def row_tile(target: VectorTarget) -> int:
    """Rows of a batch that share one pass over the recurrence weights."""
    return 4 if target.vector_registers >= 32 else 3


def recurrent_kernel(
    cell: Cell, activations: Sequence[Sequence[Activation]], target: VectorTarget, **values: Value
) -> Instance:
    """The kernel of a whole layer; `activations` by direction, `values` the parameters that are not told by the others.

    Buffers: projected, weights, (reset_weights), extra, start_h, start_c, (lengths), y, y_h, y_c. A task is one
    direction of `block` sequences of the batch.
    """
    first, last = activations[0], activations[-1]
    of_gates: dict[str, Value] = {}
    for index in range(3):
        of_gates[f"ACTIVATION{index}"] = first[index].arguments if index < len(first) else "0"
        of_gates[f"LAST_ACTIVATION{index}"] = last[index].arguments if index < len(last) else "0"
    return kernel(
        "recurrent",
        {**of_gates, **values},
        IS_LSTM=cell == "LSTM",
        IS_GRU=cell == "GRU",
        IS_GRU_LINEAR=cell == "GRU_linear",
        DIRECTIONS_DIFFER=first != last,
        TILE=row_tile(target),
    )
