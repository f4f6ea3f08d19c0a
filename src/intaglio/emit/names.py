"""Names for exported source: those of the model as far as a language allows, each used once.

A model is untrusted data, and its names may be anything: quotes, line breaks, keywords, 10,000 characters. Whatever
goes into source passes through here or is printed as a literal by `ascii`.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

LONGEST = 60
"""Identifiers are cut to so many characters."""

SHOWN = 100
"""Text of a model in a comment is cut to so many characters."""


def identifier(text: str, fallback: str = "value") -> str:
    """An identifier of ASCII letters, digits and underscores that keeps what it can of a text.

    >>> identifier("encoder.layer.0/MatMul"), identifier("3x"), identifier("lambda"), identifier("é")
    ('encoder_layer_0_MatMul', 'value_3x', 'lambda_', 'value')
    """
    plain = re.sub(r"[^0-9A-Za-z]+", "_", text[: 4 * LONGEST])[:LONGEST].strip("_")
    if not plain:
        return fallback
    if plain[0].isdigit():
        plain = f"{fallback}_{plain}"
    return f"{plain}_" if keyword.iskeyword(plain) or keyword.issoftkeyword(plain) else plain


def class_name(text: str, fallback: str = "Block") -> str:
    """A class name in capitals and small letters.

    >>> class_name("torch.nn.modules.linear.Linear"), class_name("layer1")
    ('Linear', 'Layer1')
    """
    words = identifier(text.rpartition(".")[2], fallback).split("_")
    joined = "".join(word[:1].upper() + word[1:] for word in words)
    is_plain = joined[:1].isalpha() and not keyword.iskeyword(joined)
    return joined if is_plain else f"{fallback}{joined}"


class Names:
    """Names that are taken, those of Python's own functions included, and the giving of new ones."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken = set(reserved) | set(dir(builtins))

    def give(self, name: str) -> str:
        """The identifier itself, or with a number behind it where it is taken."""
        found, number = name, 1
        while found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found

    def copy(self) -> Names:
        """The same names, for a part that does not see the names of its neighbours."""
        return Names(self._taken)


def comment(text: str) -> str:
    """A text of the model for a comment or docstring: one line of printable ASCII without quotes and backslashes.

    >>> comment("a\\nimport os")
    'a?import os'
    """
    shown = "".join(char if " " <= char <= "~" and char not in "\"'\\`" else "?" for char in text[: SHOWN + 1])
    return shown if len(text) <= SHOWN else f"{shown[:SHOWN]}..."


_PLAIN_KEY = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.:/+\- ]{0,199}")


class Keys:
    """Names of tensors in a file of weights: those of the model, unless a reader could stumble over them."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def give(self, name: str) -> str:
        """The name itself where it is plain and not taken, else one like it."""
        is_plain = _PLAIN_KEY.fullmatch(name) is not None and ".." not in name and "//" not in name
        base = name if is_plain else identifier(name, "tensor")
        found, number = base, 1
        while found in self._taken:
            number += 1
            found = f"{base}_{number}"
        self._taken.add(found)
        return found
