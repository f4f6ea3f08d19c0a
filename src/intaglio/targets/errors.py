"""How executors report code that cannot be had."""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.errors import CompileError


class NoCompilerError(CompileError):
    """Code would have to be compiled, and there is nothing that compiles it."""


class RefusedPlanError(CompileError):
    """No code can be made of some functions of plans.

    `nodes` are the ids of those of the first plan that such functions serve, as far as they are known, or None where
    none of the functions is the first plan's own.
    """

    def __init__(self, reason: CompileError, nodes: Sequence[tuple[str, ...]] | None) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.nodes = nodes
