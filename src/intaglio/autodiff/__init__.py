"""Differentiation of graphs; the rules stand on the operators."""

from intaglio.autodiff.backward import add_backward as add_backward
from intaglio.autodiff.reverse import gradients as gradients
from intaglio.autodiff.rules import forget_pullbacks as forget_pullbacks
from intaglio.autodiff.rules import pullback as pullback
