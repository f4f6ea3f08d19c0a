"""Twenty architectures through `torch.compile`: several batch sizes, gradients, no graph breaks, one compile."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from intaglio.torch import backend, report  # noqa: E402

from .architectures import ARCHITECTURES  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")

BATCHES = (11, 4, 7)
"""The first is no other size of the inputs: PyTorch takes sizes that are equal at first for one."""
QUICK = ("vae",)


def cases() -> list[Any]:
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ARCHITECTURES]


def tensors(result: Any) -> list[Any]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def close(found: Any, expected: Any, scale: float = 1.0) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * scale)


def counters() -> tuple[int, int]:
    found = torch._dynamo.utils.counters
    return int(found["stats"]["unique_graphs"]), sum(found["graph_break"].values())


@pytest.fixture(autouse=True)
def recurrent_layers_are_traced() -> Any:
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


@pytest.mark.parametrize("name", cases())
def test_inference(name: str) -> None:
    case = ARCHITECTURES[name]
    net = case.make().eval()
    fast = torch.compile(net, backend=backend, dynamic=True)
    with torch.no_grad():
        for batch in BATCHES:
            given = case.inputs(batch)
            for found, expected in zip(tensors(fast(*given)), tensors(net(*given)), strict=True):
                close(found, expected)
    assert counters() == (1, 0)
    assert not report().eager, str(report())


def backward(outputs: list[Any]) -> None:
    sum(each.square().sum() for each in outputs).backward()  # pyright: ignore


@pytest.mark.parametrize("name", cases())
def test_gradients(name: str) -> None:
    case = ARCHITECTURES[name]
    net = case.make().train()
    twin = copy.deepcopy(net)
    fast = torch.compile(net, backend=backend, dynamic=True)
    for batch in BATCHES:
        given = [each.requires_grad_(each.is_floating_point()) for each in case.inputs(batch)]
        twins = [each.detach().clone().requires_grad_(each.requires_grad) for each in given]
        net.zero_grad()
        twin.zero_grad()
        found, expected = tensors(fast(*given)), tensors(twin(*twins))
        backward(found)
        backward(expected)
        close(found, expected)
        for mine, theirs in zip((*given, *net.parameters()), (*twins, *twin.parameters()), strict=True):
            assert (mine.grad is None) == (theirs.grad is None)
            if theirs.grad is not None:
                close(mine.grad, theirs.grad, max(1.0, float(theirs.grad.abs().max())))
    assert counters() == (1, 0)
    assert not report().eager, str(report())
