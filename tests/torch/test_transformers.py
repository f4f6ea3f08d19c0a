"""Models of transformers, unmodified, by torch.compile: logits, gradients and written tokens are eager's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from intaglio.torch import backend  # noqa: E402

from .transformers_zoo import (  # noqa: E402
    ARCHITECTURES,
    CLOSE,
    SHAPES,
    gradients_differ,
    output_differs,
    writes_alike,
)

pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.filterwarnings("ignore"),  # transformers warns of its own future
]

WRITERS = [name for name, architecture in ARCHITECTURES.items() if architecture.writes]


def marked(names: Iterable[str], *quick: str) -> list[Any]:
    """The names as parameters of a test; all but the quick ones are slow."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


def breaks() -> int:
    return sum(torch._dynamo.utils.counters["graph_break"].values())


@pytest.mark.parametrize("name", marked(ARCHITECTURES, "llama", "whisper", "bert"))
def test_logits_are_those_of_eager(name: str) -> None:
    architecture = ARCHITECTURES[name]
    model = architecture.build(name).eval()
    fast = torch.compile(model, backend=backend)
    for batch, length in SHAPES:
        assert output_differs(model, fast, architecture.inputs(batch, length)) < CLOSE
    assert breaks() == 0


@pytest.mark.parametrize("name", marked(ARCHITECTURES, "gpt2"))
def test_a_training_step_has_the_gradients_of_eager(name: str) -> None:
    architecture = ARCHITECTURES[name]
    model = architecture.build(name).eval()  # without masks, which are tests of their own
    fast = torch.compile(model, backend=backend)
    assert gradients_differ(model, fast, architecture.inputs(*SHAPES[0])) < CLOSE
    assert breaks() == 0


@pytest.mark.parametrize("name", marked(WRITERS, "gpt2", "t5"))
def test_tokens_written_with_a_growing_cache_are_those_of_eager(name: str) -> None:
    architecture = ARCHITECTURES[name]
    assert writes_alike(architecture.build(name).eval(), backend, architecture.inputs(2, 5), "dynamic")


@pytest.mark.parametrize("name", marked(WRITERS, "llama"))
def test_tokens_written_with_a_static_cache_are_those_of_eager(name: str) -> None:
    architecture = ARCHITECTURES[name]
    assert writes_alike(architecture.build(name).eval(), backend, architecture.inputs(2, 5), "static")
