"""What torch.compile expects of a backend: values, strides, offsets and shared memory of what it sees, as in eager.

Each program runs at three sizes: compiled with numbers, compiled with symbols, and once more with these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from intaglio.torch import backend, report  # noqa: E402

F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("fresh")

SIZES = ((4, 6), (6, 8), (8, 10))
Make = Callable[[int, int], list[Any]]


def plain(rows: int, columns: int) -> list[Any]:
    return [torch.randn(rows, columns)]


def transposed(rows: int, columns: int) -> list[Any]:
    return [torch.randn(columns, rows).t()]


def channels_last(rows: int, columns: int) -> list[Any]:
    return [torch.randn(2, 3, rows, columns).to(memory_format=torch.channels_last)]


def with_integer(sign: int) -> Make:
    return lambda rows, columns: [torch.randn(rows, columns), sign * (rows // 2 - 1)]


def flat(found: Any) -> list[Any]:
    return [leaf for each in found for leaf in flat(each)] if isinstance(found, (list, tuple)) else [found]


def copied(argument: Any) -> Any:
    """A tensor with the same strides in memory of its own."""
    if not isinstance(argument, torch.Tensor):
        return argument
    memory = argument.untyped_storage().clone()
    fresh = torch.empty(0, dtype=argument.dtype)
    return fresh.set_(memory, argument.storage_offset(), argument.shape, argument.stride())


def shared(values: Sequence[Any]) -> list[int | None]:
    """For each tensor the first one in whose memory it lies."""
    keys = [v.untyped_storage().data_ptr() if isinstance(v, torch.Tensor) and v.numel() else None for v in values]
    return [None if key is None else keys.index(key) for key in keys]


def significant(tensor: Any) -> list[int]:
    """The strides of axes that have more than one element."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [stride for size, stride in pairs if size > 1] if tensor.numel() else []


def run(function: Any, arguments: Sequence[Any], needs_gradients: bool) -> tuple[list[Any], list[Any], list[Any]]:
    """Outputs, arguments after the call, and gradients of the arguments."""
    torch.manual_seed(5)
    leaves = [copied(each) for each in arguments]
    floats = [each for each in leaves if needs_gradients and isinstance(each, torch.Tensor)]
    for each in floats:
        each.requires_grad_()
    found = flat(function(*leaves))
    loss = sum((torch.arange(1, y.numel() + 1) * y.flatten()).sum() for y in found if differentiable(y))
    gradients = torch.autograd.grad(loss, floats, allow_unused=True) if isinstance(loss, torch.Tensor) else ()
    return found, leaves, list(gradients)


def differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def check(function: Any, make: Make, needs_gradients: bool, **options: Any) -> None:
    torch.manual_seed(0)
    fast = torch.compile(function, backend=backend, **options)
    for size in SIZES:
        arguments = make(*size)
        found, given, slopes = run(fast, arguments, needs_gradients)
        expected, changed, wanted = run(function, arguments, needs_gradients)
        torch.testing.assert_close([found, given, slopes], [expected, changed, wanted], rtol=1e-4, atol=1e-4)
        assert shared([*found, *given]) == shared([*expected, *changed]), size
        for mine, theirs in zip(found, expected, strict=True):
            if isinstance(theirs, torch.Tensor):
                assert significant(mine) == significant(theirs), size
                assert mine.storage_offset() == theirs.storage_offset(), size
                assert mine.requires_grad == theirs.requires_grad, size


def value_and_views(x: Any) -> Any:
    y = x * 2
    return y, y[x.shape[0] - 1 :], y.t()


def views_alone(x: Any) -> Any:
    y = x.t() * 2
    return y[0], y.t()[1:], y.unflatten(0, (2, -1))


