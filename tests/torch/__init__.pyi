"""Stands for PyTorch where that is not installed: a type checker takes this folder for it then."""

from typing import Any

def __getattr__(name: str) -> Any: ...
