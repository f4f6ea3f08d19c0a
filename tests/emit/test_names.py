"""Names of models in source: kept where they can be, harmless where they cannot."""

from __future__ import annotations

import ast

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import intaglio
from intaglio.conformance.exported import import_exported
from intaglio.emit.names import Keys, Names, class_name, comment, identifier
from intaglio.emit.pythonic.block import quoted, wrapped

HOSTILE = [
    "'", '"', "'''", '"""', "\\", "\n", "a\nimport os", '"]; import os; w["', "# comment", "x  # y", "lambda", "class",
    "None", "self", "xp", "np", "w", "load", "Model", "conv", "print", "__import__('os')", "a;b", "{0}", "{x!r}", "%s",
    "../../etc/passwd", "/", "//", "", " ", "é", "日本語", "\u202e", "\x00", "\x1b[31m", "a" * 10_000, "1", "-1", "0x",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_identifiers_are_identifiers(text: str) -> None:
    for found in (identifier(text), Names().give(identifier(text)), class_name(text)):
        assert found.isidentifier()
        assert found.isascii()
        ast.parse(f"{found} = 1")
    assert ast.literal_eval(quoted(text)) == text
    assert quoted(text).isascii()


@given(st.text())
def test_any_text_is_harmless(text: str) -> None:
    assert identifier(text).isidentifier()
    assert ast.literal_eval(quoted(text)) == text
    tree = ast.parse(f'"""{comment(text)}"""\nx = 1  # {comment(text)}')
    assert len(tree.body) == 2
    key = Keys().give(text)
    assert ".." not in key
    assert not key.startswith("/")


def test_names_are_given_once() -> None:
    names = Names({"x"})
    assert [names.give(name) for name in ("x", "x", "y", "len", "x_2")] == ["x_2", "x_3", "y", "len_2", "x_2_2"]
    keys = Keys()
    assert [keys.give(name) for name in ("a.b", "a.b", "../a", "a")] == ["a.b", "a.b_2", "a", "a_2"]


def hostile_model(name: str) -> onnx.ModelProto:
    """A model in which everything has a hostile name."""
    x, w, y = f"{name}x", f"{name}w", f"{name}y"
    big = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4), w)
    nodes = [
        helper.make_node("MatMul", [x, w], [f"{name}t"], name=f"/{name}/{name}"),
        helper.make_node("Tanh", [f"{name}t"], [y], name=name),
    ]
    nodes[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value=f"['', {name!r}, 'm']")
    types = [helper.make_tensor_value_info(x, TensorProto.FLOAT, [f"{name}n", 3])]
    graph = helper.make_graph(nodes, f"{name}g", types, [onnx.ValueInfoProto(name=y)], [big], doc_string=name)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


@pytest.mark.parametrize("language", ["python", "torch"])
@pytest.mark.parametrize("name", [name for name in HOSTILE if "\x00" not in name])
def test_nothing_is_injected(language: str, name: str, tmp_path) -> None:
    model = hostile_model(name)
    intaglio.export(model, language, tmp_path)
    plain = tmp_path / "plain"
    intaglio.export(hostile_model("a"), language, plain)
    found, expected = (ast.parse((folder / "model.py").read_text()) for folder in (tmp_path, plain))
    assert shape_of(found) == shape_of(expected)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in plain.iterdir()} | {"plain"}
    if language == "torch":
        pytest.importorskip("torch", reason="exported PyTorch code needs PyTorch to run")
    x = np.ones((2, 3), np.float32)
    result = run(language, import_exported(tmp_path).load(), x)
    np.testing.assert_allclose(result, intaglio.load(model, engine="reference")(x), rtol=1e-6)


def run(language: str, loaded, x: np.ndarray) -> np.ndarray:
    if language == "python":
        return loaded(x)
    import torch

    return loaded(torch.from_numpy(x)).detach().numpy()


def shape_of(tree: ast.AST) -> list[str]:
    """What a module is made of, without names and texts."""
    return [type(node).__name__ for node in ast.walk(tree)]


def test_long_lines_are_broken_where_that_changes_nothing() -> None:
    items = ", ".join(f"item_number_{i}" for i in range(12))
    line = f'value = function({items}, other(["a, b", {items}]), key="(")'
    broken = wrapped(line)
    assert len(broken) > 10
    assert max(map(len, broken)) <= 108
    assert ast.dump(ast.parse("\n".join(broken))) == ast.dump(ast.parse(line))
    for kept in (f"value = table[{items}]", f"value = ({items.replace(', ', ' + ')})"):
        assert ast.dump(ast.parse("\n".join(wrapped(kept)))) == ast.dump(ast.parse(kept))
