# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""Operators of `torch.library` said in operators of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from intaglio.errors import InputError
from intaglio.torch.aten.call import Call
from intaglio.torch.translate import CUSTOM

Translate = Callable[..., Any]


def operator(name: str) -> Callable[[Translate], Translate]:
    """Give an operator of `torch.library` a meaning in compiled graphs: `@operator("shop::scaled_relu")`.

    The function gets a builder and the arguments of the operator: tensors are values, sizes may be dimensions. It gives
    a value, or a tuple of them. The name may say an overload, `shop::scaled_relu.out`.
    """
    space, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    found = getattr(getattr(torch.ops, space), packet, None) if space and packet else None
    if found is None or (overload or "default") not in found.overloads():
        raise InputError(f"there is no operator {name!r}; register it with torch.library first: 'namespace::name'")

    def enter(translate: Translate) -> Translate:
        def rule(call: Call, *arguments: Any, **named: Any) -> Any:
            return translate(call.b, *arguments, **named)

        CUSTOM[f"{space}.{packet}.{overload or 'default'}"] = rule
        return translate

    return enter
