"""Names of locals and attributes, given when all of a module is known.

While statements are written, each local is a mark that no model can spell. Then every mark gets the name that it asked
for. A name serves again as soon as nothing reads what it stood for.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Collection, Sequence

from intaglio.emit.names import Names, identifier
from intaglio.emit.torch.words import LIBRARY, RESERVED

_MARK = re.compile(r"\bat__(\d+)__\b")
_WORD = re.compile(r"(?<![.\w])[A-Za-z_]\w*")
_CALLED = re.compile(r" = self\.\w+(?:\[\d+\])?\(at__(\d+)__\b")
_ASSIGNED = re.compile(r"(\w+(?:, \w+)*) = (.*)", re.DOTALL)

_UNUSABLE = frozenset(dir(builtins)) | RESERVED


def plain(name: str, reserved: Collection[str] = LIBRARY.names) -> str:
    """A name with an underscore behind it where Python, PyTorch or the written module has it for something else.

    >>> plain("input"), plain("hidden"), plain("torch")
    ('input_', 'hidden', 'torch_')
    """
    is_taken = keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in _UNUSABLE or name in reserved
    return f"{name}_" if is_taken else name


class AttributeNames(Names):
    """Names of what a module holds: `type_` for one that every module has, `conv_2` for one that is taken."""

    def __init__(self, reserved: Collection[str]) -> None:
        super().__init__(reserved)
        self._reserved = frozenset(reserved)

    def give(self, name: str) -> str:
        """The name itself, or one like it where it is taken."""
        return super().give(plain(name, self._reserved))


class Marks(Names):
    """Marks for locals, and the names that they ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.wishes: list[str] = []

    def give(self, name: str) -> str:
        """A mark that asks for a name."""
        self.wishes.append(name)
        return f"at__{len(self.wishes) - 1}__"

    def copy(self) -> Marks:
        """The marks themselves: no two are alike, so that parts need none of their own."""
        return self

    def named(self, first: Sequence[str], statements: Sequence[Sequence[str]], last: Sequence[str]) -> Naming:
        """Names for all marks: parameters, the lines of each statement, and what is returned in the end."""
        return Naming(self.wishes, [first, *statements, last])


class Naming:
    """The name of each mark."""

    def __init__(self, wishes: Sequence[str], places: Sequence[Sequence[str]]) -> None:
        texts = ["\n".join(lines) for lines in places]
        found = [list(dict.fromkeys(int(number) for number in _MARK.findall(text))) for text in texts]
        ends = {mark: place for place, marks in enumerate(found) for mark in marks}
        self._names: dict[int, str] = {}
        free: dict[str, int] = {name: len(texts) for text in texts for name in _WORD.findall(text)}
        for place, marks in enumerate(found):
            targets = _targets(places[place])
            for mark in marks:
                if mark not in self._names:
                    wish = plain(identifier(wishes[mark]))
                    kept = self._kept(wish, texts[place]) if mark in targets else None
                    name = kept if kept in free and free[kept] <= place else None
                    name = name or _available(wish, place, mark in targets, free)
                    self._names[mark] = name
                    free[name] = max(ends[mark], place + 1) if mark in targets else ends[mark]

    def _kept(self, wish: str, text: str) -> str:
        """The name of what a module is called with, where its result asks for the same; else nothing."""
        call = _CALLED.search(text)
        given = "" if call is None else self._names.get(int(call[1]), "")
        return given if re.fullmatch(rf"{wish}(_\d+)?", given) else ""

    def text(self, text: str) -> str:
        """A text with names in place of marks."""
        return _MARK.sub(lambda match: self._names[int(match[1])], text)


def _targets(lines: Sequence[str]) -> set[int]:
    """The marks that a statement of one line assigns and does not read; none where it is longer."""
    found = _ASSIGNED.fullmatch(lines[0]) if len(lines) == 1 else None
    if found is None:
        return set()
    read = set(_MARK.findall(found[2]))
    return {int(number) for number in _MARK.findall(found[1]) if number not in read}


def _available(wish: str, place: int, is_target: bool, free: dict[str, int]) -> str:
    """The name, or one with a number, that nothing needs from a place on; a target may take one read there last."""
    name, number = wish, 1
    while free.get(name, -1) > place or (not is_target and free.get(name, -1) == place):
        number += 1
        name = f"{wish}_{number}"
    return name
