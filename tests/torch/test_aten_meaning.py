"""Single operators on special values and empty tensors, compiled, against PyTorch itself."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from intaglio import OperatorError  # noqa: E402

F = torch.nn.functional
INF, NAN = math.inf, math.nan
FLOATS = ("float32", "float64", "bfloat16", "float16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
TOLERANCE = {"float32": 2e-5, "float64": 1e-9, "bfloat16": 1.6e-2, "float16": 2e-3}
Functions = Mapping[str, Callable[..., Any]]

pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.filterwarnings("ignore:.*degrees of freedom:UserWarning", "ignore:index_reduce:UserWarning"),
]


def special(name: str) -> Any:
    """Zeros, halves, numbers near limits and beyond those of others, infinities and NaN."""
    dtype = getattr(torch, name)
    if name == "bool":
        return torch.tensor([True, False, True, False])
    if dtype.is_floating_point:
        small = [0.0, -0.0, 0.5, -0.5, 1, -1, 1.5, 2.5, -2.5, -3.5, 7.25, -7.25]
        return torch.tensor([*small, INF, -INF, NAN, 1e-30, 1e30, -1e30, 3e9, -3e9, 128, 255.7, 256]).to(dtype)
    limits = torch.iinfo(dtype)
    signed = [-1, -2, -3, -7, limits.min + 1] if limits.min else [200]
    return torch.tensor([0, 1, 2, 3, 5, 7, limits.max, *signed], dtype=dtype)


def pairs(left: str, right: str) -> tuple[Any, Any]:
    x, y = special(left), special(right)
    return x.repeat_interleave(len(y)), y.repeat(len(x))


def results(functions: Functions, *operands: Any) -> dict[str, Any]:
    """The results of all functions by name; several of one function are numbered."""
    found: dict[str, Any] = {}
    for name, function in functions.items():
        given = function(*operands)
        listed = list(given) if isinstance(given, (tuple, list)) else [given]
        found |= {f"{name}[{place}]": each for place, each in enumerate(listed)}
    return found


def difference(found: Any, expected: Any) -> str:
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return f"{found.dtype}{list(found.shape)}, expected {expected.dtype}{list(expected.shape)}"
    if expected.is_floating_point():
        tolerance = TOLERANCE[str(expected.dtype).removeprefix("torch.")]
        is_same = torch.isclose(found.double(), expected.double(), rtol=tolerance, atol=tolerance / 10, equal_nan=True)
    else:
        is_same = found == expected
    places = (~is_same).nonzero()[:3].tolist()
    return "; ".join(f"{found[tuple(p)].item()} at {p}, expected {expected[tuple(p)].item()}" for p in places)


def takes(function: Callable[..., Any], *operands: Any) -> bool:
    """Whether PyTorch itself has the operator for these types, and can trace it."""
    try:
        function(*operands)
        function(*[each.to("meta") for each in operands])
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
        return False
    return True


def check(
    functions: Functions, *operands: Any, engine: str = "reference", least: int = 1, dynamic: bool = False
) -> None:
    """Compile all functions as one graph, and compare each result with PyTorch's."""
    kept = {name: each for name, each in functions.items() if takes(each, *operands)}
    assert len(kept) >= least, sorted(kept)
    expected = results(kept, *operands)
    run = torch.compile(
        lambda *given: results(kept, *given), backend="intaglio", options={"engine": engine}, dynamic=dynamic
    )
    found = run(*operands)
    assert found.keys() == expected.keys()
    wrong = {name: text for name in expected if (text := difference(found[name], expected[name]))}
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())


def methods(*names: str) -> dict[str, Callable[..., Any]]:
    return {name: getattr(torch, name) for name in names}


def casts() -> dict[str, Callable[..., Any]]:
    """Conversions; what does not fit an integer is left to the processor, so only this one is known."""
    names = (*FLOATS, "bool", *INTEGERS) if platform.machine() == "x86_64" else (*FLOATS, "bool")
    return {f"to {name}": lambda x, name=name: x.to(getattr(torch, name)) for name in names}


