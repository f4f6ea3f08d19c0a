"""Models whose structure is hostile: malformed, nested, recursive, huge, lying."""

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

VALUE = helper.make_tensor_value_info
OPSET = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
RELU = helper.make_node("Relu", ["x"], ["y"])


def model(nodes: Sequence[onnx.NodeProto], initializers: Sequence[TensorProto] = (), **parts) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", [VALUE("x", 1, [4])], [VALUE("y", 1, None)], initializers)
    return helper.make_model(graph, opset_imports=OPSET, **parts)


def nested_if(depth: int) -> onnx.ModelProto:
    """A model `depth` Ifs deep, put together without the recursion limit of the parser in the way."""
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["leaf"])], "b", [], [VALUE("leaf", 1, [4])])
    for level in range(depth):
        node = helper.make_node("If", ["c"], [f"v{level}"], then_branch=graph, else_branch=graph if level < 3 else LEAF)
        graph = helper.make_graph([node], "b", [], [VALUE(f"v{level}", 1, [4])])
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
        *graph.node,
        helper.make_node("Identity", [graph.output[0].name], ["y"]),
    ]
    return model(nodes)


LEAF = helper.make_graph([helper.make_node("Identity", ["x"], ["leaf2"])], "b", [], [VALUE("leaf2", 1, [4])])


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def deep_bytes(depth: int) -> bytes:
    """A graph in an attribute in a node in a graph, `depth` times, written by hand."""
    data = b""
    for _ in range(depth):
        for field in (6, 5, 1):  # AttributeProto.g, NodeProto.attribute, GraphProto.node
            data = varint(field << 3 | 2) + varint(len(data)) + data
    return b"\x08\x08" + varint(7 << 3 | 2) + varint(len(data)) + data


def deep_type(depth: int) -> onnx.ModelProto:
    proto = helper.make_tensor_type_proto(1, [4])
    for _ in range(depth):
        proto = helper.make_sequence_type_proto(proto)
    result = model([RELU])
    result.graph.input.add(name="s", type=proto)
    return result


def function(name: str, nodes: list[onnx.NodeProto]) -> onnx.FunctionProto:
    return helper.make_function("f", name, ["a"], ["b"], nodes, OPSET)


def call(name: str, source: str, target: str) -> onnx.NodeProto:
    return helper.make_node(name, [source], [target], domain="f")


