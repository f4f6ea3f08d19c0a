"""Types of inputs and outputs for libraries that bind them: `onnxruntime.transformers.io_binding_helper`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from intaglio.compat.naming import dtype_name
from intaglio.errors import InputError
from intaglio.ir.dtype import DTYPES, DType

if TYPE_CHECKING:
    from intaglio.compat.session import InferenceSession, NodeArg

_BY_NAME = {f"tensor({dtype_name(dtype)})": dtype for dtype in DTYPES.values()}


class TypeHelper:
    """Names of types, such as `tensor(float)`, as the types of NumPy, torch and ONNX."""

    @staticmethod
    def get_input_type(ort_session: InferenceSession, name: str) -> str:
        """The type of an input."""
        return _find(ort_session.get_inputs(), name, "input").type

    @staticmethod
    def get_output_type(ort_session: InferenceSession, name: str) -> str:
        """The type of an output."""
        return _find(ort_session.get_outputs(), name, "output").type

    @staticmethod
    def ort_type_to_numpy_type(ort_type: str) -> Any:
        """The class of NumPy's scalars of a type."""
        return _dtype(ort_type).numpy.type

    @staticmethod
    def ort_type_to_onnx_type(ort_type: str) -> int:
        """ONNX's number of a type."""
        return _dtype(ort_type).number

    @staticmethod
    def ort_type_to_torch_type(ort_type: str) -> Any:
        """The dtype of torch."""
        import torch  # pyright: ignore[reportMissingImports]

        dtype = _dtype(ort_type)
        found = getattr(torch, dtype.name, None)
        if found is None:
            raise InputError(f"torch has no type for {ort_type}")
        return found

    @staticmethod
    def get_io_onnx_type_map(ort_session: InferenceSession) -> dict[str, int]:
        """ONNX's number of the type of each input and output."""
        both = (*ort_session.get_inputs(), *ort_session.get_outputs())
        return {item.name: _dtype(item.type).number for item in both}

    @staticmethod
    def get_io_numpy_type_map(ort_session: InferenceSession) -> dict[str, Any]:
        """The class of NumPy's scalars of each input and output."""
        both = (*ort_session.get_inputs(), *ort_session.get_outputs())
        return {item.name: _dtype(item.type).numpy.type for item in both}


def _find(items: list[NodeArg], name: str, kind: str) -> NodeArg:
    for item in items:
        if item.name == name:
            return item
    raise InputError(f"the model has no {kind} {name!r}")


def _dtype(name: str) -> DType:
    if name not in _BY_NAME:
        raise InputError(f"{name!r} is no tensor type, expected one like 'tensor(float)'")
    return _BY_NAME[name]
