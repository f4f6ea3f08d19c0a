"""Intaglio inside PyTorch: modules of it compiled, forward and backward.

torch.compile(model, backend="intaglio")
intaglio.torch.report()
"""

from intaglio.torch.backend import backend
from intaglio.torch.custom import operator
from intaglio.torch.module import Module, module
from intaglio.torch.report import clear, report

__all__ = ["Module", "backend", "clear", "module", "operator", "report"]
