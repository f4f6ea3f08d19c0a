"""How fast a model is here and elsewhere: engines in processes of their own, in turns."""

from intaglio.tools.timing.bench import Row, Timing, bench

__all__ = ["Row", "Timing", "bench"]
