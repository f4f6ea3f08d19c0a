"""Kernels with a fixed loop structure and a fused epilogue: products, convolutions, pooling."""
