"""What tests with PyTorch share: a compiler without memory of earlier tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing compiled before, and nothing noted."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    import intaglio.torch

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    intaglio.torch.clear()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