def recursive_through_if() -> onnx.ModelProto:
    branch = helper.make_graph([call("F", "a", "z")], "b", [], [VALUE("z", 1, None)])
    nodes = [
        helper.make_node("Cast", ["a"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["b"], then_branch=branch, else_branch=branch),
    ]
    return model([call("F", "x", "y")], functions=[function("F", nodes)])


def billion_laughs(count: int = 40) -> onnx.ModelProto:
    functions = [function(f"F{i}", [call(f"F{i + 1}", "a", "m"), call(f"F{i + 1}", "m", "b")]) for i in range(count)]
    functions.append(function(f"F{count}", [helper.make_node("Relu", ["a"], ["b"])]))
    return model([call("F0", "x", "y")], functions=functions)


def chain_of_functions(count: int) -> onnx.ModelProto:
    functions = [function(f"F{i}", [call(f"F{i + 1}", "a", "b")]) for i in range(count)]
    functions.append(function(f"F{count}", [helper.make_node("Relu", ["a"], ["b"])]))
    return model([call("F0", "x", "y")], functions=functions)


def many_nodes(count: int) -> onnx.ModelProto:
    nodes = [helper.make_node("Relu", [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(count)]
    return model([*nodes, helper.make_node("Relu", [f"v{count}"], ["y"])])


def backwards(count: int) -> onnx.ModelProto:
    result = many_nodes(count)
    nodes = list(result.graph.node)[::-1]
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    return result


def many_unknown(count: int) -> onnx.ModelProto:
    return model([helper.make_node("Relu", [f"nothing{i}"], [f"v{i}"]) for i in range(count)])


def tensor(dims: Sequence[int], data_type: int = TensorProto.FLOAT, **fields) -> TensorProto:
    return TensorProto(name="w", dims=dims, data_type=data_type, **fields)


def with_tensor(proto: TensorProto) -> onnx.ModelProto:
    return model([helper.make_node("Identity", ["w"], ["y"])], [proto])


def sparse(dims: Sequence[int], indices: Sequence[int], values: int | None = None) -> onnx.ModelProto:
    result = model([helper.make_node("Identity", ["w"], ["y"])])
    proto = result.graph.sparse_initializer.add(dims=dims)
    count = len(indices) if values is None else values
    proto.values.CopyFrom(numpy_helper.from_array(np.ones(count, np.float32), "w"))
    proto.indices.CopyFrom(numpy_helper.from_array(np.asarray(indices, np.int64), "i"))
    return result


def attribute_of_wrong_kind() -> onnx.ModelProto:
    return model([helper.make_node("Softmax", ["x"], ["y"], axis=1.5)])


def text_bytes() -> bytes:
    return b"# a model\n\nThis is not ONNX, it is text.\n" * 20


def invalid_utf8() -> bytes:
    return (
        model([helper.make_node("Relu", ["x"], ["y"], name="abcdef")])
        .SerializeToString()
        .replace(b"abcdef", b"ab\xff\xfeef")
    )


BOMB = helper.make_node("Concat", ["x"] * 100_000, ["y"], axis=0)

Make = Callable[[], onnx.ModelProto | bytes]
CASES: dict[str, tuple[Make, str, str]] = {
    "empty file": (lambda: b"", "LoadError", "is empty"),
    "text file": (text_bytes, "LoadError", "not an ONNX model"),
    "garbage": (lambda: random.Random(1).randbytes(5000), "LoadError", "not an ONNX model"),
    "zeros": (lambda: bytes(1000), "LoadError", "not an ONNX model"),
    "truncated": (lambda: many_nodes(50).SerializeToString()[:-5], "LoadError", "cut short"),
    "empty message": (lambda: onnx.ModelProto(ir_version=8).SerializeToString(), "LoadError", "no graph"),
    "empty graph": (
        lambda: helper.make_model(helper.make_graph([], "g", [], []), opset_imports=OPSET),
        "LoadError",
        "no outputs",
    ),
    "another message": (lambda: numpy_helper.from_array(np.zeros(3)).SerializeToString(), "LoadError", "no"),
    "invalid utf-8": (invalid_utf8, "LoadError", "not UTF-8"),
    "if 20 deep": (lambda: nested_if(20), "ok", ""),
    "if 64 deep": (lambda: deep_bytes(64), "LoadError", "nested more than 100"),
    "if 1000 deep": (lambda: deep_bytes(1000), "LoadError", "nested more than 100"),
    "if 100000 deep": (lambda: deep_bytes(20_000), "LoadError", "nested more than 100"),
    "sequence of sequences": (lambda: deep_type(30), "LoadError", "nested more than 16"),
    "function calls itself": (
        lambda: model([call("F", "x", "y")], functions=[function("F", [call("F", "a", "b")])]),
        "LoadError",
        "f::F -> f::F",
    ),
    "functions call each other": (
        lambda: model(
            [call("F", "x", "y")],
            functions=[function("F", [call("G", "a", "b")]), function("G", [call("F", "a", "b")])],
        ),
        "LoadError",
        "f::F -> f::G -> f::F",
    ),
    "recursion through an if": (recursive_through_if, "LoadError", "f::F -> f::F"),
    "billion laughs": (billion_laughs, "LimitError", f"{2**40} nodes"),
    "chain of 1000 functions": (lambda: chain_of_functions(1000), "LimitError", "deep"),
    "cycle": (
        lambda: model([helper.make_node("Add", ["x", "b"], ["a"], "p"), helper.make_node("Relu", ["a"], ["b"], "q")]),
        "LoadError",
        "p (Add) -> q (Relu) -> p (Add)",
    ),
    "self loop": (lambda: model([helper.make_node("Add", ["x", "y"], ["y"], "p")]), "LoadError", "p (Add) -> p (Add)"),
    "duplicate output": (
        lambda: model([helper.make_node("Relu", ["x"], ["y"], "p"), helper.make_node("Abs", ["x"], ["y"], "q")]),
        "LoadError",
        "q (Abs): defines 'y'",
    ),
    "output that is an input": (lambda: model([helper.make_node("Relu", ["x"], ["x"], "p")]), "LoadError", "p (Relu)"),
    "dangling name": (lambda: model([helper.make_node("Relu", ["z"], ["y"], "p")]), "LoadError", "p (Relu): reads 'z'"),
    "duplicate initializer": (
        lambda: model([RELU], [tensor([1], float_data=[1.0]), tensor([1], float_data=[1.0])]),
        "LoadError",
        "'w'",
    ),
    "nodes in the wrong order": (lambda: backwards(2000), "ok", "sorted"),
    "100000 nodes": (lambda: many_nodes(100_000), "ok", ""),
    "100000 inputs": (lambda: model([BOMB]), "ok", ""),
    "20000 problems": (lambda: many_unknown(20_000), "LoadError", "and 19981 more"),
    "64 MB name": (
        lambda: model([helper.make_node("Relu", ["z" * 2**26], ["y"], "n" * 2**26)]),
        "LoadError",
        "nothing",
    ),
    "overflowing dims": (lambda: with_tensor(tensor([2**40, 2**40])), "LoadError", "overflows"),
    "overflow around zero": (lambda: with_tensor(tensor([2**62, 2**62, 0])), "LoadError", "overflows"),
    "negative dims": (lambda: with_tensor(tensor([-4], raw_data=b"1234")), "LoadError", "negative dimension"),
    "two negative dims": (lambda: with_tensor(tensor([-1, -1], raw_data=b"1234")), "LoadError", "negative dimension"),
    "1000 dims": (lambda: with_tensor(tensor([1] * 1000, raw_data=b"1234")), "LoadError", "at most 64"),
    "raw data short": (lambda: with_tensor(tensor([4], raw_data=b"1234")), "LoadError", "expected 16"),
    "raw data long": (lambda: with_tensor(tensor([1], raw_data=b"12345678")), "LoadError", "expected 4"),
    "huge claim without data": (lambda: with_tensor(tensor([2**40])), "LoadError", "expected 1099511627776"),
    "raw and typed": (lambda: with_tensor(tensor([1], raw_data=b"1234", float_data=[1.0])), "LoadError", "both raw"),
    "typed data of another type": (lambda: with_tensor(tensor([1], int64_data=[1])), "LoadError", "int64_data"),
    "sub-byte short": (lambda: with_tensor(tensor([5], TensorProto.INT4, raw_data=b"12")), "LoadError", "expected 3"),
    "sub-byte long": (lambda: with_tensor(tensor([3], TensorProto.INT2, raw_data=b"12")), "LoadError", "expected 1"),
    "sub-byte typed": (lambda: with_tensor(tensor([5], TensorProto.INT4, int32_data=[1])), "LoadError", "expected 3"),
    "unknown element type": (lambda: with_tensor(tensor([1], 999, raw_data=b"1")), "LoadError", "element type 999"),
    "undefined element type": (lambda: with_tensor(tensor([1], 0, raw_data=b"1")), "LoadError", "no element type"),
    "raw strings": (lambda: with_tensor(tensor([1], TensorProto.STRING, raw_data=b"1")), "LoadError", "string_data"),
    "segment": (
        lambda: with_tensor(tensor([1], raw_data=b"1234", segment=TensorProto.Segment(begin=0, end=1))),
        "LoadError",
        "segments",
    ),
    "sparse index out of range": (lambda: sparse([4], [1, 4]), "LoadError", "outside of the shape"),
    "negative sparse index": (lambda: sparse([4], [-1, 2]), "LoadError", "outside of the shape"),
    "sparse index twice": (lambda: sparse([4], [2, 2]), "LoadError", "ascending"),
    "sparse counts differ": (lambda: sparse([4], [1, 2], 3), "LoadError", "indices of shape"),
    "sparse bomb": (lambda: sparse([2**32], [1]), "LimitError", "when dense"),
    "declared rank lies": (lambda: _declared([2, 2]), "ok", "the ranks 2 and 1 differ"),
    "declared dimension lies": (lambda: _declared([5]), "ok", "axis 0 has the size 4"),
    "attribute of the wrong kind": (attribute_of_wrong_kind, "LoadError", "kind FLOAT, expected INT"),
    "axis out of range": (lambda: model([helper.make_node("Softmax", ["x"], ["y"], axis=7)]), "ShapeError", "Softmax"),
    "list that does not fit the rank": (
        lambda: model([helper.make_node("Transpose", ["x"], ["y"], perm=[0, 1, 2])]),
        "ShapeError",
        "Transpose",
    ),
    "attribute injection": (
        lambda: model([helper.make_node("Relu", ["x"], ["y"], "p", __class__="x", __init__=3)]),
        "LoadError",
        "p (Relu): has the attribute '__class__'",
    ),
    "absurd opset": (
        lambda: helper.make_model(model([RELU]).graph, opset_imports=[helper.make_opsetid("", -3)]),
        "LoadError",
        "version -3",
    ),
}


def _declared(shape: list[int]) -> onnx.ModelProto:
    result = model([RELU])
    result.graph.output[0].CopyFrom(VALUE("y", 1, shape))
    return result


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, read_hostile):
    folder = tmp_path_factory.mktemp("structure")
    paths: dict[str, Path] = {}
    for index, (name, (make, _, _)) in enumerate(CASES.items()):
        content = make()
        paths[name] = folder / f"{index}.onnx"
        paths[name].write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    return read_hostile(paths)


@pytest.mark.parametrize("name", CASES)
def test_outcome(name, outcomes):
    found = outcomes[name]
    _, outcome, text = CASES[name]
    assert (found.outcome, text in found.text) == (outcome, True), found
    assert len(found.text) < 30_000


def test_mutated_models_end_in_a_model_or_in_our_exceptions(tmp_path, read_hostile):
    """A seeded fuzzer: bytes flipped, cut out and repeated in small models of every kind above."""
    random_numbers = random.Random(20)
    seeds = [
        nested_if(3),
        billion_laughs(3),
        many_nodes(5),
        sparse([4], [1, 2]),
        with_tensor(tensor([1], raw_data=b"1234")),
    ]
    paths = {}
    for index in range(int(os.environ.get("INTAGLIO_FUZZ", "300"))):
        data = bytearray(random_numbers.choice(seeds).SerializeToString())
        for _ in range(random_numbers.randint(1, 4)):
            place = random_numbers.randrange(len(data))
            match random_numbers.randrange(3):
                case 0:
                    data[place] = random_numbers.randrange(256)
                case 1:
                    del data[place : place + random_numbers.randint(1, 8)]
                case _:
                    data[place:place] = data[place : place + random_numbers.randint(1, 16)]
        paths[str(index)] = tmp_path / f"{index}.onnx"
        paths[str(index)].write_bytes(data)
    found = read_hostile(paths)
    known = {"ok", "LoadError", "LimitError", "ShapeError", "UnsupportedError", "ExternalDataError", "GraphError"}
    assert {name: outcome for name, outcome in found.items() if outcome.outcome not in known} == {}
