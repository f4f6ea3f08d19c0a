"""Kernels printed as C over vectors."""
