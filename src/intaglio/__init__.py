"""Intaglio cuts ONNX models and PyTorch modules into native code.

import intaglio

model = intaglio.load("model.onnx")
y = model(x)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from intaglio.errors import (
    CompileError,
    DeviceError,
    ExternalDataError,
    GraphError,
    InputError,
    IntaglioError,
    LimitError,
    LoadError,
    ModelNotFoundError,
    OperatorError,
    RunTimeoutError,
    ShapeError,
    TrainingError,
    UnsupportedError,
)
from intaglio.ir.limits import Limits
from intaglio.version import __version__

if TYPE_CHECKING:
    from intaglio import autodiff, ops, train
    from intaglio.autodiff.rules import pullback
    from intaglio.compat import InferenceSession
    from intaglio.emit import export
    from intaglio.kernels.faults import FaultWarning
    from intaglio.onnx.schema_objects import Schema, has_operator, schema
    from intaglio.runtime.model.builder import ModelBuilder, build, extend
    from intaglio.runtime.model.custom import op
    from intaglio.runtime.model.derivatives import grad, hessian_vector_product, jacobian, jvp, value_and_grad, vjp
    from intaglio.runtime.model.implementations import get_operator, implementation
    from intaglio.runtime.model.loading import load
    from intaglio.runtime.model.model import Model
    from intaglio.runtime.model.state import State, StatefulModel, stateful
    from intaglio.web.notebook import view

__all__ = [
    "CompileError",
    "DeviceError",
    "ExternalDataError",
    "FaultWarning",
    "GraphError",
    "InferenceSession",
    "InputError",
    "IntaglioError",
    "LimitError",
    "Limits",
    "LoadError",
    "Model",
    "ModelBuilder",
    "ModelNotFoundError",
    "OperatorError",
    "RunTimeoutError",
    "Schema",
    "ShapeError",
    "State",
    "StatefulModel",
    "TrainingError",
    "UnsupportedError",
    "__version__",
    "autodiff",
    "build",
    "export",
    "extend",
    "get_operator",
    "grad",
    "has_operator",
    "hessian_vector_product",
    "implementation",
    "jacobian",
    "jvp",
    "load",
    "op",
    "ops",
    "pullback",
    "schema",
    "stateful",
    "train",
    "value_and_grad",
    "view",
    "vjp",
]

_HOMES = {
    "FaultWarning": "kernels.faults",
    "InferenceSession": "compat",
    "Model": "runtime.model.model",
    "ModelBuilder": "runtime.model.builder",
    "Schema": "onnx.schema_objects",
    "State": "runtime.model.state",
    "StatefulModel": "runtime.model.state",
    "build": "runtime.model.builder",
    "export": "emit",
    "extend": "runtime.model.builder",
    "get_operator": "runtime.model.implementations",
    "grad": "runtime.model.derivatives",
    "has_operator": "onnx.schema_objects",
    "hessian_vector_product": "runtime.model.derivatives",
    "implementation": "runtime.model.implementations",
    "jacobian": "runtime.model.derivatives",
    "jvp": "runtime.model.derivatives",
    "load": "runtime.model.loading",
    "op": "runtime.model.custom",
    "pullback": "autodiff.rules",
    "schema": "onnx.schema_objects",
    "stateful": "runtime.model.state",
    "value_and_grad": "runtime.model.derivatives",
    "view": "web.notebook",
    "vjp": "runtime.model.derivatives",
}
"""Where the names are that are imported when they are first used: who runs a compiled model needs few of them."""


def __getattr__(name: str) -> Any:
    """A public name at its first use."""
    if name in _HOMES:
        globals()[name] = getattr(import_module(f"intaglio.{_HOMES[name]}"), name)
    elif name in ("autodiff", "backend", "compat", "ops", "ray", "serve", "testing", "torch", "train", "web"):
        import_module(f"intaglio.{name}")
    else:
        raise AttributeError(f"module 'intaglio' has no attribute {name!r}")
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
