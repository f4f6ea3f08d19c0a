"""ONNX files in and out: the reader, external data, functions, adapters from older opsets, and the writer."""
