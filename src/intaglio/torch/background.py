# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""Graphs that PyTorch runs until their code is there: nobody waits for the C compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import torch

from intaglio.runtime.model.model import Model
from intaglio.torch.model_instruction import LateModel


@cache
def _workers() -> ThreadPoolExecutor:
    """One thread that compiles: the compiler has processes of its own. The end of the process waits for it."""
    return ThreadPoolExecutor(1, "intaglio-background")


class Pending:
    """The models of one graph that are being made."""

    def __init__(self) -> None:
        self._futures: list[Future[Model]] = []

    def make(self, work: Callable[[], Model]) -> LateModel:
        """Begin to make a model."""
        future = _workers().submit(work)
        self._futures.append(future)
        return LateModel(future.result, lambda model: None)

    @property
    def is_done(self) -> bool:
        """Whether all are made, or failed."""
        return all(future.done() for future in self._futures)

    def results(self) -> list[Model]:
        """The models, once they are made; raises what was raised in the making of one."""
        return [future.result() for future in self._futures]


class BackgroundGraph:
    """Runs a graph by PyTorch until `pending` is done, and by `program` from then on; `ready` is told of the models."""

    def __init__(
        self,
        module: Callable[..., Any],
        program: Callable[[list[Any]], list[Any]],
        pending: Pending,
        ready: Callable[[Sequence[Model]], None],
    ) -> None:
        self._module, self._program, self._ready = module, program, ready
        self._pending: Pending | None = pending
        self._boxed_call = True

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """Run the graph."""
        pending = self._pending
        if pending is not None:
            if not pending.is_done:
                given = [*arguments]
                arguments.clear()
                with torch.no_grad():
                    return list(self._module(*given))
            models = pending.results()
            self._pending = None
            self._ready(models)
        return self._program(arguments)
