"""Small programs to which random ones of the hunt were reduced, compared with eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from intaglio.torch import backend

F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("fresh")


def compiled(function: Callable[..., Any], engine: str = "reference") -> Callable[..., Any]:
    return torch.compile(function, backend=backend, options={"engine": engine})


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.count_nonzero(x.round(decimals=1), 3),
        lambda x: x.sin().aminmax(dim=0)[0],
        lambda x: F.interpolate(x, size=(5, 3), mode="bilinear"),
    ],
)
def test_results_of_the_reference_engine_lie_in_the_usual_order(function: Callable[..., Any]) -> None:
    x = torch.randn(3, 4, 5, 6).to(memory_format=torch.channels_last)
    found, expected = compiled(function)(x), function(x)
    torch.testing.assert_close(found, expected)
    assert found.stride() == expected.stride()


def add_to_a_slice(x: Any) -> Any:
    y = x.nan_to_num(1.0, 2.0, -2.0)
    y[None, None, 2:-1] += 7
    return y


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_slice_of_sizes_that_are_broadcast(engine: str) -> None:
    run = compiled(add_to_a_slice, engine)
    for size in (6, 8, 5):
        x = torch.randn(size, 2)[..., 0]
        assert torch.equal(run(x), add_to_a_slice(x))


@pytest.mark.parametrize("loss", [F.smooth_l1_loss, F.huber_loss])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_gradients_of_robust_losses_keep_nan(loss: Callable[..., Any], reduction: str) -> None:
    x = torch.tensor([1.0, float("nan"), -3.0, 0.5, 9.0], requires_grad=True)
    target = torch.tensor([0.5, 1.0, 2.0, 0.5, 1.0])

    def run(x: Any) -> Any:
        return loss(x, target, reduction=reduction)

    found, expected = (torch.autograd.grad(each(x), x)[0] for each in (compiled(run), run))
    torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_bernoulli_draws_what_eager_draws(dtype: torch.dtype) -> None:
    x = torch.randn(40, dtype=dtype)

    def run(x: Any) -> Any:
        return torch.bernoulli(x.sigmoid())

    found: list[tuple[Any, Any]] = []
    for each in (compiled(run), run):
        torch.manual_seed(3)
        found.append((each(x), torch.rand(4)))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


@pytest.mark.parametrize("value", [2.5, torch.tensor(-1.5)], ids=["number", "tensor"])
@pytest.mark.parametrize("index", [[-1], [0, -2, 1], [], 1], ids=str)
def test_index_fill_counts_from_the_end(index: Any, value: Any) -> None:
    def program(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return x.index_fill(1, places, value) + x.index_fill(-2, places, value)

    compiled = torch.compile(program, backend="intaglio", options={"engine": "reference"}, dynamic=True)
    for size in (2, 5):
        x, places = torch.randn(size, 3), torch.tensor(index, dtype=torch.int64)
        torch.testing.assert_close(compiled(x, places), program(x, places), rtol=0, atol=0)
    with pytest.raises(Exception, match=r"out of range|out of bounds"):
        compiled(torch.randn(2, 3), torch.tensor([-4]))


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("is_truth", [False, True])
@pytest.mark.parametrize("shape", ["q1", "1k", "qk", "11", "b1q1", "bh1k"])
def test_masks_of_attention_are_broadcast(shape: str, is_truth: bool, engine: str) -> None:
    def program(q: Any, k: Any, mask: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, k, attn_mask=mask)

    run = torch.compile(program, backend=backend, options={"engine": engine}, dynamic=True)
    for rows, keys in ((3, 4), (2, 5)):
        sizes = {"b": 2, "h": 3, "q": rows, "k": keys, "1": 1}
        q, k = torch.randn(2, 3, rows, 8), torch.randn(2, 3, keys, 8)
        mask = torch.rand([sizes[letter] for letter in shape])
        mask = mask > 0.3 if is_truth else mask
        torch.testing.assert_close(run(q, k, mask), program(q, k, mask), equal_nan=True)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_truth_values_that_are_read_off_tensors(engine: str) -> None:
    def program(a: Any, x: Any) -> Any:
        return x * int(a.any().item())

    run = compiled(program, engine)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for size in (3, 4):
            x = torch.randn(size)
            for a in (torch.tensor([True, False]), torch.tensor([False, False])):
                assert torch.equal(run(a, x), program(a, x))


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_copy_and_its_view_that_is_written_to_share_memory(engine: str) -> None:
    def program(a: Any) -> Any:
        flat = a.sin().split(2, -2)[-1].flatten()
        same = flat.view_as(flat)
        same[0:] = same[:]
        return flat, same

    a = torch.randn(2, 7, 4)
    with torch.no_grad():
        found, expected = compiled(program, engine)(a), program(a)
    assert found[0].data_ptr() == found[1].data_ptr()
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("scale", [None, 0.3])
def test_attention_in_double_precision_has_its_scale_in_double(scale: float | None) -> None:
    def program(q: Any) -> Any:
        return F.scaled_dot_product_attention(q, q, q, scale=scale)

    q = torch.randn(2, 3, 5, 7, dtype=torch.float64)
    torch.testing.assert_close(compiled(program)(q), program(q), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_results_in_another_order_are_no_views_to_autograd(engine: str, dtype: torch.dtype) -> None:
    run = compiled(torch.sin, engine)
    for _ in range(2):
        x = torch.randn(4, 3, dtype=dtype).t().requires_grad_()
        found, expected = run(x), torch.sin(x)
        assert found.stride() == expected.stride()
        assert not found._is_view()
        (mine,), (theirs,) = (torch.autograd.grad(each.mul_(2).sum(), x) for each in (found, expected))
        torch.testing.assert_close(mine, theirs)


def turned(*sizes: int) -> torch.Tensor:
    """A tensor whose axes lie in memory in the opposite order."""
    return torch.randn(*reversed(sizes)).permute(*reversed(range(len(sizes))))


LAID: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "logsigmoid": (F.logsigmoid, turned(3, 4, 5)),
    "rrelu": (F.rrelu, turned(3, 4)),
    "rrelu in training": (lambda x: F.rrelu(x, training=True), turned(3, 4)),
    "batch norm": (lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4)), turned(3, 4, 5)),
    "batch norm in training": (lambda x: F.batch_norm(x, None, None, training=True), turned(3, 4, 5)),
    "channel shuffle": (lambda x: F.channel_shuffle(x, 2), turned(6, 6, 4, 3).permute(3, 2, 0, 1)),
    "quotient by a scalar": (lambda x: torch.div(x, torch.tensor(2.0), rounding_mode="floor"), turned(5, 3)),
    "whole quotient": (lambda x: x // torch.tensor(2), turned(5, 3)),
    "elements at places": (lambda x: torch.randn(9, 9)[x.long().abs() % 9], turned(2, 3, 4)),
    "elements at places behind an axis": (lambda x: x[:, (x[0, :2].abs() * 9).long() % 4], turned(3, 4, 5)),
    "elements at places of two axes": (
        lambda x: x[:, x[0].long() % 2, :, x[1].long() % 2],
        turned(2, 2, 5, 6)[:, :, :2],
    ),
    "truth of both": (lambda x: torch.logical_and(x[:, :1], x[0]), turned(10, 5, 4)),
    "powers of two": (lambda x: torch.ldexp(x[:, :1], x[0]), turned(10, 5, 4)),
    "sums in logarithms": (lambda x: torch.logaddexp(x[:, :1], x[0]), turned(10, 5, 4)),
    "steps": (lambda x: torch.heaviside(x[:, :1], x[0]), turned(10, 5, 4)),
    "entropy": (lambda x: F.binary_cross_entropy(x.sigmoid(), torch.rand(4, 5), reduction="none"), turned(4, 5)),
    "losses of points": (
        lambda x: F.nll_loss(x, x[:, 0].long().abs() % 3, reduction="none"),
        turned(2, 3, 4, 5),
    ),
    "nearest points of lines": (lambda x: F.interpolate(x, size=3, mode="nearest-exact"), turned(2, 3, 4)),
    "places of volumes": (
        lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), [2, 2, 2]),
        torch.randn(2, 3, 4, 4, 4).to(memory_format=torch.channels_last_3d),
    ),
    "reflected volume": (
        lambda x: F.pad(x, (1,) * 6, mode="reflect"),
        torch.randn(3, 4, 5, 6).to(memory_format=torch.channels_last),
    ),
    "repeated edges of a volume": (
        lambda x: F.pad(x, (1,) * 6, mode="replicate"),
        torch.randn(3, 4, 5, 6).to(memory_format=torch.channels_last),
    ),
    "membership": (lambda x: torch.isin(x.int(), torch.tensor([1, 2])), turned(5, 3)),
    "sign of a scalar": (lambda x: torch.copysign(x, torch.tensor(-2.0)), turned(5, 3)),
    "quotient of two types": (lambda x: torch.div(x.contiguous().int(), x, rounding_mode="trunc"), turned(5, 3)),
}


@pytest.mark.parametrize("name", LAID)
def test_results_lie_in_memory_as_eager_has_them(name: str) -> None:
    program, x = LAID[name]
    found: list[Any] = []
    for run in (compiled(program), program):
        torch.manual_seed(0)
        found.append(run(x))
    torch.testing.assert_close(found[0], found[1])
    assert found[0].stride() == found[1].stride()


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_deviations_whose_squares_are_out_of_range(size: float, engine: str) -> None:
    def program(x: Any) -> Any:
        return x.std(0), x.std(correction=0), *torch.std_mean(x, 1, keepdim=True), x.bfloat16().std((0, 1))

    x = torch.randn(5, 7) * size
    torch.testing.assert_close(compiled(program, engine)(x), program(x), rtol=1e-5, atol=0)


def test_dropout_of_nothing_is_its_argument() -> None:
    x = torch.randn(0, 5).t()
    with torch.no_grad():
        assert compiled(lambda x: F.dropout(x, 0.9))(x) is x


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_functions_at_the_ends_of_their_range(engine: str) -> None:
    def program(x: Any) -> Any:
        return torch.lgamma(x), torch.polygamma(1, x.abs()), torch.cumprod(x, 0)

    x = torch.tensor([2.0, -1e-30, 1e38, -3e38, 1e-20, -1e-10, 1e30, -3.00001, float("inf")])
    torch.testing.assert_close(compiled(program, engine)(x), program(x), rtol=1e-5, atol=1e-30, equal_nan=True)


@pytest.mark.parametrize("alpha", [float("nan"), float("inf"), -0.5])
def test_the_slope_of_elu_is_nothing_to_zero(alpha: float) -> None:
    def program(x: Any) -> Any:
        return F.elu(x, alpha), F.celu(x, alpha)

    x = torch.tensor([0.0, -0.0, -1.0, 1.0, float("nan"), float("inf"), float("-inf")])
    torch.testing.assert_close(compiled(program)(x), program(x), equal_nan=True)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_dropout_of_all_multiplies_by_zero(engine: str) -> None:
    x = torch.tensor([-1.0, 2.0, float("inf"), float("nan"), -0.0])
    found, expected = (run(x) for run in (compiled(lambda x: F.dropout(x, 1.0), engine), lambda x: F.dropout(x, 1.0)))
    torch.testing.assert_close(found, expected, equal_nan=True)
    numbers = [0, 1, 4]  # signs of NaN mean nothing
    assert torch.equal(found[numbers].signbit(), expected[numbers].signbit())


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_shuffled_channels_are_a_tensor_of_their_own(groups: int) -> None:
    def program(x: Any) -> Any:
        y = F.channel_shuffle(x, groups)
        return y, y.view(-1)

    x = torch.randn(2, 4, 3, 3)
    old = x.clone()
    found, flat = compiled(program)(x)
    assert torch.equal(found, F.channel_shuffle(x, groups))
    found.zero_()
    assert torch.equal(x, old)
    assert not flat.any()


def add_to_the_last_part(x: Any) -> Any:
    first = x.split([1, x.shape[0] - 1])[0] * 2
    first.split(2, 1)[-1][-1] += 2
    return first


def test_sizes_of_slices_that_an_assumption_settles() -> None:
    run = compiled(add_to_the_last_part, "native")
    for size in (9, 6, 2, 6):
        x = torch.randn(size, 3)
        assert torch.equal(run(x), add_to_the_last_part(x))


def write_to_a_row(t: Any) -> Any:
    t[0].zero_()
    return t * 2


def write_to_columns(t: Any) -> Any:
    t[:, 1:2] = 7
    return t * 2


def write_to_the_diagonal(t: Any) -> Any:
    t.diagonal().zero_()
    return t * 2


@pytest.mark.parametrize("is_input", [False, True], ids=["inside", "input"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("write", [write_to_a_row, write_to_columns, write_to_the_diagonal])
def test_a_write_to_a_part_of_elements_that_share_memory(write: Any, dynamic: Any, is_input: bool) -> None:
    def program(a: Any, rows: int) -> Any:
        return write(a if is_input else a.as_strided((rows, 3), (1, 1)))

    run = torch.compile(program, backend=backend, options={"engine": "reference"}, dynamic=dynamic)
    for rows in (3, 5, 4):
        memories = [torch.arange(1.0, 41.0) for _ in range(2)]
        given = [each.as_strided((rows, 3), (1, 1)) if is_input else each for each in memories]
        assert torch.equal(run(given[0], rows), program(given[1], rows))
        assert torch.equal(*memories)


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_write_to_a_part_of_a_slice_is_ours(dynamic: Any) -> None:
    def program(a: Any) -> Any:
        left, right = a[:, : a.shape[1] // 2], a.split(2, 1)[1]
        left[0] = 3
        right[:, 1] = 4
        return left + 1, right + 1

    run = torch.compile(program, backend=backend, options={"engine": "reference", "fallback": False}, dynamic=dynamic)
    for sizes in ((4, 6), (5, 9), (3, 8)):
        given = [torch.ones(sizes), torch.ones(sizes)]
        torch.testing.assert_close(run(given[0]), program(given[1]), rtol=0, atol=0)
        assert torch.equal(*given)


def test_symbols_that_follow_from_sums_of_sizes() -> None:
    def program(a: Any, b: Any) -> Any:
        torch._dynamo.graph_break()
        return torch.cat([a, a, b], -1)

    run = torch.compile(program, backend=backend, options={"engine": "reference"}, dynamic=True)
    for rows, left, right in ((4, 4, 3), (2, 3, 5)):
        given = torch.randn(rows, left).requires_grad_(), torch.randn(rows, right).requires_grad_()
        weights = torch.randn(rows, 2 * left + right)
        found, expected = (torch.autograd.grad((each(*given) * weights).sum(), given) for each in (run, program))
        torch.testing.assert_close(found, expected)


class CountsCalls(torch.nn.Module):
    """A module whose graph breaks at its buffer, in front of an `isin`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = torch.nn.Buffer(torch.zeros(()))

    def forward(self, a: Any) -> Any:
        corner = a.narrow(0, 1, 1).as_strided((2, 2), (1, 1))
        self.calls += 1
        found = torch.isin(a.type_as(corner), torch.tensor([1, 2]))
        return found[-2, 0, 2 : found.shape[0] - 1].flip((0,))


