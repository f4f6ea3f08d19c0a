"""The table of operators, written from the registries: every version of each, and how the engines run it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import onnx
from onnx import defs

from intaglio.autodiff.rules import gradient_kind
from intaglio.ir.op import OPERATORS
from intaglio.kernels.elementwise import TRANSLATIONS
from intaglio.kernels.fused import REDUCTIONS
from intaglio.kernels.views import VIEWS
from intaglio.onnx.adapters import find_adapter
from intaglio.onnx.opsets import versions
from intaglio.onnx.schema import resolve
from intaglio.targets.c.rules import ANCHORS

Native = Literal["compiled", "folded", "expanded", "control", "host", "no"]

PRIVATE = "intaglio"
"""The domain of operators that no model can name."""

WRITTEN_OUT = frozenset({("ai.onnx.preview.training", "Gradient")})
"""Operators that the reader replaces by others."""

HEAD = """\
# Support

Every operator of ONNX {onnx} in every version, and the operators of ONNX Runtime that Intaglio knows. This page is
written by `intaglio conformance --support FILE` from the tables that the reader and the engines work with, and a test
compares the two; do not edit it.

**Versions** are those of the operator set at which ONNX changed the operator. A plain number has the newest meaning,
with fewer types, inputs or attributes at most; a version in *italics* has another meaning, which an adapter translates.

**Reference** says whether the reference engine runs the operator. **Native** says what the native engine does with it:

| native | meaning |
|---|---|
| compiled | a rule makes C of it |
| expanded | it is written in simpler operators, which are then looked up here |
| folded | its result is a constant, or small integers that follow from sizes, which are filled in |
| control | the host decides what runs, and how often; the bodies are compiled |
| host | it runs in the reference engine, between compiled segments |

**Gradient** says how `intaglio.grad` and its like differentiate the operator: by a *rule* of its own, by that of the
operators of its *expansion*, *as translated* where only older versions have it, or not, and why. Where the reason is
that its results change in steps, or not at all, the gradient is zero; other operators are refused.

What is compiled for numbers runs on the host where an element type has no C (strings, complex numbers, and floats and
integers of eight bits and fewer that C does not know), where a rank, a shape, axes or the like are known only during
the run, or where a rule refuses a case. `intaglio explain MODEL` shows how each node of a model runs and why.
"""


def native(domain: str, name: str) -> Native:
    """What the native engine does with the newest version of an operator."""
    operator = OPERATORS.get((domain, name))
    if domain == "" and name in TRANSLATIONS.keys() | VIEWS.keys() | REDUCTIONS.keys() | ANCHORS.keys():
        return "compiled"
    if operator is None:
        return "expanded" if readable(domain, name) else "no"
    if operator.has("expand") or (domain, name) in WRITTEN_OUT:
        return "expanded"
    if operator.symbolic or name == "Constant":
        return "folded"
    return "control" if operator.has("interpret") else "host"


def reference(domain: str, name: str) -> bool:
    """Whether the reference engine runs an operator, by itself or in simpler ones."""
    operator = OPERATORS.get((domain, name))
    if operator is None:
        return bool(readable(domain, name))
    is_written = any(operator.has(method) for method in ("reference", "interpret", "expand"))
    return is_written or (domain, name) in WRITTEN_OUT


def gradient(domain: str, name: str) -> str:
    """How the newest version of an operator is differentiated, or why it is not."""
    operator = OPERATORS.get((domain, name))
    if operator is None:
        return "as translated" if readable(domain, name) else "no"
    kind, reason = gradient_kind(operator)
    return f"no: {reason}" if kind == "no" else kind


def readable(domain: str, name: str) -> list[int]:
    """The versions of an operator that can be read, those that ONNX gives no meaning left out."""
    return [version for version in since_versions(domain, name) if resolve(domain, name, version).is_known]


def since_versions(domain: str, name: str) -> list[int]:
    """The versions at which ONNX changed an operator, oldest first; one that takes it away is none."""
    return [schema.since_version for schema in reversed(versions(domain, name)) if not schema.deprecated]


def operators() -> dict[str, list[str]]:
    """Every operator that a model can name, by domain: ONNX's in all versions, and those that ours adds."""
    known = {(schema.domain, schema.name) for schema in defs.get_all_schemas_with_history()}
    known |= {key for key, cls in OPERATORS.items() if key[0] != PRIVATE and cls.__module__.startswith("intaglio.ops.")}
    found: dict[str, list[str]] = {}
    for domain, name in sorted(known):
        found.setdefault(domain, []).append(name)
    return found


def page() -> str:
    """The whole page."""
    lines = [HEAD.format(onnx=".".join(onnx.__version__.split(".")[:2]))]
    for domain, names in operators().items():
        lines += [f"## {domain or 'ai.onnx'}", "", _counts(domain, names), ""]
        lines += ["| operator | versions | reference | native | gradient |", "|---|---|---|---|---|"]
        lines += [*(_row(domain, name) for name in names), ""]
    return "\n".join(lines).rstrip() + "\n"


def _counts(domain: str, names: list[str]) -> str:
    kinds = [native(domain, name) for name in names]
    found = [f"{kinds.count(kind)} {kind}" for kind in Native.__args__ if kind in kinds]
    return f"{len(names)} operator{'s' if len(names) > 1 else ''}: {', '.join(found)}."


def _row(domain: str, name: str) -> str:
    engines = f"{'yes' if reference(domain, name) else 'no'} | {native(domain, name)}"
    return f"| {name} | {', '.join(_versions(domain, name)) or 'any'} | {engines} | {gradient(domain, name)} |"


def _versions(domain: str, name: str) -> Iterator[str]:
    for version in since_versions(domain, name):
        if not resolve(domain, name, version).is_known:
            yield f"~~{version}~~"
        elif find_adapter(domain, name, version) is not None:
            yield f"*{version}*"
        else:
            yield str(version)
