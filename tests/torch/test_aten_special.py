"""Special functions, polynomials and neighbours of numbers over wide ranges, against PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from intaglio.torch.decompositions import decompositions  # noqa: E402
from intaglio.torch.opinfo import run_graph  # noqa: E402

S = torch.special


def translated(function: Callable[..., Any], *operands: Any, engine: str = "reference") -> list[Any]:
    """What our operators make of a function; raises where one is refused."""
    traced = make_fx(
        lambda *given: torch.utils._pytree.tree_leaves(function(*given)),
        decomposition_table=decompositions(),
        tracing_mode="fake",
    )(*operands)
    return run_graph(traced, list(operands), engine)


def numbers(dtype: Any) -> Any:
    fine = torch.linspace(-6, 6, 241, dtype=torch.float64)
    far = torch.tensor([1e-30, 1e-5, 0.999999, 8.5, 9.5, 15.25, 26.5, 40.0, 300.0, 1e4, 1e10, math.inf, math.nan])
    return torch.cat([fine, far.double(), -far.double()]).to(dtype)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lgamma": torch.lgamma,
    "digamma": torch.digamma,
    "erfc": torch.erfc,
    "erfcx": S.erfcx,
    "i0": torch.i0,
    "i0e": S.i0e,
    "i1": S.i1,
    "i1e": S.i1e,
    "polygamma of 2": lambda x: torch.polygamma(2, x),
    "polygamma of 5": lambda x: torch.polygamma(5, x),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_number(name: str, dtype: Any) -> None:
    x = numbers(dtype)
    if name.startswith("polygamma"):
        x = x[(x > -40) & (x != x.trunc()) | (x > 0)]
    if name in ("lgamma", "digamma"):
        x = x[(x - x.round()).abs() > 1e-3]  # PyTorch loses digits beside the poles
        x = x[x > -100]
    expected = FUNCTIONS[name](x)
    relative = 3e-5 if dtype == torch.float32 else 1e-10
    least = torch.finfo(dtype).tiny / torch.finfo(dtype).eps
    absolute = relative if name in ("lgamma", "digamma") else float(least)
    (found,) = translated(FUNCTIONS[name], x)
    torch.testing.assert_close(found, expected, rtol=relative, atol=absolute, equal_nan=True)


def test_the_inverse_of_the_error_function() -> None:
    y = torch.cat([torch.linspace(-1, 1, 401, dtype=torch.float64), torch.tensor([1.5, math.nan, 1e-20, 1 - 1e-9])])
    (found,) = translated(torch.erfinv, y)
    torch.testing.assert_close(found, torch.erfinv(y), rtol=1e-7, atol=0, equal_nan=True)


def test_zeta() -> None:
    x, q = torch.meshgrid(
        torch.tensor([0.5, 1.0, 1.25, 2.0, 3.0, 4.5, 9.0, 40.0]).double(),
        torch.tensor([-7.5, -3.0, -0.5, 0.0, 0.25, 1.0, 8.75, 9.0, 20.0, 1e5, math.nan]).double(),
        indexing="ij",
    )
    (found,) = translated(S.zeta, x, q)
    torch.testing.assert_close(found, S.zeta(x, q), rtol=1e-9, atol=0, equal_nan=True)


POLYNOMIALS = (
    *(f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"),
    *("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"),
)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str) -> None:
    function = getattr(S, name)
    x, n = torch.meshgrid(torch.linspace(-2, 2, 17).double(), torch.arange(-2.0, 13.0).double(), indexing="ij")
    (found,) = translated(function, x, n)
    torch.testing.assert_close(found, function(x, n), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(translated(lambda x: function(x, 4), x)[0], function(x, 4), rtol=1e-9, atol=1e-9)


def test_polynomials_of_no_numbers() -> None:
    x = torch.zeros(0, 2)
    assert translated(S.legendre_polynomial_p, x, x)[0].shape == (0, 2)


@pytest.mark.parametrize("name", ["digamma", "i1e", "erfcx"])
def test_functions_in_compiled_code(name: str) -> None:
    x = torch.linspace(-3.3, 30, 40)
    (found,) = translated(FUNCTIONS[name], x, engine="native")
    torch.testing.assert_close(found, FUNCTIONS[name](x), rtol=3e-5, atol=1e-6)


def test_loops_in_compiled_code() -> None:
    x, n = torch.linspace(-1, 1, 12), torch.arange(12)
    torch.testing.assert_close(
        translated(S.hermite_polynomial_he, x, n, engine="native")[0], S.hermite_polynomial_he(x, n)
    )
    torch.testing.assert_close(translated(torch.gcd, n * 6, n + 3, engine="native")[0], torch.gcd(n * 6, n + 3))
    torch.testing.assert_close(translated(S.zeta, x + 3, x + 2, engine="native")[0], S.zeta(x + 3, x + 2))


def neighbours(dtype: Any) -> Any:
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, 1.5, math.inf, -math.inf, math.nan, 1e-38, 1e30]).to(dtype)
    return x.repeat_interleave(len(x)), x.repeat(len(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_neighbours_and_signs(dtype: Any) -> None:
    x, y = neighbours(dtype)
    for function in (torch.nextafter, torch.copysign):
        (found,) = translated(function, x, y)
        assert torch.equal(found.nan_to_num(7), function(x, y).nan_to_num(7)), function
    torch.testing.assert_close(translated(torch.hypot, x, y)[0], torch.hypot(x, y), equal_nan=True)
    assert torch.equal(translated(torch.signbit, x)[0], torch.signbit(x))
