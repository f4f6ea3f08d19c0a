"""`options={"background": True}`: PyTorch runs a graph until its code is there."""

from __future__ import annotations

import copy
import sys
import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from intaglio.errors import CompileError, InputError  # noqa: E402
from intaglio.torch import backend, report  # noqa: E402
from intaglio.torch.background import _workers  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.usefixtures("fresh")


class Gate:
    """Holds all loading back until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._open = threading.Event()
        module = sys.modules[backend.__module__]
        load = module.load

        def late(graph: Any, **given: Any) -> Any:
            assert self._open.wait(60)
            return load(graph, **given)

        monkeypatch.setattr(module, "load", late)

    def open(self) -> None:
        """Let what waits go on, and wait until it is done."""
        self._open.set()
        _workers().submit(lambda: None).result()


def compiled(module: Any, **named: Any) -> Any:
    return torch.compile(module, backend=backend, options={"background": True}, **named)


def mlp() -> Any:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def test_calls_do_not_wait_and_change_over(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, net = Gate(monkeypatch), mlp().eval()
    fast = compiled(net, dynamic=True)
    with torch.no_grad():
        for batch in (3, 5):
            x = torch.randn(batch, 6)
            assert torch.equal(fast(x), net(x))
        assert [graph.is_pending for graph in report().graphs] == [True]
        assert "run by PyTorch until it is compiled" in str(report())
        gate.open()
        for batch in (4, 3):
            x = torch.randn(batch, 6)
            torch.testing.assert_close(fast(x), net(x))
    assert [(graph.is_pending, graph.models) for graph in report().graphs] == [(False, 1)]


@pytest.mark.parametrize("opened", ["never", "between", "before"])
def test_training_may_change_over_between_the_passes(opened: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, net = Gate(monkeypatch), mlp()
    twin, fast = copy.deepcopy(net), compiled(net)
    x = torch.randn(5, 6)
    fast(x).square().mean().backward()
    net.zero_grad()
    if opened == "before":
        gate.open()
    loss = fast(x).square().mean()
    if opened == "between":
        gate.open()
    loss.backward()
    twin(x).square().mean().backward()
    for mine, theirs in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)
    gate.open()


def test_what_fails_is_raised_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(graph: Any, **given: Any) -> Any:
        raise CompileError("there is no compiler today")

    monkeypatch.setattr(sys.modules[backend.__module__], "load", fail)
    net = mlp().eval()
    fast = compiled(net)
    x = torch.randn(3, 6)
    held = threading.Event()
    _workers().submit(held.wait, 60)
    with torch.no_grad():
        assert torch.equal(fast(x), net(x))
        held.set()
        _workers().submit(lambda: None).result()
        with pytest.raises(CompileError, match="no compiler today"):
            fast(x)


def test_freezing_excludes_it() -> None:
    net = torch.compile(mlp().eval(), backend=backend, options={"background": True, "freeze": True})
    with torch.no_grad(), pytest.raises(Exception, match="exclude each other") as caught:
        net(torch.randn(3, 6))
    assert isinstance(caught.value, InputError) or "InputError" in str(caught.value)
