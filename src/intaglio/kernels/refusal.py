"""Why a node is not compiled: a cause, which code looks at, and a text, which people read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Cause(Enum):
    """What stands in the way of a kernel."""

    OPERATOR = "no kernel computes the operator"
    ELEMENTS = "a value is no tensor, or of an element type that no kernel computes"
    FORM = "attributes or sizes that no kernel of the operator takes"
    CONSTANT = "what must be known when the model is compiled is computed in the run"
    SHAPE = "a rank or size is not known before the run; a plan for particular sizes of the inputs may know it"
    DATA = "a size depends on the elements of tensors, and nothing finds it out in the run"
    USER = "a Python function of the user's computes it"
    FAULT = "a fault of our own"


@dataclass(frozen=True)
class Refusal:
    """Why a node runs on the host or is expanded: nothing may depend on the words of `text`."""

    cause: Cause
    text: str

    def __str__(self) -> str:
        return self.text

    def inside(self, operator: str) -> Refusal:
        """The refusal of a body because of a node in it."""
        return Refusal(self.cause, f"{operator} in its body: {self.text}")
