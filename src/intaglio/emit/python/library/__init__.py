"""Functions that exported NumPy code calls where NumPy has none of its own; those that are used are copied into it."""
