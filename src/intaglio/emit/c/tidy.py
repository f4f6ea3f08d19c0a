"""Text of kernels made free of warnings: parameters and variables that nobody uses."""

from __future__ import annotations

import re

_FUNCTION = re.compile(r"^static [^;{}()]*?\b\w+\(([^{};]*?)\)\n?\s*\{\n(.*?)^\}\n", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"^static inline [^;{}()]*?\b(\w+)\([^{};]*?\)\n?\s*\{\n.*?^\}\n\n?", re.MULTILINE | re.DOTALL)
_VARIABLE = re.compile(
    r"^ *const (?:u?int\d+_t|float|double|bool|\w+ \*const|\w+ \*) ?(\w+) = [^;{}]*;\n", re.MULTILINE
)


def tidy(text: str) -> str:
    """The functions of a text, which say of parameters that they are not used, and do without unused variables."""
    text = _FUNCTION.sub(lambda found: _tidy_function(found[0], found[1], found[2]), text)
    for found in _INLINE.finditer(text):
        if _uses(text, found[1]) == 1:
            text = text.replace(found[0], "")
    return text


def _tidy_function(whole: str, parameters: str, body: str) -> str:
    kept = _without_unused(body)
    names = [re.findall(r"\w+", each.split("[")[0])[-1] for each in parameters.split(",") if each.strip() != "void"]
    unused = [name for name in names if not _uses(kept, name)]
    notes = "".join(f"    (void){name};\n" for name in unused)
    start = whole.index(body, whole.index("{\n")) if body else len(whole) - 2
    return whole[:start] + notes + kept + "}\n"


def _without_unused(body: str) -> str:
    while True:
        unused = [found for found in _VARIABLE.finditer(body) if _uses(body, found[1]) == 1]
        if not unused:
            return body
        body = body[: unused[0].start()] + body[unused[0].end() :]


def _uses(text: str, name: str) -> int:
    return len(re.findall(rf"\b{name}\b", text))