UNARY: dict[str, Callable[..., Any]] = {
    **methods("abs", "neg", "sign", "sgn", "relu", "sigmoid", "exp", "log", "sqrt", "rsqrt", "tanh", "atan"),
    **methods("expm1", "log1p", "log2", "exp2", "floor", "ceil", "round", "trunc", "frac", "reciprocal", "square"),
    **methods("erf", "logical_not", "bitwise_not", "isnan", "isinf", "isfinite", "isposinf", "nan_to_num", "signbit"),
    **{name: getattr(F, name) for name in ("relu6", "silu", "elu", "hardtanh", "hardswish", "softplus", "softsign")},
    **{name: getattr(F, name) for name in ("leaky_relu", "hardsigmoid", "mish", "logsigmoid", "hardshrink")},
    **casts(),
    "clamp": lambda x: x.clamp(0, 2),
    "clamp, crossed": lambda x: x.clamp(2, 0),
    "clamp of fractions": lambda x: x.clamp(-1.5, 2.5),
    "clamp to nan": lambda x: x.clamp(max=NAN),
    "threshold": lambda x: F.threshold(x, 1, 20),
    "fill with a fraction": lambda x: x.clone().fill_(2.5),
    "copy of a number": lambda x: x.clone().copy_(0.5),
    "masked_fill": lambda x: x.masked_fill(x > 0, -1),
    "where": lambda x: torch.where(x > 0, x, 2.5),
    "any, elementwise": lambda x: x.any(dim=()),
    "all, elementwise": lambda x: x.all(dim=()),
}
for _number in (0, 1, 2, 3, -1, -2, 0.5, 2.5):
    UNARY[f"x ** {_number}"] = lambda x, n=_number: x if (x.dtype, abs(n)) == (torch.float16, 0.5) else x**n
    UNARY[f"{_number} ** x"] = lambda x, n=_number: n**x
for _number in (3, -3, 2.5, -2.5, INF):
    for _name in ("remainder", "fmod", "floor_divide", "div", "mul", "sub", "eq", "lt", "ge"):
        UNARY[f"{_name} {_number}"] = lambda x, n=_number, name=_name: getattr(torch, name)(x, n)
    UNARY[f"div down {_number}"] = lambda x, n=_number: torch.div(x, n, rounding_mode="floor")
    UNARY[f"div to zero {_number}"] = lambda x, n=_number: torch.div(x, n, rounding_mode="trunc")
    UNARY[f"{_number} - x"] = lambda x, n=_number: n - x
for _number in (300, -1, 0.5):
    UNARY[f"add {_number}"] = lambda x, n=_number: x + n
    UNARY[f"gt {_number}"] = lambda x, n=_number: x > n
for _number in (0, 1, 7, 31, 40, 63, 64, -1):
    UNARY[f"x << {_number}"] = lambda x, n=_number: x << n
    UNARY[f"x >> {_number}"] = lambda x, n=_number: x >> n


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_one_operand(dtype: str) -> None:
    check(UNARY, special(dtype), least=40)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_one_operand_in_compiled_code(dtype: str) -> None:
    check(UNARY, special(dtype), engine="native", least=40)


BINARY: dict[str, Callable[..., Any]] = {
    **methods("add", "sub", "mul", "div", "maximum", "minimum", "fmax", "fmin", "atan2", "logaddexp", "eq", "ne", "lt"),
    **methods("logical_and", "logical_xor", "bitwise_and", "bitwise_xor", "heaviside", "xlogy", "copysign", "pow"),
    **methods("hypot", "gcd", "lcm", "nextafter", "bitwise_left_shift", "bitwise_right_shift", "isclose"),
    "where": lambda x, y: torch.where(x > y, x, y),
    "a number for a condition": lambda x, y: torch.where(x.bool(), x, y),
    "x + 3 y": lambda x, y: torch.add(x, y, alpha=3),
    "addcmul": lambda x, y: torch.addcmul(x, x, y),
    "addcmul, half of it": lambda x, y: torch.addcmul(x, x, y, value=0.5),
    "x plus an element of y": lambda x, y: x + y[3],
    "clamp between tensors": lambda x, y: torch.clamp(x, y, y + 1),
    "cat": lambda x, y: torch.cat([x, y]),
    "x += y": lambda x, y: x.clone().add_(y),
    "copy": lambda x, y: x.clone().copy_(y) if x.is_floating_point() or not y.is_floating_point() else x,
    "isclose with nan": lambda x, y: torch.isclose(x, y, equal_nan=True),
}
MIXED = [("float32", "int64"), ("int64", "float32"), ("bool", "int64"), ("uint8", "int8"), ("bfloat16", "float32")]
SAME = [(each, each) for each in ("float32", "float64", "bfloat16", "int64", "int32", "uint8", "bool")]


@pytest.mark.parametrize(("left", "right"), [*SAME, *MIXED])
def test_two_operands(left: str, right: str) -> None:
    check(BINARY, *pairs(left, right), least=15)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_two_operands_in_compiled_code(dtype: str) -> None:
    check(BINARY, *pairs(dtype, dtype), engine="native", least=15)


