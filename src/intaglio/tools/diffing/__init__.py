"""How two models differ: structure, attributes, weights, inputs and outputs, metadata."""

from intaglio.tools.diffing.difference import Changed, Difference, WeightChange, diff

__all__ = ["Changed", "Difference", "WeightChange", "diff"]
