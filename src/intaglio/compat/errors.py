"""ONNX Runtime's exceptions: Intaglio's own under their names, and those that nothing here raises."""

from __future__ import annotations

from intaglio.errors import (
    GraphError,
    InputError,
    IntaglioError,
    LoadError,
    ModelNotFoundError,
    OperatorError,
    UnsupportedError,
)

Fail = IntaglioError
InvalidArgument = InputError
InvalidGraph = GraphError
InvalidProtobuf = LoadError
NoSuchFile = ModelNotFoundError
NotImplemented = UnsupportedError
RuntimeException = OperatorError


class ModelLoadCanceled(IntaglioError, RuntimeError):
    """`SessionOptions.set_load_cancellation_flag` was set while the model was loaded."""


class DeviceReset(IntaglioError):
    """Never raised: there is no device to reset."""


class EPFail(IntaglioError):
    """Never raised: there is one provider, and its faults have names of their own."""


class EngineError(IntaglioError):
    """Never raised: there is no engine beside the two that `load` knows."""


class ModelLoaded(IntaglioError):
    """Never raised: a session is made with its model."""


class ModelRequiresCompilation(IntaglioError):
    """Never raised: what is not compiled is compiled."""


class NoModel(IntaglioError):
    """Never raised: a session is made with its model."""


class NotFound(IntaglioError):
    """Never raised: a missing file is `NoSuchFile`, a missing name `InvalidArgument`."""