DIVISIONS: dict[str, Callable[..., Any]] = {
    **methods("floor_divide", "remainder", "fmod"),
    "div down": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "div to zero": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
}


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "int8", "uint8"])
def test_divisions_that_round(dtype: str, engine: str) -> None:
    x, y = pairs(dtype, dtype)
    is_tame = (y != 0) & (x.abs() < 1e9 if x.is_floating_point() else True) & (y.abs() != torch.tensor(1e-30).to(y))
    check(DIVISIONS, x[is_tame], y[is_tame], engine=engine, least=5)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    f"{name} of {axis}": lambda x, name=name, axis=axis: getattr(torch, name)(x, dim=axis)
    for name in ("sum", "mean", "prod", "any", "all", "amax", "amin", "argmax", "argmin", "max", "min", "logsumexp")
    for axis in (0, 1)
}
REDUCTIONS |= {
    f"{name} of all": lambda x, name=name: getattr(torch, name)(x)
    for name in ("sum", "mean", "prod", "any", "all", "amax", "max", "min", "argmax", "count_nonzero", "median")
}
REDUCTIONS |= {
    f"{name} along {axis}": lambda x, name=name, axis=axis: getattr(torch, name)(x, dim=axis)
    for name in ("cumsum", "cumprod", "softmax", "cummax", "cummin", "logcumsumexp", "nansum", "nanmean")
    for axis in (0, 1)
}
REDUCTIONS |= {
    "sum as int8": lambda x: x.sum(1, dtype=torch.int8),
    "var": lambda x: x.nan_to_num(1, 2, 3).clamp(-100, 100).var(1),
    "var without correction": lambda x: x.nan_to_num(1, 2, 3).clamp(-100, 100).var(1, correction=0),
    "var of one too few": lambda x: x.nan_to_num(1, 2, 3).clamp(-100, 100).var(1, correction=5),
    "log_softmax": lambda x: x.log_softmax(1, dtype=torch.float32),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=1),
    "greatest norm": lambda x: torch.linalg.vector_norm(x, INF, dim=1),
    "sort": lambda x: x.sort(1, stable=True),
    "sort downwards": lambda x: x.sort(0, descending=True, stable=True),
    "median along 1": lambda x: x.median(1).values,
    "nanmedian along 1": lambda x: x.nanmedian(1).values,
    "nanmedian": lambda x: x.nanmedian(),
    "kthvalue": lambda x: x.kthvalue(2, 1).values,
    "two largest": lambda x: x.topk(2, 1).values,
    "bucketize": lambda x: torch.bucketize(x, torch.arange(3, device=x.device)),
    "matmul": lambda x: x.nan_to_num(1, 2, 3).clamp(-100, 100) @ x.T.nan_to_num(1, 2, 3).clamp(-100, 100),
    "diff": lambda x: x.diff(dim=1),
}


def matrices(name: str) -> dict[str, Any]:
    values = special(name)
    width = len(values) // 2
    dtype = values.dtype
    found = {"special": values[: 2 * width].reshape(2, width), "one": values[1:2].reshape(1, 1)}
    found |= {str(shape): torch.zeros(shape, dtype=dtype) for shape in ((0, 3), (3, 0), (0, 0))}
    if dtype.is_floating_point:
        found["infinite"] = torch.tensor([[-INF, -INF], [INF, -INF], [INF, INF], [1, -INF], [NAN, 1]], dtype=dtype)
        found["finite"] = torch.tensor([[1, -2, 0.5], [3, 3, 3]], dtype=dtype)
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "int8", "uint8", "bool"])
def test_reductions(dtype: str) -> None:
    for x in matrices(dtype).values():
        check(REDUCTIONS, x, least=10)


@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_reductions_in_compiled_code(dtype: str) -> None:
    for name in ("special", "(3, 0)"):
        check(REDUCTIONS, matrices(dtype)[name], engine="native", least=10)


