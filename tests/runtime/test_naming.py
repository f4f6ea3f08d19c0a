"""Names for sizes: what is written is shorter and means the same."""

from __future__ import annotations

import random

import pytest

from intaglio.ir.dim import Dim, ceildiv, floordiv, maximum, minimum, mod, symbol
from intaglio.ir.substitution import evaluate
from intaglio.runtime.model.naming import name_sizes

N, M = symbol("rows"), symbol("columns")


def sampled(generator: random.Random, count: int) -> list[Dim]:
    """Sizes that are made of those before them, as the layers of a network make them."""
    sizes: list[Dim] = [N, M]
    for _ in range(count):
        left, right = generator.choice(sizes[-4:]), generator.choice(sizes)
        number = generator.randint(1, 5)
        made = (
            floordiv(left + number, generator.randint(2, 4)),
            ceildiv(left, generator.randint(2, 4)) * number,
            maximum(left, right) + number,
            minimum(left + number, right * 2),
            left * number + right,
        )
        sizes.append(generator.choice(made))
    return sizes[2:]


@pytest.mark.parametrize("seed", range(40))
def test_names_mean_what_stood_there(seed: int) -> None:
    generator = random.Random(seed)
    sizes = sampled(generator, 10) * 2
    given = {"rows": generator.randint(0, 300), "columns": generator.randint(0, 300)}
    found = name_sizes(sizes, {})
    bindings = dict(given)
    for name, size in found.names.items():
        bindings[name] = evaluate(size, bindings)
    for size in sizes:
        assert evaluate(found.put(size), bindings) == evaluate(size, given)
        assert len(str(found.put(size))) <= max(len(str(size)), 20)
    some = name_sizes(sizes, {"rows": given["rows"]})
    bindings = {"columns": given["columns"]}
    for name, size in some.names.items():
        bindings[name] = evaluate(size, bindings)
    for size in sizes:
        assert evaluate(some.put(size), bindings) == evaluate(size, given)


def test_parts_that_come_again_are_named_although_no_size_is_one_of_them() -> None:
    half = floordiv(N + 1, 2)
    quarter = floordiv(half * 3, 4)
    found = name_sizes([half * 3, half * 5 + M, quarter * 2, quarter * 7], {})
    assert [str(size) for size in found.names.values()] == ["floordiv(rows + 1, 2)", "floordiv(3*s1, 4)"]
    assert str(found.put(quarter * half)) == "s1*s2"


def test_names_stand_for_nothing_below_zero() -> None:
    up, open_sign = ceildiv(N, 4), floordiv(N - M, 4)
    found = name_sizes([up * 3, up * 5 + M, open_sign + up, open_sign * 2], {})
    assert [str(size) for size in found.names.values()] == ["-floordiv(-rows, 4)"]
    assert str(found.put(up * 3)) == "3*s1"
    assert str(found.put(maximum(up * 3, M))) == "max(3*s1, columns)"


def test_names_that_the_model_has_are_left_to_it() -> None:
    half = floordiv(symbol("s1") * 7 - 100, 2)
    assert list(name_sizes([half, half], {}).names) == ["s2"]


def test_what_is_short_or_stands_once_keeps_standing() -> None:
    assert name_sizes([mod(symbol("n"), 2)] * 2, {}).names == {}
    assert name_sizes([floordiv(N - 1, 2)], {}).names == {}