def test_isin_behind_a_graph_break() -> None:
    run = torch.compile(CountsCalls(), backend=backend, options={"engine": "reference"}, dynamic=True)
    for size in (1, 5):
        a = torch.randint(-4, 9, (2, size, 4), dtype=torch.int8)
        assert torch.equal(run(a), CountsCalls()(a))


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize(
    "among", [torch.tensor([[1, 2], [5, -3]]), torch.tensor([0.5]), torch.arange(99), 3, []], ids=str
)
def test_isin(among: Any, invert: bool) -> None:
    def program(x: Any) -> Any:
        return torch.isin(x, torch.tensor(among) if isinstance(among, list) else among, invert=invert)

    run = torch.compile(program, backend=backend, options={"engine": "reference"}, dynamic=True)
    for shape in ((3, 4), (2, 5), ()):
        x = torch.randint(-4, 9, shape)
        assert torch.equal(run(x), program(x))


def test_bucketize_of_a_number() -> None:
    def program(x: Any) -> Any:
        return torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]), right=True)

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for x in (torch.tensor(0.0), torch.tensor(3.0), torch.randn(2, 3)):
            assert torch.equal(compiled(program)(x), program(x))


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_view_of_an_input_that_is_written_to_and_begins_inside_of_its_memory(engine: str, dynamic: Any) -> None:
    def program(a: Any) -> Any:
        first, second = a.chunk(2, 0)
        first[first > 0] = -2
        return second, a[1:].t()

    run = torch.compile(program, backend=backend, options={"engine": engine}, dynamic=dynamic)
    for rows in (6, 9, 7):
        given = [torch.linspace(-3.0, 5.0, rows * 4).reshape(rows, 4)[1:] for _ in range(2)]
        found, expected = run(given[0]), program(given[1])
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        assert torch.equal(*given)
        assert [each.storage_offset() for each in found] == [each.storage_offset() for each in expected]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("axes", [(0, 1, 3, 2), (0, 3, 1, 2), (3, 2, 1, 0)], ids=str)
