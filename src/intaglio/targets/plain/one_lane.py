"""Kernel files as plain C: the same file over vectors of one element, `kernels/kernel.h` in the place of C's own."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from intaglio.errors import UnsupportedError
from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node
from intaglio.kernels.kernel import FileKernel, Kernel, SourceBuffer, SourceKernel
from intaglio.kernels.language import LoopKernel
from intaglio.kernels.plan import Call, Operand
from intaglio.kernels.view import View
from intaglio.targets.c.kernel_file import Value, instance
from intaglio.targets.c.kernel_source import statements_file
from intaglio.targets.plain.expression import Helpers
from intaglio.targets.plain.preprocessor import (
    Macro,
    Tokens,
    expanded,
    identifiers,
    is_space,
    is_word,
    macros_of,
    preprocessed,
    tokens_of,
)
from intaglio.targets.plain.printing import wrapped

PLAIN_FOLDER = Path(__file__).parent / "kernels"
"""What stands in the place of files that others include."""

_VECTORS = re.compile(r"(?:ig_|IG_(?!FUNCTION)|__builtin_|__attribute__|uint128_t)\w*")


@dataclass(frozen=True)
class Signature:
    """A function that is called by its own parameters: what it computes, its buffers, and its sizes behind them."""

    about: str
    buffers: tuple[SourceBuffer, ...]
    sizes: tuple[str, ...]

    def head(self, name: str, known: Mapping[str, int], spaces: Mapping[int, str]) -> list[str]:
        """The function's head under a name; sizes that are known are no parameters.

        `spaces` names the memory of buffers, by their places, that do not lie where all others do.
        """
        given = [_declared(each, spaces.get(place, "")) for place, each in enumerate(self.buffers)]
        given += [f"int64_t {size}" for size in self.sizes if size not in known]
        return wrapped(f"static void {name}({', '.join(given)})")


@functools.lru_cache(maxsize=512)
def signature_of(kernel: FileKernel) -> Signature | None:
    """The parameters of a file's function; None where it takes arrays of buffers and sizes and a range of tasks."""
    about, *rest = _file_tokens(kernel)
    item = next(item for item in _items(rest) if "IG_FUNCTION" in item)
    buffers, sizes = list[SourceBuffer](), list[str]()
    for each in "".join(item[item.index("(") + 1 : item.index(")")]).split(","):
        *words, name = re.findall(r"\w+", each)
        if "*" in each:
            buffers.append(SourceBuffer(name, words[-1], words[0] != "const"))
        else:
            sizes.append(name)
    numbers = {key: Macro((str(value),)) for key, value in kernel.parameters}
    title = "".join(expanded(tokens_of(about[2:-2]), numbers)).strip()
    return None if sizes[:1] == ["begin"] else Signature(title, tuple(buffers), tuple(sizes))


def has_parameters(kernel: Kernel) -> bool:
    """Whether a kernel is a function of its own parameters in plain C, and not of arrays."""
    body = kernel.body
    return isinstance(body, LoopKernel) or (isinstance(body, FileKernel) and signature_of(body) is not None)


def function_text(
    kernel: FileKernel, name: str, known: Mapping[str, int], spaces: Mapping[int, str] | None = None
) -> str:
    """The function of a file that has a signature, in which sizes that are known are numbers."""
    signature = signature_of(kernel)
    assert signature is not None, f"{kernel.name} is called by arrays"
    tokens = _file_tokens(kernel, tuple(known.items()))
    item = next(item for item in _items(tokens[1:]) if "IG_FUNCTION" in item)
    lines = [*signature.head(name, known, spaces or {}), *_laid_out(_folded(item[item.index("{") :]))]
    function = _without_unused(tokens_of("\n".join(lines)))
    return "".join([f"/* {signature.about} */\n", *function, "\n"])


def textbook(name: str, settings: Mapping[str, Value] | None = None, **more: Value) -> FileKernel:
    """A file of this folder's own with its parameters."""
    values = sorted({**(settings or {}), **more}.items())
    return FileKernel(f"textbook_{name}", tuple((k, v if isinstance(v, str) else int(v)) for k, v in values))


