"""What a model may cost to read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReadLimits:
    """Limits that a model is held to while it is read; going over one raises LimitError."""

    nodes: int = 1_000_000
    """Nodes, subgraphs and every call of a function counted in full."""
    depth: int = 40
    """Subgraphs in subgraphs and functions in functions."""
    dense_bytes: int = 2**30
    """One sparse tensor when it is made dense."""
