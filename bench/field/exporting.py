"""PyTorch modules through its two exporters, with sizes that are left open."""

import contextlib
import io
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm

from bench.field.specimen import Made, NotExported

EXPORTERS = ("dynamo", "script")
Tensors = dict[str, torch.Tensor]
Sizes = Mapping[str, int]


@dataclass
class Subject:
    """A module with its inputs: `inputs(**sizes)` makes them, `axes` names the sizes that are left open.

    The first of `cases` is what the exporter sees. Pass `cases` whose sizes are at least 2, and no two alike, first:
    the exporter takes sizes of 1 and equal sizes for constants.
    """

    module: nn.Module
    inputs: Callable[..., Tensors]
    axes: Mapping[str, Mapping[int, str]]
    cases: list[dict[str, int]]
    opset: int | None = None
    is_calibrated: bool = True
    extra: dict[str, Any] = field(default_factory=dict)


class Positional(nn.Module):
    """A module whose inputs are given by position and whose outputs are a flat tuple."""

    def __init__(self, module: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.module = module
        self.names = names

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self.module(**dict(zip(self.names, tensors, strict=True)))
        return tuple(_tensors(found))


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = value.values()
    if isinstance(value, (list, tuple)) or (not isinstance(value, (str, bytes)) and hasattr(value, "__iter__")):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def export(subject: Subject, exporter: str) -> Made:
    """The module as one exporter writes it, with the inputs of all cases."""
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # the exporter has no operator for it
    ready(subject)
    examples = [subject.inputs(**case) for case in subject.cases]
    names = list(examples[0])
    wrapped = Positional(subject.module, names).eval()
    with torch.no_grad(), warnings.catch_warnings(), _quiet():
        warnings.simplefilter("ignore")
        write = _dynamo if exporter == "dynamo" else _script
        try:
            proto = write(wrapped, examples[0], names, subject)
        except Exception as error:  # whatever an exporter raises, it does not take this network
            raise NotExported(f"{type(error).__name__}: {str(error).strip()[:600]}") from error
    return Made(proto, [{name: tensor.numpy() for name, tensor in example.items()} for example in examples])


def _dynamo(module: nn.Module, example: Tensors, names: list[str], subject: Subject) -> onnx.ModelProto:
    shapes = tuple(dict(subject.axes.get(n, {})) or None for n in names)
    program = torch.onnx.export(
        module, tuple(example.values()), input_names=names, dynamic_shapes=(shapes,), dynamo=True, verbose=False,
        opset_version=subject.opset,
    )  # fmt: skip
    assert program is not None
    return program.model_proto


def _script(module: nn.Module, example: Tensors, names: list[str], subject: Subject) -> onnx.ModelProto:
    axes = {name: dict(found) for name, found in subject.axes.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            module, tuple(example.values()), path, input_names=names, dynamic_axes=axes, dynamo=False,
            opset_version=subject.opset or 17,
        )  # fmt: skip
        return onnx.load(path)


@contextlib.contextmanager
def _quiet():
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def ready(subject: Subject) -> None:
    """Random weights that matter: constant ones are shaken, and batch normalisations know statistics."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in subject.module.parameters():
            if parameter.dim() and parameter.numel() > 1 and bool((parameter == parameter.flatten()[0]).all()):
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        norms = [m for m in subject.module.modules() if isinstance(m, BatchNorm)]
        if norms and subject.is_calibrated:
            calibrate(subject, norms)
    subject.module.eval()


def calibrate(subject: Subject, norms: list[BatchNorm]) -> None:
    """Statistics of one batch of the first case."""
    subject.module.eval()
    for norm in norms:
        norm.momentum = None
        norm.reset_running_stats()
        norm.train()
    example = subject.inputs(**subject.cases[0])
    with contextlib.suppress(ValueError):  # a single value for each channel has no statistics
        subject.module(**example)
    for norm in norms:
        assert norm.num_batches_tracked is not None
        if not int(norm.num_batches_tracked):
            norm.reset_running_stats()
    subject.module.eval()


def tokens(vocabulary: int, *shape: int, seed: int = 7) -> torch.Tensor:
    """Token numbers; the first few are left to special ones."""
    low = min(5, vocabulary - 1)
    return torch.from_numpy(np.random.default_rng(seed).integers(low, vocabulary, shape))


def normal(*shape: int, seed: int = 7, scale: float = 1.0) -> torch.Tensor:
    """Standard normal values."""
    values = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return torch.from_numpy(np.asarray(values * np.float32(scale)))


def picture(batch: int, height: int, width: int, channels: int = 3) -> torch.Tensor:
    """Smooth shapes with noise."""
    from bench import inputs

    image = inputs.picture(batch, height, width)
    return torch.from_numpy(np.ascontiguousarray(np.resize(image, (batch, channels, height, width))))
