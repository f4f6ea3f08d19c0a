"""Every operator class and every adapter against ONNX's own schemas, each version that changed anything."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import MISSING
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import defs

from intaglio.ir.op import OPERATORS, Op, is_required
from intaglio.onnx.adapters import ADAPTERS, find_adapter
from intaglio.onnx.opsets import versions
from intaglio.onnx.schema import KNOWN, NEWEST, find_schema, newest_known, resolve
from intaglio.onnx.signatures import RESERVED

IGNORED_ATTRIBUTES = {"consumed_inputs"}
"""A hint to reuse memory in the first operator sets, without a meaning: the reader drops it."""

STATED_IN_TEXT = {("Concat", "axis", 1), ("Reshape", "shape", ())}
"""Defaults of old versions that only the schema's prose states."""

NONE = "no default"

Schema = Any


def all_names() -> list[tuple[str, str]]:
    return sorted({(schema.domain, schema.name) for schema in defs.get_all_schemas_with_history()})


def newest(domain: str, name: str) -> Schema:
    """The newest version that is not deprecated: what the operator's class must equal."""
    return next(schema for schema in versions(domain, name) if not schema.deprecated)


def older_versions() -> list[tuple[str, str, int]]:
    """Every version that is not its class's own: all of them where there is no class."""
    found = []
    for domain, name in all_names():
        kept = [schema for schema in versions(domain, name) if not schema.deprecated]
        is_gone = versions(domain, name)[0].deprecated and (domain, name) not in OPERATORS
        found += [(domain, name, schema.since_version) for schema in (kept if is_gone else kept[1:])]
    return found


def default_of(attribute: Any) -> Any:
    """A schema attribute's default as the operator classes write it; NONE where there is none."""
    proto = attribute.default_value
    if not proto.name:
        return NONE
    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, list):
        return tuple(item.decode() if isinstance(item, bytes) else item for item in value)
    if isinstance(value, onnx.TensorProto):
        return NONE if value.data_type == 0 else value
    return value.decode() if isinstance(value, bytes) else value


def same_default(left: Any, right: Any) -> bool:
    if isinstance(left, float) or isinstance(right, float):
        is_number = isinstance(left, (int, float)) and isinstance(right, (int, float))
        return is_number and np.float32(left) == np.float32(right)
    return left is right or left == right


def kinds(formals: Any) -> list[tuple[str, str]]:
    return [(formal.name, formal.option.name.lower()) for formal in formals]


def class_attributes(cls: type[Op]) -> dict[str, tuple[bool, Any]]:
    found = {}
    for attribute in cls.attributes():
        default = NONE if attribute.default in (MISSING, None) else attribute.default
        found[attribute.name] = (is_required(attribute), default)
    return found


def schema_attributes(schema: Schema) -> dict[str, tuple[bool, Any]]:
    return {
        name: (attribute.required, default_of(attribute))
        for name, attribute in schema.attributes.items()
        if name not in IGNORED_ATTRIBUTES
    }


def attribute_differences(ours: dict[str, tuple[bool, Any]], theirs: dict[str, tuple[bool, Any]]) -> Iterator[str]:
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in ours:
            yield f"attribute {name} is missing"
        elif name not in theirs:
            yield f"attribute {name} does not exist"
        elif ours[name][0] != theirs[name][0]:
            yield f"attribute {name}: required is {ours[name][0]}, expected {theirs[name][0]}"
        elif not same_default(ours[name][1], theirs[name][1]):
            yield f"attribute {name}: default {ours[name][1]!r}, expected {theirs[name][1]!r}"


def output_differences(cls: type[Op], schema: Schema) -> Iterator[str]:
    expected = tuple(formal.name for formal in schema.outputs)
    is_variadic = bool(expected) and schema.outputs[-1].option.name == "Variadic"
    if cls.variadic_outputs != is_variadic:
        yield f"variadic_outputs is {cls.variadic_outputs}, expected {is_variadic}"
    if len(expected) > 1 and not is_variadic and cls.output_names != expected:
        yield f"output_names are {cls.output_names}, expected {expected}"


def class_differences(cls: type[Op], schema: Schema) -> list[str]:
    found = list(attribute_differences(class_attributes(cls), schema_attributes(schema)))
    ours = [(parameter.name, parameter.kind) for parameter in cls.parameters()]
    if ours != kinds(schema.inputs):
        found.append(f"inputs are {ours}, expected {kinds(schema.inputs)}")
    return found + list(output_differences(cls, schema))


def adapter_differences(function: Any, schema: Schema) -> list[str]:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in RESERVED]
    attributes = {p.name: (p.default is p.empty, NONE if p.default in (p.empty, None) else p.default) for p in named}
    for name, (needed, default) in list(attributes.items()):
        if name in IGNORED_ATTRIBUTES:
            del attributes[name]
        elif (schema.name, name, default) in STATED_IN_TEXT:
            attributes[name] = (needed, NONE)
    found = list(attribute_differences(attributes, schema_attributes(schema)))
    inputs = []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            inputs.append("variadic")
        elif p.kind is not p.KEYWORD_ONLY:
            inputs.append("single" if p.default is p.empty else "optional")
    expected = [kind for _, kind in kinds(schema.inputs)]
    return found if inputs == expected else [*found, f"inputs are {inputs}, expected {expected}"]


