"""The text of kernels without macros, as a person would have written it for one instance."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DEFINE = re.compile(r"#define (\w+)(\(([^)]*)\))?(?:[ \t]+(.*))?$", re.DOTALL)
_STRUCT = re.compile(r"^typedef struct \{\n([^}]*)\} (\w+)_(buffers|sizes);\n\n?", re.MULTILINE)
_LAST_COMMENT = re.compile(r"(?:^|\n)/\*(?:(?!\*/).)*\*/\s*$", re.DOTALL)
_TOKEN = re.compile(r"/\*.*?\*/|\"[^\"\n]*\"|\b[A-Za-z_]\w*\b", re.DOTALL)
_LIBRARY = re.compile(r"^(?:void|double|float) \*?\w+\([^{};]*\)(?:, \w+\([^{};]*\))*;\n", re.MULTILINE)

KEPT = frozenset({"INFINITY", "NAN"})
"""Macros of C's library, which headers define."""


@dataclass(frozen=True)
class _Macro:
    parameters: tuple[str, ...] | None
    body: str


def without_macros(text: str) -> str:
    """The text with every macro that it defines in place of its name, and places of buffers and sizes as numbers."""
    text = _without_names(text)
    macros: dict[str, _Macro] = {}
    found: list[str] = []
    chunk: list[str] = []
    for line in re.sub(r"[ \t]*\\\n[ \t]*", " ", text).splitlines(keepends=True):
        definition = _DEFINE.match(line.rstrip("\n"))
        if definition is None and not line.startswith("#undef "):
            chunk.append(line)
            continue
        text_before = "".join(chunk)
        if definition is not None and (found or macros):  # a comment on the macro; the first is on the kernel
            text_before = _LAST_COMMENT.sub("\n", text_before)
        found.append(_expanded(text_before, macros))
        chunk = []
        if definition is not None and definition[1] not in KEPT:
            names = None if definition[2] is None else tuple(re.findall(r"\w+", definition[3]))
            macros[definition[1]] = _Macro(names, re.sub(r"/\*.*?\*/", "", definition[4] or "").strip())
        elif definition is None:
            macros.pop(line.split()[1], None)
    plain = "".join([*found, _expanded("".join(chunk), macros)])
    return re.sub(r"\n{3,}", "\n\n", _LIBRARY.sub("", plain)).lstrip("\n")


def _without_names(text: str) -> str:
    """BUFFER(x) and SIZE(n) as places in the arrays of them, and without the structs that tell these."""
    places: dict[tuple[str, str], int] = {}
    for body, _, kind in _STRUCT.findall(text):
        declared = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
        if re.search(r"[\[#]", declared):  # arrays, whose places are told by their macros
            return text
        names = [
            name for each in re.findall(r"(?:void|int64_t)([^;]*);", declared) for name in re.findall(r"\w+", each)
        ]
        places.update(((kind, name), place) for place, name in enumerate(names))
    if not places:
        return text
    text = re.sub(r"^#define (?:SIZE|BUFFER)\(name\).*\n", "", _STRUCT.sub("", text), flags=re.MULTILINE)
    text = re.sub(r"\bBUFFER\((\w+)\)", lambda found: f"buffer[{places['buffers', found[1]]}]", text)
    return re.sub(r"\bSIZE\((\w+)\)", lambda found: f"size[{places['sizes', found[1]]}]", text)


def _expanded(text: str, macros: dict[str, _Macro], hidden: frozenset[str] = frozenset()) -> str:
    parts: list[str] = []
    place = 0
    while found := _TOKEN.search(text, place):
        name = found[0]
        macro = macros.get(name) if name not in hidden else None
        parts.append(text[place : found.start()])
        place = found.end()
        if macro is None:
            parts.append(name)
        elif macro.parameters is None:
            parts.append(_expanded(macro.body, macros, hidden | {name}))
            rest = text[place:]
            if parts[-1] in macros and rest.startswith("("):  # a name of a function, such as LOAD
                text, place = parts.pop() + rest, 0
        elif (call := re.match(r"\s*\(", text[place:])) is not None:
            end, arguments = split_arguments(text, place + call.end())
            parts.append(_applied(macro, arguments, macros, hidden | {name}))
            place = end
        else:
            parts.append(name)
    return "".join([*parts, text[place:]])


def _applied(macro: _Macro, arguments: list[str], macros: dict[str, _Macro], hidden: frozenset[str]) -> str:
    assert macro.parameters is not None
    given = dict(zip(macro.parameters, arguments, strict=True))
    whole = {name: _expanded(text, macros, hidden) for name, text in given.items()}
    pasted = re.sub(
        r"(\w+)\s*##\s*(\w+)", lambda found: given.get(found[1], found[1]) + given.get(found[2], found[2]), macro.body
    )
    if "##" in macro.body:
        return _expanded(pasted, macros, hidden)
    filled = re.sub(r"\b[A-Za-z_]\w*\b", lambda found: whole.get(found[0], found[0]), macro.body)
    return _expanded(filled, macros, hidden)


def split_arguments(text: str, start: int) -> tuple[int, list[str]]:
    """The arguments of a call whose parenthesis is open, and where it ends."""
    depth, items, begin, place = 1, list[str](), start, start
    while depth:
        character = text[place]
        depth += (character in "([{") - (character in ")]}")
        if (character == "," and depth == 1) or depth == 0:
            items.append(text[begin:place].strip())
            begin = place + 1
        place += 1
    return place, items