VIEWS: dict[str, tuple[Any, Make]] = {
    "half": (lambda x: x[:, x.shape[1] // 2 :], plain),
    "chunk": (lambda x: x.chunk(2, 1), plain),
    "split": (lambda x: x.split(x.shape[1] // 2, 1), plain),
    "last row": (lambda x: x[x.shape[0] - 1], plain),
    "the argument and its views": (lambda x: (x, x.view(-1), x * 2, x[1:].t()), plain),
    "from an integer on": (lambda x, k: x[k:], with_integer(1)),
    "half of a result": (lambda x: (x * 2)[:, x.shape[1] // 2 :], plain),
    "chunks of a result": (lambda x: (x * 2).chunk(2, 1), plain),
    "a value and its views": (value_and_views, plain),
    "views of one value": (views_alone, plain),
    "one value twice": (lambda x: ((y := x * 2), y), plain),
    "expanded": (lambda x: (x * 2)[:, :1].expand(-1, 5), plain),
    "diagonal": (lambda x: (x * 2).diagonal(), plain),
    "windows": (lambda x: (x.detach() * 2).unfold(1, 3, 1), plain),
    "as_strided": (lambda x: (x.t() * 2).as_strided((2, 3), (1, 2), 1), plain),
    "as_strided of an argument": (lambda x: x.as_strided((2, 3), (1, 2), 1) + 1, transposed),
    "other bits": (lambda x: (x * 2).view(torch.int32), plain),
    "nothing left": (lambda x: (x * 2)[x.shape[0] :], plain),
}
STRIDES: dict[str, tuple[Any, Make]] = {
    "transposed": (lambda x: x.t() * 2, plain),
    "transposed argument": (lambda x: x + 1, transposed),
    "three axes": (lambda x: x.permute(2, 0, 1) + 1, lambda r, c: [torch.randn(3, r, c)]),
    "gaps": (lambda x: x * 2, lambda r, c: [torch.randn(3, r, 2 * c).permute(2, 0, 1)[::2]]),
    "zeros_like": (lambda x: torch.zeros_like(x.t()) + x.t(), plain),
    "clone": (lambda x: (x.t().clone(), x.t().contiguous()), plain),
    "sorted": (lambda x: x.t().sort(0), plain),
    "broadcast": (lambda x: x.t() + x[0][:, None], plain),
    "product": (lambda x: (x @ x.t()).t(), plain),
    "channels last": (lambda x: (F.relu(x) + 1, x.mean(1, keepdim=True), F.max_pool2d(x, 2)), channels_last),
    "to channels last": (
        lambda x: (x * 2).contiguous(memory_format=torch.channels_last),
        lambda r, c: [torch.randn(2, 3, r, c)],
    ),
}
RANDOM: dict[str, tuple[Any, Make]] = {
    "dropout": (lambda x: F.dropout(x.t(), 0.5), plain),
    "two dropouts": (lambda x: F.dropout(x.t() * 2, 0.3) + F.dropout(x.t(), 0.5), plain),
    "dropout of three axes": (lambda x: F.dropout(x.permute(2, 0, 1)), lambda r, c: [torch.randn(3, r, c)]),
    "dropout with gaps": (lambda x: F.dropout(x), lambda r, c: [torch.randn(c, 2 * r)[:, ::2].t()]),
    "rand_like": (lambda x: torch.rand_like(x.t()) + x.t(), plain),
    "rand_like of a result": (lambda x: torch.rand_like(x.t() * 2) + x.t(), plain),
    "uniform": (lambda x: torch.empty_like(x.t()).uniform_() * x.t(), plain),
    "bernoulli": (lambda x: torch.bernoulli(x.t().sigmoid()) * x.t(), plain),
}
NUMBERS: dict[str, tuple[Any, Make]] = {
    "a negative factor": (lambda x, k: x * k, with_integer(-1)),
    "a negative index": (lambda x, k: (x * 2)[k] + 1, with_integer(-1)),
    "a negative start": (lambda x, k: x[k:] * 2, with_integer(-1)),
    "rolled back": (lambda x, k: x.roll(k, 0), with_integer(-1)),
    "a negative range": (lambda x, k: x.sum() + torch.arange(k, k + 4), with_integer(-1)),
    "a negative fill": (lambda x, k: torch.full((x.shape[0],), k) + x[:, 0], with_integer(-1)),
    "numbers returned": (lambda x, k: (x * 2, k + 1, x.shape[0] * 2), with_integer(-1)),
    "a float": (lambda x, k: x.clamp(min=k) * k, lambda r, c: [torch.randn(r, c), -0.1 * r]),
    "nothing": (lambda x: (x * 2 + 1, x.sum(1)), lambda r, c: [torch.randn(r, 0)]),
    "no rows": (lambda x: x[:0].sum(0) + torch.cat([x[:0], x]), plain),
}
CONSTANTS: dict[str, tuple[Any, Make]] = {
    "floats": (lambda x: x[:, :3] + torch.tensor([1.0, 2.0, 3.0]), plain),
    "a double": (lambda x: x * torch.tensor(2.0, dtype=torch.float64), plain),
    "an index": (lambda x: x[torch.tensor([0, 2])] + x[[1, -1]], plain),
    "alone": (lambda x: (torch.tensor([1, 2, 3]), x + 1), plain),
}


@pytest.mark.parametrize("needs_gradients", [False, True], ids=["inference", "gradients"])
@pytest.mark.parametrize("name", [*VIEWS, *STRIDES, *RANDOM, *NUMBERS, *CONSTANTS])
def test_what_pytorch_sees_is_as_in_eager(name: str, needs_gradients: bool) -> None:
    function, make = {**VIEWS, **STRIDES, **RANDOM, **NUMBERS, **CONSTANTS}[name]
    check(function, make, needs_gradients)


@pytest.mark.parametrize("needs_gradients", [False, True], ids=["inference", "gradients"])
@pytest.mark.parametrize("name", ["half", "a value and its views", "transposed", "rolled back"])
def test_so_it_is_where_all_sizes_are_open_from_the_start(name: str, needs_gradients: bool) -> None:
    check(*{**VIEWS, **STRIDES, **NUMBERS}[name], needs_gradients, dynamic=True)


def write_all(x: Any) -> Any:
    x.mul_(2)
    return x


def write_where_positive(x: Any) -> Any:
    x[x > 0] = -2
    return x * 2


def write_rows(x: Any) -> Any:
    x[1:] = 3
    return x[x.shape[0] - 1 :]


def write_through_a_view(x: Any) -> Any:
    y = x.t()[1:]
    y.add_(1)
    return y, x.sum()


def write_to_a_result_behind_a_break(x: Any) -> Any:
    y = x * 2
    z = y[0]
    torch._dynamo.graph_break()
    z.add_(1)
    return y, z


def write_to_an_argument_behind_a_break(x: Any) -> Any:
    y = x[:, x.shape[1] // 2 :]
    torch._dynamo.graph_break()
    y.mul_(0)
    return x


WRITERS = (
    *(write_all, write_where_positive, write_rows, write_through_a_view),
    *(write_to_a_result_behind_a_break, write_to_an_argument_behind_a_break),
)


@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_written_in_place_is_seen_by_all_who_share_it(writer: Any) -> None:
    check(writer, plain, needs_gradients=False)


class Counter(torch.nn.Module):
    """Keeps a part of its last result in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.last: Any
        self.register_buffer("last", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        y = x * 2 + self.last.sum()
        self.last.copy_(y[x.shape[0] - 1, :3])
        return y.t()


def test_buffers_that_are_written_to() -> None:
    mine, theirs = Counter(), Counter()
    fast = torch.compile(mine, backend=backend)
    for size in SIZES:
        x = torch.randn(size)
        found, expected = fast(x), theirs(x)
        torch.testing.assert_close([found, mine.last], [expected, theirs.last])
        assert found.stride() == expected.stride()


def test_a_constant_that_was_returned_can_be_written_to() -> None:
    fast = torch.compile(lambda x: (torch.tensor([1.0, 2.0]), x + 1), backend=backend)
    for _ in range(3):
        constant, _ = fast(torch.randn(3))
        assert constant.tolist() == [1.0, 2.0]
        constant.zero_()


def scaled_by_an_item(x: Any) -> Any:
    return x * int(x.abs().sum().item()) + x.sum().item()


def as_many_ones(x: Any) -> Any:
    return torch.zeros(int((x > 0).sum())) + 1, x * -int((x > 0).sum())


@pytest.mark.parametrize("function", [scaled_by_an_item, as_many_ones])
def test_numbers_that_are_read_out_of_tensors(function: Any) -> None:
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        check(function, plain, needs_gradients=False)
    assert "it reads a number out of a tensor" in report().eager.values()


def test_views_of_weights_cost_no_copy() -> None:
    layer = torch.nn.Linear(5, 3)
    fast = torch.compile(lambda: layer.weight.t()[1:], backend=backend)
    with torch.no_grad():
        assert fast().data_ptr() == layer.weight.t()[1:].data_ptr()
    assert [graph.models for graph in report().graphs] == [0]
