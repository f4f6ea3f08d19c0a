"""Intaglio cuts ONNX models and PyTorch modules into native code.

import intaglio

model = intaglio.load("model.onnx")
y = model(x)
"""

__version__ = "0.1.0"

from intaglio import ops
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
from intaglio.onnx.schema_objects import Schema, has_operator, schema
from intaglio.runtime.builder import ModelBuilder, build
from intaglio.runtime.custom import op
from intaglio.runtime.implementations import get_operator, implementation
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
    "ModelBuilder",
    "ModelNotFoundError",
    "OperatorError",
    "RunTimeoutError",
    "Schema",
    "ShapeError",
    "UnsupportedError",
    "__version__",
    "build",
    "get_operator",
    "has_operator",
    "implementation",
    "load",
    "op",
    "ops",
    "schema",
]
