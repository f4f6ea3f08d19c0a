"""Modules of PyTorch: their graphs as a trainer takes them, and trained weights on the way back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from intaglio.errors import InputError
from intaglio.runtime.model.sources import as_source
from intaglio.runtime.model.tensors import tensor_of

if TYPE_CHECKING:
    from intaglio.ir.graph import Graph
    from intaglio.train.trainer import Trainer


def module_source(module: Any, example_inputs: Any, dynamic_shapes: Any) -> Graph:
    """The graph of a module in evaluation, with an open batch unless `dynamic_shapes` says otherwise.

    Trainers normalize batches by their own statistics and drop, so the module need not be in training mode; it is in
    that mode again at the end.
    """
    modes = {each: each.training for each in module.modules()}
    module.eval()
    try:
        if example_inputs is not None and dynamic_shapes is None:
            example_inputs, dynamic_shapes = _with_open_batch(example_inputs)
        return as_source(module, example_inputs, dynamic_shapes)
    finally:
        for each, mode in modes.items():
            each.training = mode


def _with_open_batch(example_inputs: Any) -> tuple[Any, Any]:
    """Example inputs of more than one row, which PyTorch would take for a fixed size; and their open first axes."""
    torch: Any = sys.modules["torch"]
    given = example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    if not all(isinstance(each, torch.Tensor) and each.ndim for each in given):  # pyright: ignore
        return example_inputs, None
    rows = [torch.cat([each, each]) if len(each) == 1 else each for each in given]  # pyright: ignore
    return tuple(rows), tuple({0: torch.export.Dim.AUTO} for _ in rows)


def copy_to_module(trainer: Trainer, module: Any, ema: bool) -> None:
    """Copy trained weights and running statistics into a module, by name; raises InputError where one does not fit.

    Nothing is copied then.
    """
    held = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    found = trainer.trained_tensors(ema)
    problems = [f"it has no {name!r}" for name in found if name not in held]
    problems += [
        f"its {name!r} is {list(held[name].shape)}, and trained was {list(array.shape)}"
        for name, array in found.items()
        if name in held and tuple(held[name].shape) != array.shape
    ]
    if problems:
        raise InputError(f"{type(module).__name__} is not the module that was trained: {'; '.join(problems[:4])}")
    for name, array in found.items():
        held[name].data.copy_(tensor_of(array))
    _count_batches(trainer, module, held)


def _count_batches(trainer: Trainer, module: Any, held: dict[str, Any]) -> None:
    """Add the batches that the trainer has normalized since the last time to the counts of the module's layers."""
    new = trainer.normalized - trainer.counted.get(module, 0)
    trainer.counted[module] = trainer.normalized
    layers = {name.removesuffix("running_mean") for name in trainer.statistics if name.endswith("running_mean")}
    for layer in layers:
        count = held.get(f"{layer}num_batches_tracked")
        if count is not None:
            count.add_(new)
