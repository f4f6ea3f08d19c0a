"""From the JSON of requests to what commands and runs take, and which commands there are."""

from __future__ import annotations

import base64
import binascii
import inspect
import io
import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from intaglio.errors import InputError
from intaglio.ir.dtype import DTYPES
from intaglio.tools.editing import Editor
from intaglio.tools.editing.names import did_you_mean

MOST_DEPTH = 40
Json = dict[str, Any]

KINDS = {
    "node": "node", "before": "node", "value": "value", "old": "value", "new": "name", "inputs": "values",
    "outputs": "values", "operator": "operator", "attributes": "attributes", "array": "array", "dtype": "dtype",
    "shape": "shape", "size": "size", "axis": "integer", "input": "integer", "output": "integer", "version": "integer",
    "permutation": "integers", "shapes": "shapes", "names": "names", "connect": "names", "bind": "names",
    "other": "model", "source": "model", "keep_outputs": "flag", "domain": "text", "prefix": "text",
}  # fmt: skip
"""What a parameter of a command is for a form, by its name; `name` and `value` depend on the command."""
_OWN = {
    ("insert_node", "name"): "text", ("rename_node", "name"): "text", ("set_attribute", "name"): "attribute",
    ("set_attribute", "value"): "attribute value", ("add_input", "name"): "text", ("insert_node", "outputs"): "texts",
    ("set_initializer", "name"): "initializer", ("remove_initializer", "name"): "initializer",
    ("remove_input", "name"): "input", ("transpose_input", "name"): "input", ("remove_output", "name"): "output",
    ("transpose_output", "name"): "output", ("rename_dimension", "name"): "dimension",
    ("inline_function", "name"): "function", ("inline_function", "overload"): "text", ("prune", "inputs"): "flag",
}  # fmt: skip
"""Exceptions to that, by command and parameter."""


def editor_commands() -> dict[str, Callable[..., Any]]:
    """The commands of an editor by name."""
    found = {name: getattr(Editor, name) for name in dir(Editor) if not name.startswith("_")}
    return {name: each for name, each in found.items() if getattr(each, "is_command", False)}


def described_commands() -> list[Json]:
    """The commands with their parameters, from which the page makes forms."""
    return [
        {
            "name": name,
            "doc": inspect.getdoc(command) or "",
            "parameters": [_described(name, each) for each in list(inspect.signature(command).parameters.values())[1:]],
        }
        for name, command in editor_commands().items()
    ]


def _described(command: str, parameter: inspect.Parameter) -> Json:
    is_required = parameter.default is inspect.Parameter.empty
    kind = _OWN.get((command, parameter.name)) or KINDS.get(parameter.name) or "value"
    return {
        "name": parameter.name,
        "kind": kind,
        "type": str(parameter.annotation),
        "required": is_required,
        "default": None if is_required else parameter.default,
    }


def give(editor: Editor, request: Any, model: Callable[[str], Any]) -> Any:
    """Give an editor the command of a request; raises InputError for what is no command. `model` finds other models."""
    if not isinstance(request, dict):
        raise InputError("a command is an object with `name` and `arguments`")
    fields = cast("Json", request)
    name, given = fields.get("name"), fields.get("arguments", {})
    known = editor_commands()
    if not isinstance(name, str) or name not in known:
        raise InputError(f"there is no command {str(name)[:80]!r}{did_you_mean(str(name), list(known))}")
    if not isinstance(given, dict):
        raise InputError(f"the arguments of {name} are an object of values by name")
    arguments = {key: decoded(value, model) for key, value in cast("Json", given).items()}
    try:
        inspect.signature(known[name]).bind(editor, **arguments)
    except TypeError as error:
        raise InputError(f"{name}: {error}") from None
    try:
        return getattr(editor, name)(**arguments)
    except (TypeError, AttributeError, OverflowError) as error:
        raise InputError(f"{name} does not take these arguments: {error}") from None


def decoded(value: Any, model: Callable[[str], Any], depth: int = 0) -> Any:
    """JSON with arrays and models in place of the objects that stand for them.

    `{"npy": BASE64}` and `{"values": [...], "dtype": "float32"}` are arrays, `{"model": ID}` is another model.
    """
    if depth > MOST_DEPTH:
        raise InputError("the arguments are nested too deeply")
    if isinstance(value, list):
        return [decoded(each, model, depth + 1) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("Json", value)
    if set(fields) == {"npy"}:
        return npy_array(fields["npy"])
    if set(fields) == {"values", "dtype"}:
        return typed_array(fields["values"], fields["dtype"])
    if set(fields) == {"model"}:
        return model(str(fields["model"]))
    return {name: decoded(each, model, depth + 1) for name, each in fields.items()}


def npy_array(text: Any) -> np.ndarray[Any, Any]:
    """The array of an .npy file in base64; raises InputError."""
    try:
        data = base64.b64decode(text, validate=True)
        return np.load(io.BytesIO(data), allow_pickle=False)
    except (TypeError, ValueError, EOFError, OSError, MemoryError, binascii.Error) as error:
        raise InputError(f"this is no .npy file: {error}") from None


def typed_array(values: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """An array of nested lists; raises InputError."""
    if dtype not in DTYPES:
        raise InputError(f"{str(dtype)[:40]!r} is no element type{did_you_mean(str(dtype), list(DTYPES))}")
    if isinstance(values, str):
        try:
            values = json.loads(values)
        except (ValueError, RecursionError) as error:
            raise InputError(f"the elements are no JSON: {error}") from None
    try:
        return np.array(_finite(values), DTYPES[dtype].numpy)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"these are no elements of {dtype}: {error}") from None


def _finite(values: Any) -> Any:
    """Lists in which the words for numbers that are not finite are such numbers."""
    if isinstance(values, list):
        return [_finite(each) for each in cast("list[Any]", values)]
    return float(values) if values in ("nan", "inf", "-inf") else values


def numbers_by_name(given: Any, what: str = "dims") -> dict[str, int]:
    """Sizes by name; raises InputError."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(f"{what} is an object of numbers by name")
    found: dict[str, int] = {}
    for name, number in cast("Mapping[Any, Any]", given).items():
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 40:
            raise InputError(
                f"{what}: {str(name)[:80]!r} is {str(number)[:40]!r}, expected a number that is not negative"
            )
        found[str(name)] = number
    return found