def subset_differences(old: Schema, new: Schema) -> list[str]:
    """What keeps an older version from being read as the newest: anything but fewer types, inputs and attributes."""
    found = []
    ours, theirs = schema_attributes(old), schema_attributes(new)
    for name, (_, default) in ours.items():
        if name not in theirs:
            found.append(f"attribute {name} is gone from version {new.since_version}")
        elif not same_default(default, theirs[name][1]) and not (ours[name][0] and not theirs[name][0]):
            found.append(f"attribute {name}: default {default!r} became {theirs[name][1]!r}")
    found += [f"attribute {n} became required" for n, (needed, _) in theirs.items() if needed and n not in ours]
    found += formal_differences("input", kinds(old.inputs), kinds(new.inputs))
    return found + formal_differences("output", kinds(old.outputs), kinds(new.outputs))


def formal_differences(what: str, old: list[tuple[str, str]], new: list[tuple[str, str]]) -> list[str]:
    found = [f"{what} {name} is gone" for name, _ in old[len(new) :]]
    for (name, kind), (_, other) in zip(old, new, strict=False):
        if kind != other and (kind, other) != ("single", "optional"):
            found.append(f"{what} {name} was {kind} and became {other}")
    found += [f"{what} {name} was added and is required" for name, kind in new[len(old) :] if kind == "single"]
    return found


def labels(keys: list[Any]) -> list[str]:
    return ["::".join(str(part) for part in key if part != "") for key in keys]


CURRENT = [key for key in all_names() if not versions(*key)[0].deprecated]
WITH_CLASS = [key for key in all_names() if key in OPERATORS]
OLDER = older_versions()


@pytest.mark.parametrize(("domain", "name"), CURRENT, ids=labels(CURRENT))
def test_each_operator_of_onnx_is_known(domain: str, name: str) -> None:
    assert resolve(domain, name, newest(domain, name).since_version).is_known


@pytest.mark.parametrize(("domain", "name"), WITH_CLASS, ids=labels(WITH_CLASS))
def test_operator_class_equals_schema(domain: str, name: str) -> None:
    if NEWEST[domain] < KNOWN[domain]:
        pytest.skip("operators are those of a newer onnx than the installed one")
    assert class_differences(OPERATORS[(domain, name)], newest(domain, name)) == []


@pytest.mark.parametrize(("domain", "name", "version"), OLDER, ids=labels(OLDER))
def test_older_version_is_adapted_or_means_the_same(domain: str, name: str, version: int) -> None:
    schema = defs.get_schema(name, version, domain)
    adapter = find_adapter(domain, name, version)
    if adapter is not None:
        assert adapter_differences(adapter.function, schema) == []
    else:
        is_gone = versions(domain, name)[0].deprecated and (domain, name) not in OPERATORS
        assert not is_gone, "gone from the newest operator set and not adapted"
        assert subset_differences(schema, newest(domain, name)) == []


def test_adapters_are_only_for_versions_that_exist_and_do_not_overlap() -> None:
    wrong = []
    for (domain, name), adapters in ADAPTERS.items():
        since = {schema.since_version for schema in versions(domain, name)}
        for version in since:
            matching = [a for a in adapters if a.since <= version < a.before]
            if len(matching) > 1:
                wrong.append(f"{domain}::{name} version {version} has {len(matching)} adapters")
        wrong += [
            f"{domain}::{name}: no version from {a.since} to before {a.before}"
            for a in adapters
            if not any(a.since <= v < a.before for v in since)
        ]
    assert wrong == []


def test_all_versions_of_onnx_are_known() -> None:
    """Where this fails, ONNX has a new operator set: write its operators, then raise KNOWN."""
    assert defs.C.schema_version_map().keys() <= KNOWN.keys()
    for domain, (_, last) in defs.C.schema_version_map().items():
        assert last <= KNOWN[domain], domain


def test_a_newer_onnx_does_not_change_what_operators_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    assert newest_known({"": (1, 99), "ai.onnx.ml": (1, 3), "new": (1, 7)}) == {
        "": KNOWN[""],
        "ai.onnx.ml": 3,
        "new": 7,
    }
    monkeypatch.setitem(NEWEST, "", 12)  # as if what is installed were newer than what is known
    assert resolve("", "Squeeze", 25) == resolve("", "Squeeze", 12)
    assert resolve("", "Squeeze", 25).schema == find_schema("", "Squeeze", 12) != find_schema("", "Squeeze", 25)
    assert resolve("", "Gelu", 25).is_known  # an operator of opset 20
