"""Differentiation of graphs; the rules stand on the operators."""

from intaglio.autodiff.reverse import gradients as gradients
