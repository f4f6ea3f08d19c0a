"""ONNX's own backend tests on our engines or any other backend: suite, runs, reports, and the table of operators."""
