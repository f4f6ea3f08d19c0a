"""Functions that exported PyTorch code calls where PyTorch has none; those that are used are copied into it."""
