"""Several processes that train one model: each has its own batches, and all take the same steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from intaglio.errors import InputError, UnsupportedError

Array = np.ndarray[Any, Any]


class Processes(Protocol):
    """What a trainer needs of the other processes."""

    rank: int
    """The number of this process, from 0."""

    def average(self, arrays: Sequence[Array]) -> None:
        """Make each array the mean of those of all processes, in place."""
        ...

    def share(self, arrays: Sequence[Array]) -> None:
        """Make each array that of the first process, in place."""
        ...


class TorchProcesses:
    """The processes of `torch.distributed`, which somebody has started: `init_process_group("gloo")`."""

    def __init__(self) -> None:
        try:
            import torch  # pyright: ignore[reportMissingImports]
            import torch.distributed as group  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise UnsupportedError("several processes need torch.distributed; `pip install torch`") from error
        if not group.is_available() or not group.is_initialized():
            raise InputError('no group of processes: call torch.distributed.init_process_group("gloo") first')
        self._torch: Any = torch
        self._group: Any = group
        self.rank: int = group.get_rank()
        self.size: int = group.get_world_size()

    def average(self, arrays: Sequence[Array]) -> None:
        """Make each array the mean of those of all processes, in place."""
        self._exchange(arrays, lambda buffer: self._group.all_reduce(buffer))
        for array in arrays:
            array /= array.dtype.type(self.size)

    def share(self, arrays: Sequence[Array]) -> None:
        """Make each array that of the first process, in place."""
        self._exchange(arrays, lambda buffer: self._group.broadcast(buffer, 0))

    def _exchange(self, arrays: Sequence[Array], send: Callable[[Any], Any]) -> None:
        """Send all arrays of one type as one buffer, which is much faster than one by one."""
        for dtype in dict.fromkeys(array.dtype for array in arrays):
            alike = [array for array in arrays if array.dtype == dtype]
            buffer = np.concatenate([array.ravel() for array in alike])
            send(self._torch.from_numpy(buffer))
            place = 0
            for array in alike:
                array[...] = buffer[place : place + array.size].reshape(array.shape)
                place += array.size


def torch_processes() -> TorchProcesses:
    """The processes of `torch.distributed`, for `Trainer(processes=...)`."""
    return TorchProcesses()
