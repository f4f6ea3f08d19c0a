"""Intaglio cuts ONNX models and PyTorch modules into native code.

    import intaglio

    model = intaglio.load("model.onnx")
    y = model(x)
"""

from intaglio import ops as _ops  # noqa: F401  the operators register themselves
from intaglio.errors import (
    CompileError,
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
    UnsupportedError,
)
from intaglio.runtime.model import Model, load

__version__ = "0.1.0"

__all__ = [
    "CompileError",
    "ExternalDataError",
    "GraphError",
    "InputError",
    "IntaglioError",
    "LimitError",
    "LoadError",
    "Model",
    "ModelNotFoundError",
    "OperatorError",
    "RunTimeoutError",
    "ShapeError",
    "UnsupportedError",
    "__version__",
    "load",
]
