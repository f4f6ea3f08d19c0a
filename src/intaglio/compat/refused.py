"""Names of ONNX Runtime that cannot be served: whoever uses one is told what to do instead."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from intaglio.errors import UnsupportedError


class _Refused:
    """A class of ONNX Runtime that cannot be made here."""

    why: ClassVar[str] = ""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        raise UnsupportedError(f"{type(self).__name__} is not supported: {self.why}")


class AdapterFormat(_Refused):
    """Files of LoRA adapters."""

    why: ClassVar[str] = "merge the adapter into the model"

    @staticmethod
    def read_adapter(file_path: Any) -> NoReturn:
        """Always refused."""
        raise UnsupportedError(f"AdapterFormat is not supported: {AdapterFormat.why}")


class LoraAdapter(_Refused):
    """A LoRA adapter."""

    why: ClassVar[str] = "merge the adapter into the model"


class ModelCompiler(_Refused):
    """Models with code for other providers."""

    why: ClassVar[str] = "use intaglio.load(model).save_compiled(path), or `intaglio compile`"


class OrtArenaCfg(_Refused):
    """How an arena grows."""

    why: ClassVar[str] = "arenas are as large as the run needs; intaglio.Limits(memory=...) bounds them"


class OrtEpContextData(_Refused):
    """Code for other providers."""

    why: ClassVar[str] = "EPContext nodes hold code for other providers, which cannot be run here"


class OrtEpContextDataBuffer(_Refused):
    """Code for other providers."""

    why: ClassVar[str] = "EPContext nodes hold code for other providers, which cannot be run here"


class OrtExternalInitializerInfo(_Refused):
    """Where `ModelCompiler` puts an initializer."""

    why: ClassVar[str] = "it is for ModelCompiler; use intaglio.load(model).save_compiled(path)"


class OrtSyncStream(_Refused):
    """A stream of a device."""

    why: ClassVar[str] = "the CPU has no streams"


class SparseTensor(_Refused):
    """A sparse tensor."""

    why: ClassVar[str] = "make the tensor dense; sparse initializers of models are read"

    @staticmethod
    def sparse_coo_from_numpy(*arguments: Any, **named: Any) -> NoReturn:
        """Always refused."""
        raise UnsupportedError(f"SparseTensor is not supported: {SparseTensor.why}")

    sparse_csr_from_numpy = sparse_coo_from_numpy


def create_and_register_allocator(*arguments: Any) -> NoReturn:
    """Always refused: sessions share no allocator; one pool of arenas serves them all."""
    raise UnsupportedError("allocators cannot be registered: sessions plan their memory and share their weights anyway")


def create_and_register_allocator_v2(*arguments: Any) -> NoReturn:
    """Always refused, as `create_and_register_allocator` is."""
    create_and_register_allocator(*arguments)


def register_execution_provider_library(name: str, path: str) -> NoReturn:
    """Always refused: such a library is made for ONNX Runtime's binary interface."""
    raise UnsupportedError(f"{path!r} is a provider for ONNX Runtime, which cannot be used here")


def unregister_execution_provider_library(name: str) -> NoReturn:
    """Always refused: none can be registered."""
    raise UnsupportedError(f"there is no library {name!r}: none can be registered")


def enable_telemetry_events() -> NoReturn:
    """Always refused: there is no telemetry."""
    raise UnsupportedError("Intaglio has no telemetry")
