"""The operators, by family: type rule, reference, expansion and gradient of one operator stand together.

Each operator of ONNX's own domain is also a function here: `ops.Conv(x, w, strides=[2, 2])`; see `functions`. The
families are imported when somebody asks for what is in them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from intaglio.ops import activation as activation
    from intaglio.ops import arithmetic as arithmetic
    from intaglio.ops import attention as attention
    from intaglio.ops import cast as cast
    from intaglio.ops import contrib as contrib
    from intaglio.ops import contrib_attention as contrib_attention
    from intaglio.ops import contrib_experts as contrib_experts
    from intaglio.ops import contrib_gated as contrib_gated
    from intaglio.ops import contrib_group_attention as contrib_group_attention
    from intaglio.ops import contrib_layouts as contrib_layouts
    from intaglio.ops import contrib_quantize as contrib_quantize
    from intaglio.ops import contrib_recurrent as contrib_recurrent
    from intaglio.ops import contrib_tensor as contrib_tensor
    from intaglio.ops import control as control
    from intaglio.ops import convolution as convolution
    from intaglio.ops import einsum as einsum
    from intaglio.ops import evaluate as evaluate
    from intaglio.ops import functions as functions
    from intaglio.ops import image as image
    from intaglio.ops import indexing as indexing
    from intaglio.ops import linear as linear
    from intaglio.ops import linear_attention as linear_attention
    from intaglio.ops import logic as logic
    from intaglio.ops import loss as loss
    from intaglio.ops import ml as ml
    from intaglio.ops import movement as movement
    from intaglio.ops import normalization as normalization
    from intaglio.ops import pooling as pooling
    from intaglio.ops import quantize as quantize
    from intaglio.ops import random as random
    from intaglio.ops import recurrent as recurrent
    from intaglio.ops import reduce as reduce
    from intaglio.ops import resize as resize
    from intaglio.ops import selection as selection
    from intaglio.ops import sequence as sequence
    from intaglio.ops import shape as shape
    from intaglio.ops import signal as signal
    from intaglio.ops import softmax as softmax
    from intaglio.ops import text as text
    from intaglio.ops import tokenizer as tokenizer
    from intaglio.ops import training as training
    from intaglio.ops import unary as unary
    from intaglio.ops import vision_nn as vision_nn
    from intaglio.ops.functions import domain as domain


def __getattr__(name: str) -> Any:
    """A family, or the function of an operator of ONNX's own domain."""
    if name[:1].islower() and name != "domain":
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError:
            raise AttributeError(f"there is no family of operators {name!r}") from None
    functions = import_module(f"{__name__}.functions")
    return functions.domain if name == "domain" else functions.find_function(name)


def __dir__() -> list[str]:
    import_module(f"{__name__}.families")
    hidden = ("Any", "TYPE_CHECKING", "families", "import_module")
    names = import_module(f"{__name__}.functions").operator_names()
    return [*(name for name in globals() if name not in hidden), "domain", *names]
