"""Recurrent layers when they said whether to return the whole sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.onnx.adapters import adapts


def _tuple(values: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


@adapts("RNN", before=7)
def rnn_1(
    b: Builder,
    X: Value,
    W: Value,
    R: Value,
    B: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] = ("Tanh", "Tanh"),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    output_sequence: int = 0,
) -> Any:
    """Whether the whole sequence is returned is for the number of outputs to say."""
    del output_sequence
    return b.RNN(
        X,
        W,
        R,
        B,
        sequence_lens,
        initial_h,
        activation_alpha=_tuple(activation_alpha),
        activation_beta=_tuple(activation_beta),
        activations=tuple(activations),
        clip=clip,
        direction=direction,
        hidden_size=hidden_size,
        outputs=2,
    )


@adapts("GRU", before=3)
def gru_1(
    b: Builder,
    X: Value,
    W: Value,
    R: Value,
    B: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "foward",
    hidden_size: int | None = None,
    output_sequence: int = 0,
) -> Any:
    """The first version's default direction is misspelt in ONNX."""
    return gru_3(
        b,
        X,
        W,
        R,
        B,
        sequence_lens,
        initial_h,
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        activations=activations,
        clip=clip,
        direction="forward" if direction == "foward" else direction,
        hidden_size=hidden_size,
        output_sequence=output_sequence,
    )


@adapts("GRU", since=3, before=7)
def gru_3(
    b: Builder,
    X: Value,
    W: Value,
    R: Value,
    B: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> Any:
    del output_sequence
    return b.GRU(
        X,
        W,
        R,
        B,
        sequence_lens,
        initial_h,
        activation_alpha=_tuple(activation_alpha),
        activation_beta=_tuple(activation_beta),
        activations=_tuple(activations),
        clip=clip,
        direction=direction,
        hidden_size=hidden_size,
        linear_before_reset=linear_before_reset,
        outputs=2,
    )


@adapts("LSTM", before=7)
def lstm_1(
    b: Builder,
    X: Value,
    W: Value,
    R: Value,
    B: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    initial_c: Value | None = None,
    P: Value | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    output_sequence: int = 0,
) -> Any:
    del output_sequence
    return b.LSTM(
        X,
        W,
        R,
        B,
        sequence_lens,
        initial_h,
        initial_c,
        P,
        activation_alpha=_tuple(activation_alpha),
        activation_beta=_tuple(activation_beta),
        activations=_tuple(activations),
        clip=clip,
        direction=direction,
        hidden_size=hidden_size,
        input_forget=input_forget,
        outputs=3,
    )
