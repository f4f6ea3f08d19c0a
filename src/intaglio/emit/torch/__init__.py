"""Models as modules of PyTorch."""
