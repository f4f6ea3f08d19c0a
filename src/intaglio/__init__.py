"""Intaglio cuts ONNX models and PyTorch modules into native code."""

__version__ = "0.1.0"