def test_nearest_interpolation_lies_in_memory_as_in_eager(axes: Any, dynamic: Any) -> None:
    def program(x: Any) -> Any:
        return torch.nn.functional.interpolate(x, scale_factor=2, mode="nearest")

    run = torch.compile(program, backend=backend, options={"engine": "reference"}, dynamic=dynamic)
    for sizes in ((2, 3, 4, 5), (3, 4, 5, 2)):
        x = torch.randn(sizes).permute(axes)
        found, expected = run(x), program(x)
        assert found.stride() == expected.stride()
        assert torch.equal(found, expected)


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_tensor_resized_as_a_transposed_one_lies_in_memory_as_in_eager(dynamic: Any) -> None:
    def program(x: Any, like: Any) -> Any:
        return (x + 1).resize_as_(like)

    run = torch.compile(program, backend=backend, options={"engine": "reference"}, dynamic=dynamic)
    for rows, columns in ((3, 4), (2, 5)):
        x = torch.randn(rows, columns)
        for like in (torch.randn(columns, rows), torch.randn(rows, columns).t(), torch.randn(columns, rows).t()):
            found, expected = run(x, like), program(x, like)
            assert found.stride() == expected.stride()
            assert torch.equal(found, expected)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("alpha", [3, -0.1, 2.0, 0, 1e-3], ids=str)
