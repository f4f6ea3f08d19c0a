"""The field corpus: models of the kinds people have, made here and raced against ONNX Runtime."""

from bench.field.command import main

__all__ = ["main"]
