"""Limits on memory, before anything is allocated: of a model's weights, of a segment's plan and of single tensors."""

from __future__ import annotations

import functools
import os
import resource
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from intaglio.errors import GraphError, LimitError
from intaglio.ir.limits import Limits, most_bytes
from intaglio.ir.substitution import evaluate
from intaglio.ir.types import TensorType
from intaglio.runtime.engine.deadline import Deadline

if TYPE_CHECKING:
    from intaglio.ir.graph import Graph, Node

_CGROUP_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def settled(limits: Limits | None) -> Limits:
    """The limits with every default filled in for this machine."""
    limits = limits or Limits()
    return limits if limits.memory is not None else replace(limits, memory=machine_memory())


@functools.cache
def machine_memory() -> int:
    """The bytes that this process can have: the least of the machine's, the control group's and its own limit."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    address_space = resource.getrlimit(resource.RLIMIT_AS)[0]
    if address_space != resource.RLIM_INFINITY:
        found.append(address_space)
    for name in _CGROUP_FILES:
        try:
            found.append(int(Path(name).read_text()))
        except (OSError, ValueError):  # "max" is no number
            continue
    return max(1, min(found))


def check_weights(graph: Graph, limits: Limits) -> None:
    """Raise LimitError where the weights alone are over the limit."""
    check_weight_bytes(weight_bytes(graph), limits)


def check_weight_bytes(size: int, limits: Limits) -> None:
    """Raise LimitError where weights of so many bytes are over the limit."""
    if limits.memory is not None and size > limits.memory:
        raise LimitError(f"the model's weights take {size} bytes; the limit on memory is {limits.memory}")


def weight_bytes(graph: Graph) -> int:
    """The bytes of a graph's constants and defaults, each array once."""
    arrays = [value.constant for value in graph.constants()] + [value.default for value in graph.inputs]
    return sum({id(array): array.nbytes for array in arrays if array is not None}.values())


class Watcher:
    """Looks at each node before the reference engine runs it: is there time, and are its outputs small enough?"""

    def __init__(self, bindings: Mapping[str, int], deadline: Deadline | None) -> None:
        self._bindings = bindings
        self._deadline = deadline
        self._limit = most_bytes()

    def __call__(self, node: Node) -> None:
        """Raise where the node must not run."""
        if self._deadline is not None:
            self._deadline.check()
        for value in node.outputs:
            if not isinstance(value.type, TensorType) or value.type.shape is None:
                continue
            try:
                size = evaluate(value.tensor.size, self._bindings) * value.dtype.itemsize
            except GraphError:
                continue
            if size > self._limit:
                from intaglio.ops.evaluate import describe

                raise LimitError(
                    f"{describe(node)} makes {value.name!r} of {value.type} with {size} bytes;"
                    f" the limit on memory is {self._limit}"
                )
