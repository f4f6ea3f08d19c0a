"""Models as ONNX again: simplified, at another operator set, with shapes written in."""
