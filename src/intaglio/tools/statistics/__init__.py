"""What a model costs: parameters, work and memory."""

from intaglio.tools.statistics.stats import Row, Statistics, stats

__all__ = ["Row", "Statistics", "stats"]
