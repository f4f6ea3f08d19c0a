"""Benchmarks: whole models raced against other engines. Run with `python -m bench` from the repository root."""
