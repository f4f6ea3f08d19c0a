"""`Record`: a frozen dataclass that costs next to nothing to define.

`dataclass` writes methods for each class and compiles them, a third of a millisecond for each; a process that only runs
a model would spend more time on that than on anything else. The methods of records are written once, here. They take a
microsecond longer to call, so what is made or compared in inner loops is better a dataclass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record:
    """The base of classes whose annotations are fields, as with `dataclass(frozen=True)`."""

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    _fields: ClassVar[dict[str, Field[Any]]] = {}
    _compared: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(init=False, repr=False, eq=False)(cls)
        cls._fields = {each.name: each for each in fields(cls)}
        cls._compared = tuple(name for name, each in cls._fields.items() if each.compare)
        for name, method in _METHODS.items():
            if name not in cls.__dict__:
                setattr(cls, name, method)

    def __post_init__(self) -> None:
        """Called when all fields are set."""


def _init(self: Record, /, *values: Any, **named: Any) -> None:
    if values:
        named = _by_name(self, values, named)
    state = self.__dict__
    for name, known in self._fields.items():  # pyright: ignore[reportPrivateUsage]
        if name in named:
            state[name] = named.pop(name)
        elif known.default is not MISSING:
            state[name] = known.default
        elif known.default_factory is not MISSING:
            state[name] = known.default_factory()
        else:
            raise TypeError(f"{type(self).__name__} is missing {name!r}")
    if named:
        raise TypeError(f"{type(self).__name__} has no {next(iter(named))!r}")
    self.__post_init__()


def _by_name(self: Record, values: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    names = list(self._fields)  # pyright: ignore[reportPrivateUsage]
    if len(values) > len(names):
        raise TypeError(f"{type(self).__name__} has {len(names)} fields and was given {len(values)}")
    given = dict(zip(names, values, strict=False))
    twice = given.keys() & named.keys()
    if twice:
        raise TypeError(f"{type(self).__name__} was given {min(twice)!r} twice")
    return given | named


def _set(self: Record, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: Record, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _key(self: Record) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name in self._compared])  # pyright: ignore[reportPrivateUsage]


def _equal(self: Record, other: object) -> bool:
    return _key(self) == _key(other) if isinstance(other, Record) and type(other) is type(self) else NotImplemented


def _hash(self: Record) -> int:
    return hash(_key(self))


def _repr(self: Record) -> str:
    listed = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)  # pyright: ignore[reportPrivateUsage]
    return f"{type(self).__qualname__}({listed})"


_METHODS: dict[str, Callable[..., Any]] = {
    "__init__": _init,
    "__setattr__": _set,
    "__delattr__": _delete,
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _repr,
}
"""Set on each class itself, so that they win over what a class inherits besides."""
