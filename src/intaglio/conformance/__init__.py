"""ONNX's own backend tests, run on an engine or on any other backend: the suite, its runs, reports, and support table."""