OPEN: dict[str, Callable[..., Any]] = {
    "scatter": lambda x, i: x.scatter_reduce(0, i, x, "mean", include_self=False),
    "index_reduce": lambda x, i: x.index_reduce(0, i[:, 0], x, "amax"),
    "index_add": lambda x, i: x.index_add(0, i[:, 0], x, alpha=2),
    "put": lambda x, i: x.put(i, x),
    "masked_scatter": lambda x, i: x.masked_scatter(i > 0, x),
    "diagonal_scatter": lambda x, i: x.diagonal_scatter(x[:, 0]),
    "as_strided": lambda x, i: x.as_strided((2, 2), (1, 2)),
    "searchsorted": lambda x, i: torch.searchsorted(x.sort(1).values, x),
    "mode": lambda x, i: x.mode(1).values,
    "kthvalue": lambda x, i: x.kthvalue(2, 0).values,
    "cdist": lambda x, i: torch.cdist(x, x, p=1.5),
    "pdist": lambda x, i: F.pdist(x),
    "bilinear": lambda x, i: F.bilinear(x, x, x[None, :, :].expand(2, -1, -1)[:, : x.shape[1]].clone()),
    "convolution": lambda x, i: F.conv1d(i[None], i[:, None, :2].clone(), groups=1, padding=1),
    "transposed convolution": lambda x, i: F.conv_transpose1d(i[None], i[:, None, :2].clone(), stride=2),
    "mean pool": lambda x, i: F.avg_pool1d(i[None], 2, padding=1),
    "adaptive mean": lambda x, i: F.adaptive_avg_pool1d(x[None], 3),
    "adaptive maximum": lambda x, i: F.adaptive_max_pool1d(x[None], 3),
    "negative pads": lambda x, i: F.pad(x[None], (1, -1), mode="replicate"),
    "polynomial": lambda x, i: torch.special.legendre_polynomial_p(x, i),
    "gcd": lambda x, i: torch.gcd(i, i + 4),
    "zeta": lambda x, i: torch.special.zeta(x.abs() + 2, i + 1),
    "erfc": lambda x, i: torch.erfc(x),
    "nextafter": lambda x, i: torch.nextafter(x, x + 1),
}


@pytest.mark.parametrize("is_open", [False, True])
def test_sizes_that_are_open(is_open: bool) -> None:
    torch.manual_seed(0)
    x, index = torch.randn(4, 4), torch.randint(0, 4, (4, 4))
    check(OPEN, x, index, least=20, dynamic=is_open)


def test_reductions_along_open_sizes() -> None:
    for name in ("finite", "(3, 0)"):
        check(REDUCTIONS, matrices("float32")[name], least=10, dynamic=True)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("is_truth", [True, False])
def test_attention_to_nothing(is_truth: bool, engine: str) -> None:
    torch.manual_seed(0)
    seen = torch.tensor([[True, True, False], [False, False, False], [True, False, True]])
    mask = seen if is_truth else torch.where(seen, 0.5, -INF)

    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    given = [torch.randn(1, 2, 3, 4) for _ in range(3)]
    found = []
    for run in (attend, torch.compile(attend, backend="intaglio", options={"engine": engine})):
        leaves = [each.clone().requires_grad_() for each in given]
        output = run(*leaves)
        output.square().sum().backward()
        found.append([output.detach(), *(leaf.grad for leaf in leaves), run(*given)])
    for mine, theirs in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    assert not found[1][0][0, 0, 1].any()


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_integers_that_are_negative(engine: str) -> None:
    def step(x: Any, n: int) -> Any:
        return x * n + (n - 2) + x.shape[0], x / (n * 0.5), x.roll(n, 0)

    run = torch.compile(step, backend="intaglio", options={"engine": engine}, dynamic=True)
    x = torch.arange(6.0).reshape(3, 2)
    for n in (3, -3, -1, 5):
        for mine, theirs in zip(run(x, n), step(x, n), strict=True):
            torch.testing.assert_close(mine, theirs)


INDEXED: dict[str, Callable[..., Any]] = {
    "embedding": lambda x, i: F.embedding(i, x),
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "scatter": lambda x, i: x.scatter(0, i[:, None], 1.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i[:, None], x[:1]),
    "index_add": lambda x, i: x.index_add(0, i, x[:1]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:1]),
    "nll_loss": lambda x, i: F.nll_loss(x[:1], i),
    "index": lambda x, i: x[i],
    "take": lambda x, i: x.take(i),
    "put": lambda x, i: x.put(i, x[0, :1]),
}


@pytest.mark.parametrize("name", INDEXED)
def test_indices_out_of_range_raise(name: str) -> None:
    function, x = INDEXED[name], torch.arange(12.0).reshape(4, 3)
    run = torch.compile(function, backend="intaglio", options={"engine": "reference"})
    for place in (0, 2, -1, -13, 12):
        index = torch.tensor([place])
        if takes(function, x, index):
            torch.testing.assert_close(run(x, index), function(x, index))
        else:
            with pytest.raises((IndexError, RuntimeError, OperatorError)):
                run(x, index)
