"""Makers of cases for operators that the agreement tests leave to others; see `tests.ops.agreement_cases`."""

from __future__ import annotations

DOMAINS: dict[str, str] = {}
"""The domain of each operator that is not ONNX's own."""
NEWER: dict[str, int] = {}
"""The operator set that an operator needs."""
