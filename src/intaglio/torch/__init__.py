"""Intaglio inside PyTorch: modules of it compiled, forward and backward.

torch.compile(model, backend="intaglio")
intaglio.torch.report()
"""

from intaglio.torch.backend import backend
from intaglio.torch.custom import as_operator, operator
from intaglio.torch.module import Module, module
from intaglio.torch.report import clear, report

__all__ = ["Module", "as_operator", "backend", "clear", "module", "operator", "report"]
