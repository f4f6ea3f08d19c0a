"""What other servers need to serve one ONNX file; each runs in an environment of its own."""
