"""What an engine asks where its plan is not enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from intaglio.runtime.engine.deadline import Deadline
    from intaglio.targets.step import Into


class Rest(Protocol):
    """What runs that a plan cannot do itself; each method gives the outputs of a whole run."""

    @property
    def is_special(self) -> bool:
        """Whether the plan is made for just these sizes, so that no other plan can do better."""
        ...

    @property
    def host_runs(self) -> int:
        """How many nodes the reference engine has run in the course of this."""
        ...

    def for_values(self, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any] | None:
        """By a plan for the values of inputs; None where the plan itself is to run."""
        ...

    def for_ranks(self, inputs: Sequence[Any], bindings: dict[str, int], deadline: Deadline | None) -> list[Any]:
        """By a plan for the sizes that ranks depend on."""
        ...

    def for_sizes(self, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """By a plan for just these sizes."""
        ...

    def overflowing(self, inputs: Sequence[Any], deadline: Deadline | None, *, is_late: bool) -> list[Any]:
        """With sizes that do not fit 64 bits on the way; `is_late` where data decides them."""
        ...

    def misfit(self, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """With sizes that data decides and that do not fit each other."""
        ...

    def refused(self, names: str, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """With data that the code of nodes of these operators refuses."""
        ...

    def spoiled(self, names: str, inputs: Sequence[Any]) -> list[Any]:
        """The same where inputs that were given away may be written over: raises what is known of it."""
        ...

    def faulty(self, error: Exception, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """With sizes that cannot be worked out, by a fault of our own."""
        ...

    def whole(self, inputs: Sequence[Any], deadline: Deadline | None, into: Into | None) -> list[Any]:
        """By whatever is made of the model's graph."""
        ...

    def forget_sizes(self) -> None:
        """Keep no plan of memory for the sizes that were run before."""
        ...
