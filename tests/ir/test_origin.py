"""Where nodes come from: paths, modules and what exporters say."""

from __future__ import annotations

import copy
import pickle

import onnx
import pytest
from onnx import TensorProto, helper

from intaglio.ir.clone import clone
from intaglio.ir.expand import expand_until
from intaglio.ir.graph import Graph
from intaglio.ir.origin import CLASS_HIERARCHY, NAME_SCOPES, Origin
from intaglio.ir.text import format_graph, parse_graph
from intaglio.onnx.functions import walk_nodes
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify


def read(text: str) -> Graph:
    """A graph of ONNX's text, in which `__` in the name of a node is a slash."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20, "own" : 1]> {text}')
    for node, _ in walk_nodes(model.graph.node, 3):
        node.name = node.name.replace("__", "/")
    return read_model(model).graph


def names(origin: Origin) -> list[str]:
    return [scope.name for scope in origin.scopes]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", []),
        ("node (Relu)", []),
        ("#3 (Relu)", []),
        ("/encoder/layer.0/Add (Add)", ["encoder", "layer.0"]),
        ("model/dense/MatMul (MatMul)", ["model", "dense"]),
        ("//a//b/ (Add)", ["a", "b"]),
    ],
)
def test_modules_are_read_from_names_that_look_like_paths(path: str, expected: list[str]) -> None:
    assert names(Origin(path)) == expected


def test_what_torch_says_comes_before_the_name() -> None:
    metadata = {
        NAME_SCOPES: "['', 'layers.0', \"layers.0.it's\", 'linear']",
        CLASS_HIERARCHY: "['M', 'Layer', 'torch.nn.modules.linear.Linear', 'aten.linear.default']",
    }
    scopes = Origin("/other/place/x (Add)", metadata=metadata).scopes
    assert [tuple(scope) for scope in scopes] == [("layers.0", "Layer"), ("it's", "torch.nn.modules.linear.Linear")]


@pytest.mark.parametrize("told", ["[" * 15_000, "'" * 50_000, "['a', 'b", "{}", "\\", "[" * 1_000_000])
def test_metadata_that_no_exporter_writes_does_no_harm(told: str) -> None:
    assert isinstance(Origin("a (Add)", metadata={NAME_SCOPES: told}).scopes, tuple)


def test_the_reader_keeps_operator_version_and_metadata() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], name="/head/Softmax")
    node.metadata_props.add(key="note", value="kept")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4, 5])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)])
    nodes = list(read_model(model).graph.nodes)
    assert len(nodes) > 1  # opset 11 normalises over several axes, which other operators say
    for origin in {each.origin for each in nodes}:
        assert (origin.operator, origin.version, origin.metadata) == ("Softmax", 11, {"note": "kept"})
        assert names(origin) == ["head"]
        assert str(origin) == origin.path == "/head/Softmax (Softmax)"


def test_functions_are_modules_and_subgraphs_are_not() -> None:
    graph = read(
        """g (float[2] x, bool c) => (float[2] y, float[2] z) {
        [block] y = own.Block(x)
        [__m__If] z = If (c) <then_branch = t () => (float[2] p) { [__m__n__Neg] p = Neg(x) },
            else_branch = e () => (float[2] q) { [plain] q = Exp(x) }> }
        <domain: "own", opset_import: ["" : 20]> Block (a) => (b) { [one] t = Relu(a) [two] b = Selu(t) }"""
    )
    found = {node.op.name: [tuple(scope) for scope in node.origin.scopes] for node in graph.all_nodes()}
    assert found["Relu"] == [("block", "Block")]
    assert found["Neg"] == [("m", ""), ("n", "")]
    assert found["Exp"] == [("m", "")]


def test_expansions_copies_and_passes_keep_the_origin() -> None:
    graph = read("g (float[n] x) => (float[n] y) { [__a__Gelu] t = Gelu(x) [__b__Mish] y = Mish(t) }")
    origins = {node.origin for node in graph.nodes}
    assert not expand_until(graph, lambda node: not node.op.has("expand"))
    simplify(graph)
    assert len(graph) > 2
    assert {node.origin for node in clone(graph).nodes} == origins


def test_derived_origins_keep_their_modules() -> None:
    origin = Origin("/a/b/Add (Add)", "Add", 7)
    derived = origin.renamed(f"gradient of {origin}")
    assert names(derived) == ["a", "b"]
    assert names(derived.renamed("again")) == ["a", "b"]
    for copied in (copy.deepcopy(derived), pickle.loads(pickle.dumps(derived))):
        assert copied == derived
        assert hash(copied) == hash(derived)
        assert names(copied) == ["a", "b"]
    assert derived != origin
    assert origin
    assert not Origin()


def test_what_is_computed_once_more_says_so_and_not_by_its_name() -> None:
    again = Origin("a (Exp)", "Exp", 13).recomputed()
    assert again.is_recomputed
    assert again.recomputed() is again
    assert again.renamed("b").is_recomputed
    assert pickle.loads(pickle.dumps(again)) == again != Origin(again.path, "Exp", 13, base=again.base)
    assert not Origin(again.path).is_recomputed


@pytest.mark.parametrize(("mark", "left"), [("", 1), (" again", 2)])
def test_only_what_is_computed_once_more_is_not_merged(mark: str, left: int) -> None:
    text = f"""graph "g" (%x: float32[n]) -> (%a, %b) {{
  %a: float32[n] = Exp(%x) @"recomputed: a"{mark}
  %b: float32[n] = Exp(%x) @"b"
}}
"""
    graph = parse_graph(text)
    assert format_graph(graph).strip() == text.strip()
    simplify(graph)
    assert [node.op.name for node in graph.nodes].count("Exp") == left
