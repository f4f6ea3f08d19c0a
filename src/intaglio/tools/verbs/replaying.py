"""Edits replayed from the script that an editor writes, without running the script.

The script is a Python program, but only its commands are taken, with plain values as arguments. So a script from
anybody can do to a model what an editor can do, and nothing else.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from intaglio.errors import InputError, LoadError
from intaglio.tools.editing import Editor
from intaglio.tools.editing.names import did_you_mean
from intaglio.tools.verbs.change import Changed, Model, changed, opened


def replay(script: str | os.PathLike[str], model: Model) -> Changed:
    """The model with all edits of a script, which is a path or the text of one. Long arrays are read beside it.

    Anything in the script but commands of an editor with plain arguments raises InputError, as do commands that fail.
    """
    text, arrays = _read(script)
    editor = opened(model)
    calls = list(_calls(text))
    for place, call in enumerate(calls, 1):
        try:
            _give(editor, call, arrays)
        except InputError as error:
            raise InputError(f"command {place}, line {call.lineno}: {error}") from None
    return changed(editor, commands=len(calls))


def _read(script: str | os.PathLike[str]) -> tuple[str, Mapping[str, Any]]:
    text = os.fspath(script)
    if "\n" in text:
        return text, {}
    path = Path(script)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"{str(path)!r} cannot be read as a script: {error}") from None
    data = path.with_name(path.name + ".npz")
    if not data.exists():
        return text, {}
    with np.load(data, allow_pickle=False) as archive:
        return text, {name: archive[name] for name in archive.files}


def _calls(text: str) -> list[ast.Call]:
    """The commands of a script; the lines around them that the journal writes are left out."""
    try:
        statements = ast.parse(text).body
    except SyntaxError as error:
        raise InputError(f"the script is no Python: line {error.lineno}: {error.msg}") from None
    calls: list[ast.Call] = []
    for statement in statements:
        if isinstance(statement, ast.Import) or _is_opening(statement):
            continue
        call = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
        if not isinstance(call, ast.Call) or _method(call) is None:
            raise InputError(f"line {statement.lineno} is no command of an editor: {ast.unparse(statement)[:80]}")
        if _method(call) != "save":
            calls.append(call)
    return calls


def _is_opening(statement: ast.stmt) -> bool:
    """Whether a statement gives `editor` or `arrays` their meaning, which they have here anyway."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(each, ast.Name) and each.id in ("editor", "arrays") for each in targets)


def _method(call: ast.Call) -> str | None:
    function = call.func
    is_editor = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
    return function.attr if is_editor and function.value.id == "editor" else None  # pyright: ignore


def _give(editor: Editor, call: ast.Call, arrays: Mapping[str, Any]) -> None:
    name = _method(call) or ""
    known = [each for each in dir(Editor) if getattr(getattr(Editor, each), "is_command", False)]
    if name not in (*known, "undo", "redo"):
        raise InputError(f"there is no command {name!r}{did_you_mean(name, known)}")
    values = [_value(each, arrays) for each in call.args]
    named = {each.arg or "": _value(each.value, arrays) for each in call.keywords}
    try:
        getattr(editor, name)(*values, **named)
    except TypeError as error:
        raise InputError(f"{name}: {error}") from None


def _value(node: ast.expr, arrays: Mapping[str, Any]) -> Any:
    """A plain value: a literal, an array, an array of the file beside the script, or a number that is not finite."""
    match node:
        case ast.Call(ast.Attribute(ast.Name("np"), "array"), [items, dtype], []):
            return np.array(_value(items, arrays), _value(dtype, arrays))
        case ast.Call(ast.Name("float"), [ast.Constant(str() as text)], []):
            return float(text)
        case ast.Call(ast.Attribute(inner, "tobytes"), [], []):
            return _value(inner, arrays).tobytes()
        case ast.Subscript(ast.Name("arrays"), ast.Constant(str() as name)):
            if name not in arrays:
                raise InputError(f"the file of arrays beside the script has no {name!r}")
            return arrays[name]
        case ast.List(items) | ast.Tuple(items):
            return [_value(each, arrays) for each in items]
        case ast.Dict(keys, values):
            return {_key(key): _value(value, arrays) for key, value in zip(keys, values, strict=True)}
        case _:
            try:
                return ast.literal_eval(node)
            except (ValueError, SyntaxError):
                raise InputError(f"{ast.unparse(node)[:80]!r} is no plain value") from None


def _key(node: ast.expr | None) -> Any:
    if not isinstance(node, ast.Constant):
        raise InputError("keys of dictionaries must be plain")
    return node.value
