from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intaglio.errors import GraphError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir import dim_parse, substitution
from intaglio.ir.dim import Dim

NAMES = ("N", "M", "batch", "odd name", "d.0")
bindings_strategy = st.fixed_dictionaries({name: st.integers(0, 9) for name in NAMES})


class Term:
    """A dimension together with the same formula in plain Python."""

    def __init__(self, dim: Dim, compute) -> None:
        self.dim = dim
        self.compute = compute

    def __repr__(self) -> str:
        return f"Term({self.dim})"


def _number(value: int) -> Term:
    return Term(value, lambda _: value)


def _symbol(name: str) -> Term:
    return Term(dims.symbol(name), lambda bindings: bindings[name])


def _combine(drawn: tuple[str, Term, Term]) -> Term:
    name, a, b = drawn
    dim_function, function = {
        "add": (lambda x, y: x + y, lambda x, y: x + y),
        "sub": (lambda x, y: x - y, lambda x, y: x - y),
        "mul": (lambda x, y: x * y, lambda x, y: x * y),
        "min": (dims.minimum, min),
        "max": (dims.maximum, max),
    }[name]
    return Term(dim_function(a.dim, b.dim), lambda bindings: function(a.compute(bindings), b.compute(bindings)))


def _divide(drawn: tuple[str, Term, int]) -> Term:
    name, a, divisor = drawn
    dim_function, function = {
        "floordiv": (dims.floordiv, lambda x, y: x // y),
        "mod": (dims.mod, lambda x, y: x % y),
        "ceildiv": (dims.ceildiv, lambda x, y: -(-x // y)),
    }[name]
    return Term(dim_function(a.dim, divisor), lambda bindings: function(a.compute(bindings), divisor))


def _extend(terms):
    return st.one_of(
        st.tuples(st.sampled_from(["add", "sub", "mul", "min", "max"]), terms, terms).map(_combine),
        st.tuples(st.sampled_from(["floordiv", "mod", "ceildiv"]), terms, st.integers(1, 6)).map(_divide),
    )


terms_strategy = st.recursive(
    st.one_of(st.integers(-4, 6).map(_number), st.sampled_from(NAMES).map(_symbol)), _extend, max_leaves=6
)


@given(terms_strategy, bindings_strategy)
def test_value_is_that_of_python_integers(term: Term, bindings: dict[str, int]) -> None:
    assert substitution.evaluate(term.dim, bindings) == term.compute(bindings)


@given(terms_strategy)
def test_text_round_trip(term: Term) -> None:
    assert dim_parse.parse(str(term.dim)) == term.dim


@given(terms_strategy, bindings_strategy)
def test_bounds_are_sound(term: Term, bindings: dict[str, int]) -> None:
    low, high = dims.bounds(term.dim)
    value = term.compute(bindings)
    assert low is None or low <= value
    assert high is None or value <= high


halves = st.tuples(st.sampled_from(NAMES), st.integers(-3, 3), st.integers(1, 3), st.integers(-1, 2))


@given(st.lists(halves, min_size=2, max_size=4), st.lists(terms_strategy, max_size=1), bindings_strategy)
def test_products_of_what_may_be_negative_have_sound_bounds(
    factors: list[tuple[str, int, int, int]], more: list[Term], bindings: dict[str, int]
) -> None:
    """As sizes behind strided convolutions are: (N - 1) // 2 + 1."""
    found = [dims.floordiv(dims.symbol(name) + less, by) + plus for name, less, by, plus in factors]
    value = dims.product(found) + sum((term.dim for term in more), 0)
    low, high = dims.bounds(value)
    number = substitution.evaluate(value, bindings)
    assert low is None or low <= number
    assert high is None or number <= high
    if not more and all((less // by) + plus >= 0 for _, less, by, plus in factors):
        assert low is not None
        assert low >= 0


@given(terms_strategy, terms_strategy, bindings_strategy)
def test_compare_is_sound(left: Term, right: Term, bindings: dict[str, int]) -> None:
    answer = dims.compare(left.dim, right.dim)
    a, b = left.compute(bindings), right.compute(bindings)
    assert answer is None or answer == (a > b) - (a < b)


@given(terms_strategy, terms_strategy)
def test_equal_differences_are_equal(left: Term, right: Term) -> None:
    assert (left.dim + right.dim) - right.dim == left.dim
    assert left.dim * right.dim == right.dim * left.dim
    assert hash(left.dim + right.dim) == hash(right.dim + left.dim)


@given(terms_strategy, bindings_strategy)
def test_substitution_in_two_steps(term: Term, bindings: dict[str, int]) -> None:
    half = substitution.substitute(term.dim, {"N": bindings["N"], "batch": bindings["batch"]})
    assert substitution.evaluate(half, bindings) == term.compute(bindings)
    assert not dims.symbols(half) & {"N", "batch"}


def test_comparison_operators_raise_where_symbols_decide() -> None:
    n = dims.symbol("N")
    assert n + 1 > n
    assert n >= 0
    with pytest.raises(dims.UndecidableError, match="N < 3"):
        _ = n < 3
    with pytest.raises(dims.UndecidableError):
        bool(n)
    with pytest.raises(dims.UndecidableError):
        range(n)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [("N", 1, "N"), (1, "N", "N"), ("N", "N", "N"), ("N", 5, 5), ("M", "N", "broadcast(M, N)"), (4, 4, 4)],
)
def test_broadcast(left: str | int, right: str | int, expected: str | int) -> None:
    assert dims.broadcast(dim_parse.parse(str(left)), dim_parse.parse(str(right))) == dim_parse.parse(str(expected))


@pytest.mark.parametrize("most", range(4))
def test_broadcast_of_a_size_with_itself_cut(most: int) -> None:
    """Positions that are cut from a table are added to as many tokens: the sum is as long as the tokens."""
    whole = dims.symbol("N")
    found = dims.broadcast(dims.minimum(most, whole), whole)
    assert found == dims.broadcast(whole, dims.minimum(most, whole))
    assert (found == whole) == (most > 0)
    for number in range(6):
        try:
            expected = dims.broadcast(min(most, number), number)
        except ShapeError:
            continue
        assert substitution.evaluate(found, {"N": number}) == expected


def test_broadcast_of_different_numbers_is_an_error() -> None:
    with pytest.raises(ShapeError, match="3 and 4"):
        dims.broadcast(3, 4)


def test_unbound_symbol_is_named() -> None:
    with pytest.raises(GraphError, match="value for M"):
        substitution.evaluate(dim_parse.parse("N*M"), {"N": 2})


@pytest.mark.parametrize("text", ["N +", "f(N, M)", "N ** 2", "min(N)", "1.5", "[1]", "__import__('os')"])
def test_text_that_is_no_dimension(text: str) -> None:
    with pytest.raises(GraphError, match="not a dimension"):
        dim_parse.parse(text)


def test_division_by_zero_is_an_error() -> None:
    for function in (dims.floordiv, dims.mod):
        with pytest.raises(ShapeError, match="zero"):
            function(dims.symbol("N"), 0)


def test_fresh_symbols_are_named_after_the_value() -> None:
    with dims.naming("nonzero"):
        names = [str(dims.fresh()), str(dims.fresh())]
    with dims.naming("nonzero"):
        assert [str(dims.fresh()), str(dims.fresh())] == names
    assert names == ["'nonzero.0'", "'nonzero.1'"]


def test_one_bound_of_a_single_term_is_kept() -> None:
    n = dims.symbol("N")
    assert dims.bounds(-dims.floordiv(-n, 2)) == (0, None)
    assert dims.bounds(dims.minimum(n - 5, 3)) == (-5, 3)
    assert dims.bounds(dims.maximum(-n, -4)) == (-4, 0)


def test_a_quotient_of_polynomials() -> None:
    n, m = dims.symbol("n"), dims.symbol("m")
    whole = n * m + n + m * 3 + 1
    assert dims.floordiv(whole * 8, whole * 2) == 4
    assert dims.floordiv(whole * (n * 2 + m), whole) == n * 2 + m
    assert str(dims.floordiv(whole * 8 + 1, whole * 2)).startswith("floordiv(")
    assert str(dims.floordiv(whole * 3, whole * 2)).startswith("floordiv(")


def _choose(drawn: tuple[str, Term, Term, Term, Term]) -> Term:
    name, a, b, yes, no = drawn
    compare, holds = {
        "less": (dims.less, lambda x, y: x < y),
        "at_most": (dims.at_most, lambda x, y: x <= y),
        "equal": (dims.equal, lambda x, y: x == y),
    }[name]
    condition = compare(a.dim, b.dim)
    return Term(
        dims.select(condition, yes.dim, no.dim) + condition,
        lambda bindings: (
            (yes if holds(a.compute(bindings), b.compute(bindings)) else no).compute(bindings)
            + holds(a.compute(bindings), b.compute(bindings))
        ),
    )


choices_strategy = st.tuples(
    st.sampled_from(["less", "at_most", "equal"]), terms_strategy, terms_strategy, terms_strategy, terms_strategy
).map(_choose)


@given(choices_strategy, bindings_strategy)
def test_choices_are_those_of_python(term: Term, bindings: dict[str, int]) -> None:
    value = term.compute(bindings)
    assert substitution.evaluate(term.dim, bindings) == value
    assert substitution.substitute(term.dim, bindings) == value
    assert dim_parse.parse(str(term.dim)) == term.dim
    half = substitution.substitute(term.dim, {"N": bindings["N"], "batch": bindings["batch"]})
    assert substitution.evaluate(half, bindings) == value
    low, high = dims.bounds(term.dim)
    assert low is None or low <= value
    assert high is None or value <= high


@given(terms_strategy, terms_strategy, bindings_strategy, st.integers(1, 64))
def test_quotients_by_sizes_and_threads(left: Term, right: Term, bindings: dict[str, int], threads: int) -> None:
    divisor = dims.maximum(right.dim, 1) * dims.THREADS
    number = max(right.compute(bindings), 1) * threads
    up = dims.ceildiv(left.dim, divisor)
    assert substitution.evaluate(up, bindings, threads) == -(-left.compute(bindings) // number)
    total, amount = dims.maximum(left.dim, 0), max(left.compute(bindings), 0)
    for size, each in ((divisor, number), (7, 7)):
        assert substitution.evaluate(dims.pieces(total, size), bindings, threads) == -(-amount // each)
    assert dim_parse.parse(str(up)) == up


def test_what_is_not_chosen_needs_no_value() -> None:
    n = dims.symbol("N")
    share = dims.select(dims.less(0, n), dims.floordiv(100, n), 7)
    assert [substitution.evaluate(share, {"N": size}) for size in (0, 1, 30)] == [7, 100, 3]
    assert [substitution.substitute(share, {"N": size}) for size in (0, 1, 30)] == [7, 100, 3]
    with pytest.raises(GraphError, match=r"threads\(\)"):
        substitution.evaluate(dims.THREADS + 1, {})
    assert not dims.symbols(dims.THREADS)
    assert dims.has_choice(share * 2 + 1)
    assert not dims.has_choice(dims.maximum(n, 3))