def test_sums_with_a_factor_are_rounded_once(alpha: float, engine: str) -> None:
    def program(x: Any, y: Any) -> Any:
        return torch.add(x, y, alpha=alpha), torch.sub(y, x, alpha=alpha), torch.add(x, 0.3, alpha=alpha)

    y = torch.randn(400)
    x = torch.cat([-alpha * y[:200], torch.randn(200)])  # sums that nearly cancel show each rounding
    for found, expected in zip(compiled(program, engine)(x, y), program(x, y), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(2, 4, 0, 6), (0, 4, 4, 6)], ids=str)
def test_pixels_of_nothing_keep_their_shape(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    for function in (lambda x: F.pixel_unshuffle(x, 2), lambda x: F.pixel_shuffle(x, 2)):
        assert compiled(function)(x).shape == function(x).shape


def test_pools_whose_gradients_are_left_to_pytorch() -> None:
    def program(x: Any) -> Any:
        return F.avg_pool1d(x, 2, 1, ceil_mode=True)

    run = torch.compile(program, backend=backend, options={"engine": "reference"}, dynamic=True)
    for size in (7, 6):
        x = turned(4, 5, size).requires_grad_()
        (mine,), (theirs,) = (torch.autograd.grad(each(x).square().sum(), x) for each in (run, program))
        torch.testing.assert_close(mine, theirs)