def function_call(
    hint: str, kernel: FileKernel, views: Sequence[View], sizes: Mapping[str, Dim], node: Node, flops: Dim = 0
) -> Call:
    """The call of a function for a node; `views` are its buffers in their order."""
    signature = signature_of(kernel)
    assert signature is not None, f"{kernel.name} is called by arrays"
    pairs = zip(views, signature.buffers, strict=True)
    operands = [Operand(view.buffer, view.offset, each.is_written) for view, each in pairs]
    output = node.outputs[0]
    title = f"{node.op.name} -> {output.name}: {output.type}" + (f" from {node.origin}" if node.origin else "")
    given = [(name, sizes[name]) for name in signature.sizes]
    return Call(Kernel(hint, kernel), operands, given, 1, 1, flops=flops, nodes=(node,), title=title)


def _declared(buffer: SourceBuffer, space: str) -> str:
    kind = "" if buffer.is_written else "const "
    return f"{kind}{f'{space} ' if space else ''}{buffer.element} *{buffer.name}"


def _folded(body: Tokens) -> Tokens:
    """The tokens without what numbers have made empty: a stride of 1, a pad of 0."""
    empty, place, found = ((" ", "*", " ", "1"), (" ", "-", " ", "0"), (" ", "+", " ", "0")), 0, Tokens()
    while place < len(body):
        if tuple(body[place : place + 4]) in empty:
            place += 4
        else:
            found.append(body[place])
            place += 1
    return found


def _laid_out(body: Tokens) -> Iterator[str]:
    """The lines of a function, each as far from the left as blocks are open around it."""
    depth, is_open = 0, False
    for line in "".join(body).split("\n"):
        text = line.strip()
        depth -= text.startswith("}")
        if text:
            yield f"{'    ' * (depth + is_open)}{text}"
            depth += text.endswith("{")
            is_open = not text.endswith((";", "{", "}"))


def file_text(kernel: FileKernel | SourceKernel, name: str, helpers: Helpers) -> str:
    """A kernel's file as a C function under a name; raises UnsupportedError where vectors of one element do not do."""
    if isinstance(kernel, SourceKernel):
        vectors = macros_of((PLAIN_FOLDER / "kernel.h").read_text(encoding="ascii"))
        tokens = preprocessed(statements_file(kernel), vectors)
    else:
        tokens = _file_tokens(kernel)
    if left := next((each for each in identifiers(tokens) if _VECTORS.fullmatch(each)), None):
        raise UnsupportedError(f"a kernel has no plain form: it uses {left}")
    about, *rest = tokens
    items = _used([_without_unused(item) if item[-1] == "}" else item for item in _items(rest)])
    for each in identifiers([token for item in items for token in item]):
        helpers.ask(each)
    text = "".join(token.replace("IG_FUNCTION", name) for item in items for token in item).lstrip("\n")
    gap = "\n\n" if text.startswith("/*") else "\n"
    return about + gap + text


def _file_tokens(kernel: FileKernel, known: tuple[tuple[str, int], ...] = ()) -> Tokens:
    """What is left of a kernel's file, in which buffers and sizes are known by their places, some by their numbers."""
    own = instance(kernel, PLAIN_FOLDER)
    places = [(f"IG_BUFFER_{each}", place) for place, each in enumerate(own.buffers)]
    places += [(f"IG_SIZE_{each}", place) for place, each in enumerate(own.sizes)]
    places += [(key[:-1], place) for key, place in places if key[-1] == "0" and key[:-1] not in dict(places)]
    return preprocessed(own.text, {key: Macro((str(number),)) for key, number in (*places, *known)})


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
                yield item
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
            names = list(_constants_of(statement))
            is_unused = bool(names) and all(uses[name] == 1 for name in names)
            if body[end] == ";" and body[end + 1] == "\n" and is_unused:
                return _without_constants([*body[: place - 1], *body[end + 2 :]])
    return body


def _constants_of(statement: Tokens) -> Iterator[str]:
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
