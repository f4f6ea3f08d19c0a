"""Intaglio cuts ONNX models and PyTorch modules into native code.

import intaglio

model = intaglio.load("model.onnx")
y = model(x)
"""

__version__ = "0.1.0"

from intaglio.compat import InferenceSession
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

__all__ = [
    "CompileError",
    "ExternalDataError",
    "GraphError",
    "InferenceSession",
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
