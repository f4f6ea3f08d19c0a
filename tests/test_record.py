"""Records are frozen dataclasses in everything but the time it takes to define one."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from typing import Any

import pytest

from intaglio.record import Record


class Place(Record):
    """A record."""

    name: str
    size: int = 3
    parts: list[int] = field(default_factory=list[int])
    note: str = field(default="", compare=False)


@dataclass(frozen=True)
class Twin:
    """The same as a dataclass."""

    name: str
    size: int = 3
    parts: list[int] = field(default_factory=list[int])
    note: str = field(default="", compare=False)


class Larger(Place):
    """A record that adds a field."""

    depth: int = 0


@pytest.mark.parametrize("arguments", [("a",), ("a", 4), ("a", 4, [1], "n")])
def test_like_a_dataclass(arguments: tuple[Any, ...]) -> None:
    mine, theirs = Place(*arguments), Twin(*arguments)
    assert asdict(mine) == asdict(theirs)
    assert repr(mine) == repr(theirs).replace("Twin", "Place")
    assert [each.name for each in fields(mine)] == [each.name for each in fields(theirs)]
    assert replace(mine, size=9).size == 9
    assert pickle.loads(pickle.dumps(mine)) == copy.copy(mine) == mine


def test_equality_is_of_class_and_compared_fields() -> None:
    assert Place("a", note="x") == Place("a", note="y")
    assert Place("a") != Place("b")
    assert Place("a") != Larger("a")
    assert hash(Larger("a", parts=())) == hash(Larger("a", parts=(), note="x"))  # pyright: ignore[reportArgumentType]
    assert Larger("a", depth=2) != Larger("a")


def test_frozen() -> None:
    place: Any = Place("a")
    with pytest.raises(FrozenInstanceError, match="size"):
        place.size = 1
    with pytest.raises(FrozenInstanceError, match="size"):
        del place.size


@pytest.mark.parametrize(
    ("values", "named", "message"),
    [
        ((), {}, "missing 'name'"),
        (("a",), {"depth": 1}, "no 'depth'"),
        (("a",), {"name": "b"}, "'name' twice"),
        (("a", 1, [], "", 5), {}, "4 fields and was given 5"),
    ],
)
def test_wrong_arguments(values: tuple[Any, ...], named: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Place(*values, **named)
