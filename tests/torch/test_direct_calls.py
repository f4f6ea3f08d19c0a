"""Later runs of a step go by the addresses of tensors, and only where these are like those of a run before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import intaglio  # noqa: E402
import intaglio.torch  # noqa: E402
from intaglio import ops  # noqa: E402
from intaglio.targets import executor_for  # noqa: E402
from intaglio.targets.c.executor import CExecutor  # noqa: E402
from intaglio.torch.model_instruction import CarriedSize, DirectCall, ModelInstruction, Operand, Result  # noqa: E402


def counted_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One number: how many runs have been direct calls since."""
    counted, run = [0], DirectCall.run

    def count(call: DirectCall, *arguments: Any) -> bool:
        done = run(call, *arguments)
        counted[0] += done
        return done

    monkeypatch.setattr(DirectCall, "run", count)
    return counted


class Counted:
    """A step that adds a tensor and a vector, and how many of its runs were direct calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, order: Sequence[int] | None = None, kind: str = "float32"):
        with intaglio.build("sum", inputs={"x": f"{kind}[n, m, 4]", "y": f"{kind}[4]"}) as g:
            total = ops.Add(g["x"], g["y"])
            g.output(total=total, all=ops.ReduceSum(total, keepdims=0))
        given = None if order is None else tuple(order)
        self.step = ModelInstruction(g.model(), [Operand(0, given), Operand(1)], [], [Result(2, given), Result(3)], 2)
        self._runs = counted_runs(monkeypatch)

    @property
    def direct(self) -> int:
        return self._runs[0]

    def __call__(self, x: Any, y: Any) -> Any:
        slots = [x, y, None, None]
        self.step.run(slots, {})
        torch.testing.assert_close(slots[2], x + y)
        torch.testing.assert_close(slots[3], (x + y).sum())
        return slots[2]


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "bfloat16"])
def test_runs_like_one_before_are_direct(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    step = Counted(monkeypatch, kind=kind)
    y = torch.arange(4).to(getattr(torch, kind))
    results = [step(torch.randint(0, 3, (2, 3, 4)).to(y.dtype), y) for _ in range(4)]
    assert step.direct == 3
    assert len({each.data_ptr() for each in results}) == 4


def test_results_are_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Counted(monkeypatch)
    x, y = torch.randn(2, 3, 4), torch.randn(4)
    step(x, y)
    first = step(x, y)
    kept = first.clone()
    step(x * 2, y)
    assert torch.equal(first, kept)
    first.add_(1)


def unlike(x: Any) -> dict[str, Any]:
    """Tensors of the same shape, or nearly so, that are taken in the usual way; and how many later runs are direct."""
    return {
        "gaps": torch.randn(2, 3, 8)[:, :, ::2],
        "turned": x.permute(2, 1, 0).contiguous().permute(2, 1, 0),
        "repeated": torch.randn(1, 3, 4).expand(2, 3, 4),
        "negative": torch._neg_view(torch.randn(2, 3, 4)),
        "none": torch.zeros(0, 3, 4),
        "larger": torch.randn(5, 3, 4),
    }


@pytest.mark.parametrize("case", list(unlike(torch.zeros(2, 3, 4))))
def test_runs_unlike_those_before_are_not(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    step = Counted(monkeypatch)
    x, y = torch.randn(2, 3, 4), torch.randn(4)
    other = unlike(x)[case]
    counts: list[int] = []
    for each in (other, x, x, x, other, x, x):
        before = step.direct
        step(each, y)
        counts.append(step.direct - before)
    assert counts[0] == counts[4] == 0
    assert counts[3] == counts[6] == 1


def test_axes_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Counted(monkeypatch, order=(1, 2, 0))
    y = torch.randn(4)
    for _ in range(3):
        x = torch.randn(2, 3, 4).permute(2, 0, 1)
        slots: list[Any] = [x, y, None, None]
        step.step.run(slots, {})
        torch.testing.assert_close(slots[2], x + y[:, None, None])
        assert slots[2].stride() == x.stride()
    assert step.direct == 2
    slots = [torch.randn(4, 2, 3), y, None, None]
    step.step.run(slots, {})
    torch.testing.assert_close(slots[2], slots[0] + y[:, None, None])
    assert step.direct == 2


def test_sizes_that_no_tensor_has(monkeypatch: pytest.MonkeyPatch) -> None:
    with intaglio.build("ones", inputs={"x": "float32[2]", "size": "uint8[n, 0]"}) as g:
        rows = ops.Shape(g["size"], start=0, end=1)
        g.output(y=ops.Expand(ops.Reshape(g["x"], [1, 2]), ops.Concat(rows, ops.Constant(value_ints=[2]), axis=0)))
    step = ModelInstruction(g.model(), [Operand(0)], [CarriedSize("n")], [Result(1)], 1)
    x = torch.randn(2)
    for n in (3, 3, 5, 5, 3):
        slots = [x, None]
        step.run(slots, {"n": n})
        torch.testing.assert_close(slots[1], x.expand(n, 2))


def test_the_memory_is_that_of_the_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, ...]] = []
    invoke = executor_for().direct_call()

    def noted(handle: Any, time: int, *addresses: int) -> int:
        given.append(addresses)
        return invoke(handle, time, *addresses)

    monkeypatch.setattr(CExecutor, "direct_call", lambda self: noted)
    net = torch.nn.Linear(4, 3)
    fast = torch.compile(net, backend=intaglio.torch.backend)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(2, 4)
            y = fast(x)
            torch.testing.assert_close(y, net(x))
    pointers = {x.data_ptr(), net.weight.data_ptr(), net.bias.data_ptr(), y.data_ptr()}
    assert set(given[-1]) == pointers


def test_a_run_out_of_memory_is_done_in_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> int:
        raise MemoryError

    monkeypatch.setattr(CExecutor, "direct_call", lambda self: refuse)
    step = Counted(monkeypatch)
    for _ in range(3):
        step(torch.randn(2, 3, 4), torch.randn(4))
    assert step.direct == 0


class Views(torch.nn.Module):
    """Keeps for its backward pass what eager has as views in another order: of heads, and with channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.conv = torch.nn.Linear(8, 24), torch.nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x: Any) -> Any:
        tokens = torch.tanh(self.conv(x)).flatten(2).transpose(1, 2)
        q, k, v = self.mix(tokens).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        return (torch.softmax(q @ k.transpose(-2, -1), -1) @ v).transpose(1, 2).sin()


def test_both_passes_of_training_are_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = counted_runs(monkeypatch)
    torch._dynamo.reset()
    net = Views()
    fast = torch.compile(net, backend=intaglio.torch.backend)
    for step in range(4):
        x = torch.randn(2, 3, 4, 4)
        found = []
        for each in (fast, net):
            net.zero_grad()
            each(x).square().mean().backward()
            found.append([parameter.grad.clone() for parameter in net.parameters()])
        torch.testing.assert_close(*found)
        assert counted == [2 * step]
