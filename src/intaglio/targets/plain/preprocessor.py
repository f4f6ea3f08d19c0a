"""C's preprocessor over the tokens of kernel files: every macro that a text defines stands for what it means.

Spaces, line breaks and comments are tokens too, so that what is left is laid out as its author wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Tokens = list[str]

_TOKEN = re.compile(r'/\*.*?\*/|"[^"\n]*"|\d[\w.]*|[A-Za-z_]\w*|##|\n|[^\S\n]+|.', re.DOTALL)
_DEFINE = re.compile(r"#define (\w+)(?:\(([^)]*)\))?[ \t]*(.*)", re.DOTALL)


@dataclass(frozen=True)
class Macro:
    """What a name stands for; with parameters, the name and a list of arguments."""

    body: tuple[str, ...]
    parameters: tuple[str, ...] | None = None


def tokens_of(text: str) -> Tokens:
    """The tokens of a text, which is what they are together.

    >>> tokens_of("x = a##1; /* of a */")
    ['x', ' ', '=', ' ', 'a', '##', '1', ';', ' ', '/* of a */']
    """
    return _TOKEN.findall(text)


def is_word(token: str) -> bool:
    """Whether a token is a name of C."""
    return token[0].isalpha() or token[0] == "_"


def is_space(token: str) -> bool:
    """Whether a token is space, a line break or a comment."""
    return token.isspace() or token.startswith("/*")


def preprocessed(text: str, given: Mapping[str, Macro] | None = None) -> Tokens:
    """The tokens of a text whose conditions are decided, with its macros and those that are given expanded.

    A comment in front of a definition, which is about the macro, goes with it; that which begins the text stays.
    """
    macros, found, pending = dict(given or {}), Tokens(), list[str]()
    for line in [*_lines(text), "#"]:
        if not line.startswith("#"):
            pending.append(line)
            continue
        tokens, definition = tokens_of("".join(pending)), _DEFINE.match(line.rstrip("\n"))
        found += expanded(tokens if definition is None else _without_comment(tokens, is_first=not found), macros)
        pending.clear()
        _obey(line, definition, macros)
    return found


def macros_of(text: str) -> dict[str, Macro]:
    """The macros that a text leaves behind."""
    macros = dict[str, Macro]()
    for line in _lines(text):
        _obey(line, _DEFINE.match(line.rstrip("\n")), macros)
    return macros


def _lines(text: str) -> list[str]:
    return re.sub(r"[ \t]*\\\n[ \t]*", " ", text).splitlines(keepends=True)


def _obey(line: str, definition: re.Match[str] | None, macros: dict[str, Macro]) -> None:
    """Define or forget a macro; other directives are about compilers, headers and files."""
    if definition is not None:
        names = None if definition[2] is None else tuple(re.findall(r"\w+", definition[2]))
        body = tokens_of(re.sub(r"/\*.*?\*/", "", definition[3]).strip())
        macros[definition[1]] = Macro(tuple(body), names)
    elif line.startswith("#undef "):
        macros.pop(line.split()[1], None)


def _without_comment(tokens: Tokens, *, is_first: bool) -> Tokens:
    """The tokens without a comment at their end, unless that is all there is so far."""
    end = len(tokens)
    while end and tokens[end - 1].isspace():
        end -= 1
    is_comment = end and tokens[end - 1].startswith("/*")
    return tokens if not is_comment or (is_first and end == 1) else tokens[: end - 1]


def expanded(tokens: Sequence[str], macros: Mapping[str, Macro], hidden: frozenset[str] = frozenset()) -> Tokens:
    """The tokens with what macros stand for in their place; no macro is expanded in its own expansion.

    >>> macros = {"TWICE": Macro(("x", "*", "2"), ("x",)), "N": Macro(("n",)), "": Macro(())}
    >>> "".join(expanded(tokens_of("TWICE(N) + TWICE"), macros))
    'n*2 + TWICE'
    """
    waiting = [(token, hidden) for token in reversed(tokens)]
    found = Tokens()
    while waiting:
        token, closed = waiting.pop()
        macro = None if token in closed else macros.get(token)
        if macro is None:
            found.append(token)
            continue
        if macro.parameters is None:
            body = list(macro.body)
            while not body and waiting and waiting[-1][0].isspace():
                waiting.pop()
        elif (arguments := _arguments(waiting)) is not None:
            body = _filled(macro, arguments, macros, closed)
        else:
            found.append(token)
            continue
        waiting += [(each, closed | {token}) for each in reversed(body)]
    return found


def _arguments(waiting: list[tuple[str, frozenset[str]]]) -> list[Tokens] | None:
    """Take the arguments that follow a macro's name; None where the name stands alone."""
    ahead = next((place for place, each in enumerate(reversed(waiting)) if not each[0].isspace()), None)
    if ahead is None or waiting[-1 - ahead][0] != "(":
        return None
    del waiting[len(waiting) - 1 - ahead :]
    items, depth = [Tokens()], 1
    while True:
        token, _ = waiting.pop()
        depth += (token == "(") - (token == ")")
        if depth == 0:
            return [tokens_of("".join(item).strip()) for item in items]
        if token == "," and depth == 1:
            items.append(Tokens())
        else:
            items[-1].append(token)


def _filled(macro: Macro, arguments: list[Tokens], macros: Mapping[str, Macro], closed: frozenset[str]) -> Tokens:
    """The body of a macro with arguments in the place of its parameters, names around `##` pasted together."""
    given = dict(zip(macro.parameters or (), arguments, strict=bool(macro.parameters)))
    found = Tokens()
    for place, token in enumerate(macro.body):
        if token == "##":
            continue
        if token not in given:
            part = [token]
        elif "##" in macro.body[max(0, place - 1) : place + 2]:
            part = given[token]
        else:
            part = expanded(given[token], macros, closed)
        if place and macro.body[place - 1] == "##" and found and part:
            found[-1] += part[0]
            part = part[1:]
        found += part
    return found


def identifiers(tokens: Sequence[str]) -> Iterator[str]:
    """The names of C among tokens."""
    return (token for token in tokens if is_word(token))
