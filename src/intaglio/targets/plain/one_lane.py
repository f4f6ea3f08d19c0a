"""Kernel files as plain C: the same file over vectors of one element, `kernels/kernel.h` in the place of C's own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from intaglio.errors import UnsupportedError
from intaglio.kernels.kernel import FileKernel, SourceKernel
from intaglio.targets.c.kernel_file import KERNEL_FOLDER, instance
from intaglio.targets.c.kernel_source import statements_file
from intaglio.targets.plain.expression import Helpers
from intaglio.targets.plain.preprocessor import Macro, Tokens, identifiers, is_space, is_word, preprocessed

PLAIN_FOLDER = Path(__file__).parent / "kernels"
"""What stands in the place of files that others include."""

_VECTORS = re.compile(r"(?:ig_|IG_(?!FUNCTION)|__builtin_|__attribute__|uint128_t)\w*")


def file_text(kernel: FileKernel | SourceKernel, name: str, helpers: Helpers) -> str:
    """A kernel's file as a C function under a name; raises UnsupportedError where vectors of one element do not do."""
    if isinstance(kernel, SourceKernel):
        tokens = preprocessed((PLAIN_FOLDER / "kernel.h").read_text(encoding="ascii") + statements_file(kernel))
    else:
        tokens = _file_tokens(kernel)
    if left := next((each for each in identifiers(tokens) if _VECTORS.fullmatch(each)), None):
        raise UnsupportedError(f"a kernel has no plain form: it uses {left}")
    about, *rest = tokens
    items = _used(list(_items(rest)))
    for each in identifiers([token for item in items for token in item]):
        helpers.ask(each)
    text = "".join(token.replace("IG_FUNCTION", name) for item in items for token in item).lstrip("\n")
    gap = "\n\n" if text.startswith("/*") else "\n"
    return about + gap + text


def _file_tokens(kernel: FileKernel) -> Tokens:
    """What is left of a kernel's file, in which buffers and sizes are known by their places."""
    own = instance(kernel, (PLAIN_FOLDER, KERNEL_FOLDER))
    places = [(f"IG_BUFFER_{each}", place) for place, each in enumerate(own.buffers)]
    places += [(f"IG_SIZE_{each}", place) for place, each in enumerate(own.sizes)]
    places += [(key[:-1], place) for key, place in places if key[-1] == "0" and key[:-1] not in dict(places)]
    return preprocessed(own.text, {key: Macro((str(place),)) for key, place in places})


def _items(tokens: Sequence[str]) -> Iterator[Tokens]:
    """What stands at the top of a file: each definition with the spaces and comments before it."""
    item, depth, is_open = Tokens(), 0, False
    for token in tokens:
        if token == "\n" and item[-2:] == ["\n", "\n"]:
            continue
        item.append(token)
        depth += (token in "({") - (token in ")}") if len(token) == 1 else 0
        is_open |= token == "{" and _is_function(item)
        if depth == 0 and (token == ";" or (token == "}" and is_open)):
            if not _is_struct(item):
                yield _without_unused(item) if is_open else item
            item, is_open = Tokens(), False
    yield item


def _is_struct(item: Tokens) -> bool:
    """Whether an item names the places of buffers or sizes, which are numbers by now."""
    return item[-2] in ("IG_FUNCTION_buffers", "IG_FUNCTION_sizes")


def _is_function(item: Tokens) -> bool:
    """Whether an item whose block was just opened is a function's."""
    return next((token for token in reversed(item[:-1]) if not is_space(token)), "") == ")"


def _without_unused(function: Tokens) -> Tokens:
    """A function without constants that nobody reads, which says of parameters that they are not used."""
    begin = next(place for place in range(len(function)) if function[place] == "{")
    head, body = function[:begin], _without_constants(function[begin:])
    used = set(identifiers(body))
    first = next(place for place, token in enumerate(head) if not is_space(token))
    if "IG_FUNCTION" in head:
        head[first:first] = ["static", " "]
    notes = [each for name in _parameters(head) if name not in used for each in ("\n", "    ", "(void)", name, ";")]
    return [*head, "{", *notes, *body[1:]]


def _parameters(head: Tokens) -> Iterator[str]:
    """The names of a function's parameters: the last word of each, the length of an array aside."""
    text = "".join(head[head.index("(") + 1 :]).strip()[:-1]
    words = (re.findall(r"\w+", each.split("[")[0]) for each in text.split(","))
    return (each[-1] for each in words if each[-1:] not in ([], ["void"]))


def _without_constants(body: Tokens) -> Tokens:
    """A function's body without the lines that only declare constants which nobody reads."""
    uses = Counter(identifiers(body))
    for place, token in enumerate(body):
        if token == "const" and body[place - 1].isspace() and body[place - 2] == "\n":
            statement = [*takewhile(lambda each: each not in (";", "{"), body[place:])]
            end = place + len(statement)
            names = [name for name in _declared(statement) if uses[name] > 1]
            if body[end] == ";" and body[end + 1] == "\n" and not names:
                return _without_constants([*body[: place - 1], *body[end + 2 :]])
    return body


def _declared(statement: Tokens) -> Iterator[str]:
    """The names that a declaration of constants gives values."""
    depth, word = 0, ""
    for token in statement:
        depth += (token in "([") - (token in ")]") if len(token) == 1 else 0
        if depth == 0 and token == "=" and word:
            yield word
            word = ""
        elif depth == 0 and (is_word(token) or token == ","):
            word = token


def _used(items: list[Tokens]) -> list[Tokens]:
    """The items without inline functions that nobody calls."""
    uses = Counter(token for item in items for token in item)
    for place, item in enumerate(items):
        words = [token for token in takewhile(lambda each: each != "(", item) if not is_space(token)]
        if words[:2] == ["static", "inline"] and "{" in item and uses[words[-1]] == 1:
            return _used(items[:place] + items[place + 1 :])
    return items
