"""Schemas as plain objects: what an operator takes, gives and may be told, for people and programs to read."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, fields
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from onnx import AttributeProto, defs

from intaglio.errors import InputError
from intaglio.ir.op import OPERATORS, Op, is_required
from intaglio.onnx.attributes import AttributeReader
from intaglio.onnx.external import ExternalData
from intaglio.onnx.limits import ReadLimits
from intaglio.onnx.schema import NEWEST, defs_has, find_schema, known_names, normal_domain, resolve

Kind: TypeAlias = Literal["single", "optional", "variadic"]
Default: TypeAlias = int | float | str | tuple[int | float | str, ...] | None

_ELEMENTS = {"float": "float32", "double": "float64"}
_KINDS: dict[Any, Kind] = {
    defs.OpSchema.FormalParameterOption.Single: "single",
    defs.OpSchema.FormalParameterOption.Optional: "optional",
    defs.OpSchema.FormalParameterOption.Variadic: "variadic",
}


@dataclass(frozen=True)
class AttributeSchema:
    """An attribute; `type` is ONNX's name for its kind, such as INT or FLOATS, `default` None where there is none."""

    name: str
    type: str
    is_required: bool = False
    default: Default = None
    doc: str = ""


@dataclass(frozen=True)
class ParameterSchema:
    """A formal input or output.

    `type` names a type constraint, or is a type such as `tensor(int64)`. The values of a variadic parameter that
    `is_homogeneous` have one type; there are at least `min_count` of them.
    """

    name: str
    kind: Kind = "single"
    type: str = ""
    is_homogeneous: bool = True
    min_count: int = 1
    doc: str = ""


@dataclass(frozen=True)
class TypeConstraint:
    """The types that a name such as `T` may stand for, all its places the same one; in ONNX's spelling."""

    name: str
    types: tuple[str, ...]
    doc: str = ""

    @property
    def element_types(self) -> tuple[str, ...]:
        """The element types that occur in `types`, as Intaglio and NumPy call them."""
        found: list[str] = [name for text in self.types for name in re.findall(r"tensor\((\w+)\)", text)]
        return tuple(dict.fromkeys(_ELEMENTS.get(name, name) for name in found))


