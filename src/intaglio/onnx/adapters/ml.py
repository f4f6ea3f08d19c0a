"""Older and deprecated versions of the operators of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from intaglio.errors import ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import STRING
from intaglio.ir.graph import Value
from intaglio.ir.op import Op
from intaglio.onnx.adapters import adapts
from intaglio.onnx.signatures import operator_signature
from intaglio.ops.ml.labels import LabelEncoder
from intaglio.ops.ml.trees import TreeEnsembleClassifier, TreeEnsembleRegressor


@adapts("LabelEncoder", before=2, domain="ai.onnx.ml")
def label_encoder_1(
    b: Builder,
    X: Value,
    *,
    classes_strings: tuple[str, ...] | None = None,
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Value:
    """Version 1 mapped between strings and their places in a list, in the direction that the input's type tells."""
    if classes_strings is None:
        raise ShapeError("expected classes_strings")
    places = tuple(range(len(classes_strings)))
    options: dict[str, Any]
    if X.dtype == STRING:
        options = {
            "keys_strings": classes_strings,
            "values_int64s": places,
            "default_int64": default_int64,
        }
    else:
        options = {"keys_int64s": places, "values_strings": classes_strings, "default_string": default_string}
    return b.apply(LabelEncoder, X, **options)


def _kept(cls: type[Op]) -> Callable[..., Any]:
    """An adapter for a version that was deprecated without a change: the operator as it is."""

    def build(b: Builder, X: Value, *, outputs: int = 1, **attributes: Any) -> Any:
        return b.apply(cls, X, outputs=outputs, **attributes)

    build.__signature__ = operator_signature(cls, outputs=1)  # pyright: ignore[reportFunctionMemberAccess]
    return build


adapts("TreeEnsembleClassifier", since=5, before=6, domain="ai.onnx.ml")(_kept(TreeEnsembleClassifier))
adapts("TreeEnsembleRegressor", since=5, before=6, domain="ai.onnx.ml")(_kept(TreeEnsembleRegressor))
