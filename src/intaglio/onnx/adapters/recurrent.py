"""Recurrent layers when they said whether to return the whole sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.ir.op import Op
from intaglio.onnx.adapters import adapts
from intaglio.onnx.signatures import operator_signature
from intaglio.ops.recurrent import GRU, LSTM, RNN

_MISSPELT = "foward"
"""The default direction of the first GRU in ONNX."""


def _with_output_sequence(operator: type[Op], *missing: str, **defaults: Any) -> Callable[..., Any]:
    """An adapter with the inputs and attributes of the newest operator, some of them missing or with other defaults.

    Whether the whole sequence is returned is for the number of outputs to say.
    """

    def build(b: Builder, *inputs: Value | None, output_sequence: int = 0, **attributes: Any) -> Any:
        del output_sequence
        if attributes.get("direction") == _MISSPELT:
            del attributes["direction"]
        return getattr(b, operator.__name__)(*inputs, **attributes, outputs=len(operator.output_names))

    signature = operator_signature(operator, *missing, **defaults, output_sequence=0)
    build.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    return build


adapts("RNN", before=7)(_with_output_sequence(RNN, "layout"))
adapts("GRU", before=3)(_with_output_sequence(GRU, "layout", "linear_before_reset", direction=_MISSPELT))
adapts("GRU", since=3, before=7)(_with_output_sequence(GRU, "layout"))
adapts("LSTM", before=7)(_with_output_sequence(LSTM, "layout"))