@dataclass(frozen=True)
class Schema:
    """What ONNX, or the operator's class where ONNX does not know it, says about one version of an operator."""

    name: str
    domain: str = ""
    since_version: int = 1
    is_deprecated: bool = False
    attributes: tuple[AttributeSchema, ...] = ()
    inputs: tuple[ParameterSchema, ...] = ()
    outputs: tuple[ParameterSchema, ...] = ()
    type_constraints: tuple[TypeConstraint, ...] = ()
    doc: str = ""

    def attribute(self, name: str) -> AttributeSchema:
        """The attribute of that name; raises InputError where there is none."""
        return _named(self.attributes, name, f"{self.name} has no attribute")

    def input(self, name: str) -> ParameterSchema:
        """The input of that name; raises InputError where there is none."""
        return _named(self.inputs, name, f"{self.name} has no input")

    def output(self, name: str) -> ParameterSchema:
        """The output of that name; raises InputError where there is none."""
        return _named(self.outputs, name, f"{self.name} has no output")

    def allowed_types(self, parameter: ParameterSchema) -> tuple[str, ...]:
        """The types that an input or output may have."""
        known = {constraint.name: constraint.types for constraint in self.type_constraints}
        return known.get(parameter.type, (parameter.type,) if parameter.type else ())

    def to_json(self) -> str:
        """The schema as JSON, which `from_json` reads back to an equal one."""
        return json.dumps(asdict(self), indent=2)

    @staticmethod
    def from_json(text: str) -> Schema:
        """The schema that `to_json` wrote; raises InputError where the text is something else."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"this is no schema, nor any other JSON: {error}") from None
        return _read(Schema, data, "the schema")

    def __str__(self) -> str:
        """The operator as a signature."""
        inputs = ", ".join(_parameter_text(parameter) for parameter in self.inputs)
        attributes = ", ".join(_attribute_text(attribute) for attribute in self.attributes)
        outputs = ", ".join(_parameter_text(parameter) for parameter in self.outputs)
        title = f"{self.domain}::{self.name}" if self.domain else self.name
        return f"{title}-{self.since_version}({inputs}{'; ' if attributes else ''}{attributes}) -> ({outputs})"


def schema(name: str, domain: str = "", version: int | None = None) -> Schema:
    """The schema of an operator, in the given version of its domain's operator set or in the newest.

    Operators of ONNX's domains are described by ONNX; others, your own included, by their classes. Raises InputError
    for an operator or version that does not exist.

    >>> print(schema("LeakyRelu"))
    LeakyRelu-16(X: T; alpha: FLOAT = 0.01) -> (Y: T)
    >>> schema("LeakyRelu", version=15).since_version
    6
    """
    domain = normal_domain(domain)
    newest = NEWEST.get(domain)
    wanted = version if version is not None else newest or 1
    found = find_schema(domain, name, wanted) if newest is None or wanted <= newest else None
    if found is not None:
        return _from_definition(found)
    if (domain, name) in OPERATORS and not defs_has(domain, name):
        return _from_class(OPERATORS[domain, name])
    raise InputError(_unknown_text(name, domain, wanted, newest))


def has_operator(name: str, domain: str = "", version: int | None = None) -> bool:
    """Whether models may use an operator, in the given version of its domain's operator set or in the newest.

    >>> has_operator("Conv"), has_operator("Convolve")
    (True, False)
    """
    domain = normal_domain(domain)
    newest = NEWEST.get(domain, 1)
    wanted = newest if version is None else version
    is_in_range = 1 <= wanted <= newest or domain not in NEWEST
    return is_in_range and (resolve(domain, name, wanted).is_known or (domain, name) == ("", "Constant"))


def find_operator(name: str, domain: str = "") -> type[Op]:
    """The class of an operator; raises InputError where there is none."""
    domain = normal_domain(domain)
    found = OPERATORS.get((domain, name))
    if found is None and defs_has(domain, name):
        raise InputError(f"{name} has no class of its own: models that use it are read in terms of other operators")
    if found is None:
        raise InputError(_unknown_text(name, domain, 1, None))
    return found


def _unknown_text(name: str, domain: str, wanted: int, newest: int | None) -> str:
    title = domain or "ai.onnx"
    if not defs_has(domain, name):
        close = get_close_matches(name, known_names(domain), n=1)
        others = [other for other, known in OPERATORS if known == name and "@" not in other]
        hint = (
            f"; did you mean {close[0]}?"
            if close
            else f"; there is one in {others[0] or 'ai.onnx'!r}"
            if others
            else ""
        )
        return f"there is no operator {name!r} in {title!r}{hint}"
    if newest is not None and wanted > newest:
        return f"version {wanted} of {title!r} is not known; the newest is {newest}"
    return f"{name} is not in version {wanted} of {title!r}"


def _from_definition(source: Any) -> Schema:
    return Schema(
        name=source.name,
        domain=source.domain,
        since_version=source.since_version,
        is_deprecated=source.deprecated,
        attributes=tuple(_read_attribute(attribute) for _, attribute in sorted(source.attributes.items())),
        inputs=tuple(_read_parameter(parameter) for parameter in source.inputs),
        outputs=tuple(_read_parameter(parameter) for parameter in source.outputs),
        type_constraints=tuple(
            TypeConstraint(each.type_param_str, tuple(sorted(each.allowed_type_strs)), each.description)
            for each in source.type_constraints
        ),
        doc=inspect.cleandoc(source.doc or ""),
    )


def _read_attribute(source: Any) -> AttributeSchema:
    stored = source.default_value
    default = _read_default(stored) if stored.name else None
    return AttributeSchema(
        source.name, source.type.name, source.required, default, inspect.cleandoc(source.description)
    )


def _read_default(stored: AttributeProto) -> Default:
    reader = AttributeReader(ExternalData(None), ReadLimits())
    value = reader.read(stored, None, _no_graph)
    return _short(value) if isinstance(value, float) else value


def _no_graph(name: str, proto: Any) -> Any:
    raise InputError(f"the default of {name!r} is a graph")


def _short(value: float) -> float:
    """The shortest decimal number that is this one in single precision: 1e-05 rather than 9.99999974e-06."""
    return float(str(np.float32(value)))


def _read_parameter(source: Any) -> ParameterSchema:
    kind = _KINDS[source.option]
    least = source.min_arity if kind == "variadic" else int(kind == "single")
    return ParameterSchema(source.name, kind, source.type_str, source.is_homogeneous, least, source.description)


def _from_class(operator: type[Op]) -> Schema:
    """What a class says: names, order, defaults; element types are known to its type rule only."""
    names = operator.output_names or ("output",)
    outputs = [ParameterSchema(name) for name in names]
    if operator.variadic_outputs:
        outputs = [ParameterSchema("outputs", "variadic", is_homogeneous=False)]
    inputs = [
        ParameterSchema(each.name, each.kind, "", each.kind != "variadic", int(each.kind == "single"))
        for each in operator.parameters()
    ]
    attributes = sorted((_class_attribute(field) for field in operator.attributes()), key=lambda each: each.name)
    return Schema(
        name=operator.__name__,
        domain=operator.domain,
        attributes=tuple(attributes),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        doc=inspect.getdoc(operator) or "",
    )


_ANNOTATIONS = {"int": "INT", "bool": "INT", "float": "FLOAT", "str": "STRING", "Tensor": "TENSOR", "Graph": "GRAPH"}


def _class_attribute(field: Field[Any]) -> AttributeSchema:
    annotation = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", "")
    text = annotation if isinstance(field.type, str) or annotation in _ANNOTATIONS else str(field.type)
    word = re.sub(r"^tuple\[(\w+).*", r"\1", text.removesuffix(" | None"))
    kind = _ANNOTATIONS.get(word, "UNDEFINED") + ("S" if text.startswith("tuple") and word in _ANNOTATIONS else "")
    return AttributeSchema(field.name, kind, is_required(field), _class_default(field.default))


def _class_default(default: Any) -> Default:
    if isinstance(default, float):
        return _short(default)
    if isinstance(default, tuple):
        return cast("tuple[Any, ...]", default)
    return int(default) if isinstance(default, int) else default if isinstance(default, str) else None


def _parameter_text(parameter: ParameterSchema) -> str:
    mark = {"single": "", "optional": "?", "variadic": "..."}[parameter.kind]
    return f"{parameter.name}{mark}{': ' if parameter.type else ''}{parameter.type}"


def _attribute_text(attribute: AttributeSchema) -> str:
    mark = "" if attribute.is_required or attribute.default is not None else "?"
    default = "" if attribute.default is None else f" = {attribute.default!r}"
    return f"{attribute.name}{mark}: {attribute.type}{default}"


def _named(items: tuple[Any, ...], name: str, problem: str) -> Any:
    for item in items:
        if item.name == name:
            return item
    names = [item.name for item in items]
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(names) or 'none'}"
    raise InputError(f"{problem} {name!r}; {hint}")


_PARTS: Mapping[str, type[Any]] = {
    "attributes": AttributeSchema,
    "inputs": ParameterSchema,
    "outputs": ParameterSchema,
    "type_constraints": TypeConstraint,
}

_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "str": lambda item: isinstance(item, str),
    "int": lambda item: type(item) is int,
    "bool": lambda item: isinstance(item, bool),
    "Kind": lambda item: item in ("single", "optional", "variadic"),
    "tuple[str, ...]": lambda item: isinstance(item, tuple) and all(isinstance(part, str) for part in item),
}


def _read(kind: type[Any], data: Any, place: str) -> Any:
    """An object of a dataclass from plain data; every field is checked."""
    if not isinstance(data, dict):
        raise InputError(f"{place} is a {type(data).__name__}, expected an object")
    given = cast("dict[str, Any]", data)
    known = {field.name: field for field in fields(kind)}
    unknown = [name for name in given if name not in known]
    missing = [name for name, field in known.items() if field.default is MISSING and name not in given]
    if unknown or missing:
        problem = f"has an unknown field {unknown[0]!r}" if unknown else f"lacks the field {missing[0]!r}"
        raise InputError(f"{place} {problem}")
    return kind(**{name: _read_field(known[name], item, f"{place}/{name}") for name, item in given.items()})


def _read_field(field: Field[Any], data: Any, place: str) -> Any:
    item: Any = tuple(cast("list[Any]", data)) if isinstance(data, list) else data
    if field.name in _PARTS and isinstance(item, tuple):
        parts = enumerate(cast("tuple[Any, ...]", item))
        return tuple(_read(_PARTS[field.name], part, f"{place}/{index}") for index, part in parts)
    check = _CHECKS.get(str(field.type))
    if field.name in _PARTS or (check is not None and not check(item)):
        raise InputError(f"{place} is {str(data)[:40]!r}, which does not belong there")
    return item
