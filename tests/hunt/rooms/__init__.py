"""Rooms besides inference, each with a maker of its own: what is made there is no ONNX model with feeds.

A module here has a function `look(seed, times, tell) -> Seen`, is entered in `tests.hunt.generators.ROOMS`, and has
its quick seeds in a test beside it. With a function `minimise(seed, times) -> int`, which prints what it reduces and
returns how many findings that were, `--minimise` takes its seeds too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..judging import Verdict

Tell = Callable[[str], None]


@dataclass
class Seen:
    """What came of one seed: how many cases it held, and what was found in them."""

    cases: int
    verdict: Verdict = field(default_factory=Verdict)
