"""What is seen of every option of the commands that draw, compare, count, simplify, open and convert files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

Case = tuple[list[str], Callable[[Any], bool]]


def text(path: str) -> str:
    return Path(path).read_text()


def model(path: str) -> onnx.ModelProto:
    return onnx.load_model(path)


def operators(path: str) -> list[str]:
    return [node.op_type for node in model(path).graph.node]


def size(path: str) -> onnx.TensorShapeProto.Dimension:
    """The first size of a model's first input."""
    return model(path).graph.input[0].type.tensor_type.shape.dim[0]


PICTURES: dict[str, Case] = {
    "draw --output": (["relu.onnx", "-o", "o.svg"], lambda left: "<svg" in text("o.svg")),
    "draw --format": (["relu.onnx", "o.svg", "--format", "dot"], lambda left: "digraph" in text("o.svg")),
    "draw --depth": (["scoped.onnx", "o.dot", "--depth", "0"], lambda left: "2 nodes" in text("o.dot")),
    "draw --fold": (["scoped.onnx", "o.dot", "--no-fold"], lambda left: "the block above" not in text("o.dot")),
    "draw --shapes": (["relu.onnx", "o.dot", "--no-shapes"], lambda left: 'label="float[n]"' not in text("o.dot")),
    "draw --weights": (["demo.onnx", "o.dot", "--no-weights"], lambda left: "float[16×3×3×3]" not in text("o.dot")),
    "draw --layout": (["relu.onnx", "o.svg", "--layout", "zz"], lambda left: left.status == 2),
    "draw --force": (["relu.onnx", "relu.onnx", "--force", "--format", "dot"], lambda left: left.status == 0),
    "draw --json": (["relu.onnx", "o.svg", "--json"], lambda left: json.loads(left.out)["bytes"] > 100),
    "diff --html": (["relu.onnx", "other.onnx", "--html", "d.html"], lambda left: "<table>" in text("d.html")),
    "diff --json": (["relu.onnx", "relu.onnx", "--json"], lambda left: json.loads(left.out)["equal"]),
}


def page(path: str) -> Any:
    """What is embedded in a page that `view --html` wrote."""
    return json.loads(text(path).partition('id="intaglio-data">')[2].partition("</script>")[0])


PAGES: dict[str, Case] = {
    "view --html": (["relu.onnx", "--html", "p.html"], lambda left: len(page("p.html")["details"]) == 2),
    "view --weights": (
        ["demo.onnx", "--html", "p.html", "--weights"],
        lambda left: page("p.html")["weights"]["stem.weight"]["shape"] == [16, 3, 3, 3],
    ),
    "view --profile": (
        ["relu.onnx", "--html", "p.html", "--profile"],
        lambda left: page("p.html")["profile"]["total_us"] > 0,
    ),
    "view --dim": (
        ["demo.onnx", "--html", "p.html", "--dim", "batch=2"],
        lambda left: page("p.html")["stats"]["total"]["macs"] == 25_003_264,
    ),
}

COUNTS: dict[str, Case] = {
    "stats --dim": (["demo.onnx", "--dim", "batch=2"], lambda left: "25,003,264" in left.out),
    "stats --shape": (["demo.onnx", "--shape", "image:2,3,32,32"], lambda left: "25,003,264" in left.out),
    "stats --by": (["demo.onnx", "--by", "node", "-d", "batch=1"], lambda left: "block1.conv1" in left.out),
    "stats --depth": (["scoped.onnx", "--by", "scope", "--depth", "1"], lambda left: "m.0" in left.out),
    "stats --top": (["demo.onnx", "--top", "1", "-d", "batch=1"], lambda left: "Relu" not in left.out),
    "stats --json": (["demo.onnx", "--json"], lambda left: "77706" in left.out.replace(",", "")),
}

SIMPLE: dict[str, Case] = {
    "simplify --output": (["relu.onnx", "-o", "o.onnx"], lambda left: operators("o.onnx") == ["Exp"]),
    "simplify --in-place": (["relu.onnx", "--in-place"], lambda left: operators("relu.onnx") == ["Exp"]),
    "simplify --force": (["relu.onnx", "relu.onnx", "--force"], lambda left: operators("relu.onnx") == ["Exp"]),
    "simplify --disable": (["relu.onnx", "o.onnx", "--disable", "algebra"], lambda left: "Mul" in operators("o.onnx")),
    "simplify --only": (["relu.onnx", "o.onnx", "--only", "dead-code"], lambda left: "Mul" in operators("o.onnx")),
    "simplify --list": (["--list"], lambda left: "fold-constants" in left.out),
    "simplify --exact": (["normed.onnx", "o.onnx", "--exact"], lambda left: len(operators("o.onnx")) == 2),
    "simplify --keep": (["relu.onnx", "o.onnx", "--keep", "zz"], lambda left: "zz" in left.err),
    "simplify --check": (["relu.onnx", "o.onnx", "--check", "2"], lambda left: "2 random inputs" in left.out),
    "simplify --seed": (["relu.onnx", "o.onnx", "--check", "1", "--seed", "zz"], lambda left: left.status == 2),
    "simplify --dim": (["relu.onnx", "o.onnx", "--dim", "n=7"], lambda left: size("o.onnx").dim_value == 7),
    "simplify --shape": (["relu.onnx", "o.onnx", "--shape", "x:7"], lambda left: size("o.onnx").dim_value == 7),
    "simplify --test-input-shape": (
        ["relu.onnx", "o.onnx", "--check", "1", "--test-input-shape", "zz:7"],
        lambda left: "zz" in left.err,
    ),
    "simplify --outputs": (["relu.onnx", "o.onnx", "--outputs", "zz"], lambda left: "zz" in left.err),
    "simplify --no-large-tensor": (
        ["folds.onnx", "o.onnx", "--no-large-tensor", "8"],
        lambda left: "Exp" in operators("o.onnx"),
    ),
    "simplify --external-data": (["demo.onnx", "o.onnx", "--external-data"], lambda left: Path("o.onnx.data").exists()),
    "simplify --skip-optimization": (
        ["relu.onnx", "o.onnx", "--skip-optimization"],
        lambda left: "Mul" in operators("o.onnx"),
    ),
    "simplify --skip-constant-folding": (
        ["folds.onnx", "o.onnx", "--skip-constant-folding"],
        lambda left: "Exp" in operators("o.onnx"),
    ),
    "simplify --skip-fusion-patterns": (
        ["normed.onnx", "o.onnx", "--skip-fusion-patterns"],
        lambda left: len(operators("o.onnx")) == 2,
    ),
    "simplify --inputs": (["relu.onnx", "o.onnx", "--inputs", "x"], lambda left: "extract" in left.err),
    "simplify --dtype": (["relu.onnx", "o.onnx", "--dtype", "fp16"], lambda left: "set-dtype" in left.err),
    "simplify --custom-lib": (["relu.onnx", "o.onnx", "--custom-lib", "x"], lambda left: "extending" in left.err),
    "simplify --skip-shape-inference": (
        ["relu.onnx", "o.onnx", "--skip-shape-inference"],
        lambda left: "inferred" in left.err,
    ),
    "simplify --json": (["relu.onnx", "o.onnx", "--json"], lambda left: json.loads(left.out)["output"] == "o.onnx"),
}

OPENED: dict[str, Case] = {
    "make-dynamic --output": (["rows.onnx", "-o", "o.onnx"], lambda left: size("o.onnx").dim_param == "batch"),
    "make-dynamic --in-place": (["rows.onnx", "--in-place"], lambda left: size("rows.onnx").dim_param == "batch"),
    "make-dynamic --force": (["rows.onnx", "rows.onnx", "--force"], lambda left: left.status == 0),
    "make-dynamic --axis": (["rows.onnx", "o.onnx", "--axis", "9"], lambda left: left.status == 1),
    "make-dynamic --name": (["rows.onnx", "o.onnx", "--name", "k"], lambda left: size("o.onnx").dim_param == "k"),
    "make-dynamic --input": (["rows.onnx", "o.onnx", "-i", "zz"], lambda left: "zz" in left.err),
    "make-dynamic --sizes": (["rows.onnx", "o.onnx", "--sizes", "1,2,11"], lambda left: "11 rows" in left.out),
    "make-dynamic --seed": (["rows.onnx", "o.onnx", "--seed", "zz"], lambda left: left.status == 2),
    "make-dynamic --json": (["rows.onnx", "o.onnx", "--json"], lambda left: json.loads(left.out)["output"] == "o.onnx"),
}


def kinds(path: str) -> set[int]:
    """The types that the Casts of a model convert to."""
    return {node.attribute[0].i for node in model(path).graph.node if node.op_type == "Cast"}


def end_type(path: str) -> int:
    return model(path).graph.input[0].type.tensor_type.elem_type


HALF = ["--to", "float16"]
CONVERTED: dict[str, Case] = {
    "set-dtype --to": (
        ["relu.onnx", "o.onnx", "--to", "bfloat16"],
        lambda left: TensorProto.BFLOAT16 in kinds("o.onnx"),
    ),
    "set-dtype --output": (["relu.onnx", "-o", "o.onnx", *HALF], lambda left: TensorProto.FLOAT16 in kinds("o.onnx")),
    "set-dtype --in-place": (["relu.onnx", "--in-place", *HALF], lambda left: bool(kinds("relu.onnx"))),
    "set-dtype --force": (["relu.onnx", "relu.onnx", "--force", *HALF], lambda left: bool(kinds("relu.onnx"))),
    "set-dtype --keep": (["relu.onnx", "o.onnx", *HALF, "--keep", "Mul,Exp"], lambda left: not kinds("o.onnx")),
    "set-dtype --convert": (
        ["demo.onnx", "o.onnx", *HALF, "--convert", "Softmax"],
        lambda left: "Softmax" not in left.out,
    ),
    "set-dtype --keep-node": (["relu.onnx", "o.onnx", *HALF, "--keep-node", "zz"], lambda left: "zz" in left.err),
    "set-dtype --io": (["relu.onnx", "o.onnx", *HALF, "--io"], lambda left: end_type("o.onnx") == TensorProto.FLOAT16),
    "set-dtype --samples": (["relu.onnx", "o.onnx", *HALF, "--samples", "zz"], lambda left: left.status == 2),
    "set-dtype --seed": (["relu.onnx", "o.onnx", *HALF, "--seed", "zz"], lambda left: left.status == 2),
    "set-dtype --dim": (["relu.onnx", "o.onnx", *HALF, "--dim", "zz=3"], lambda left: "zz" in left.err),
    "set-dtype --json": (
        ["relu.onnx", "o.onnx", *HALF, "--json"],
        lambda left: json.loads(left.out)["type"] == "float16",
    ),
}

PROFILES: dict[str, Case] = {
    "profile --input": (["relu.onnx", "-i", "x=[[0]]", "--runs", "1"], lambda left: left.status == 1),
    "profile --dim": (["relu.onnx", "-d", "zz=3", "--runs", "1"], lambda left: "zz" in left.err),
    "profile --runs": (["relu.onnx", "--runs", "3"], lambda left: "3 runs" in left.out),
    "profile --rows": (["demo.onnx", "--runs", "1", "--rows", "1"], lambda left: "more rows" in left.out),
    "profile --threads": (["relu.onnx", "--runs", "1", "--threads", "1"], lambda left: "1 thread" in left.out),
    "profile --exact": (["demo.onnx", "--runs", "1", "--exact"], lambda left: "winograd" not in left.out),
    "profile --disable": (["relu.onnx", "--runs", "1", "--disable", "zz"], lambda left: "'zz'" in left.err),
    "profile --seed": (["relu.onnx", "--runs", "1", "--seed", "zz"], lambda left: left.status == 2),
    "profile --output": (["relu.onnx", "--runs", "1", "-o", "p.json"], lambda left: bool(json.loads(text("p.json")))),
    "profile --trace": (
        ["relu.onnx", "--runs", "1", "--trace", "t.json"],
        lambda left: bool(json.loads(text("t.json"))),
    ),
    "profile --html": (["relu.onnx", "--runs", "1", "--html", "p.html"], lambda left: "<html" in text("p.html")),
    "profile --against": (["relu.onnx", "--runs", "1", "--against", "zz.json"], lambda left: "zz.json" in left.err),
    "profile --json": (["relu.onnx", "--runs", "1", "--json"], lambda left: bool(json.loads(left.out))),
}

CASES = PICTURES | PAGES | COUNTS | SIMPLE | OPENED | CONVERTED | PROFILES

_HEADER = '<ir_version: 8, opset_import: ["" : 17]> '
_TEXTS = {
    "folds": "g (float[n, 4] x) => (float[n, 4] y) <float[4] w = {1, 2, 3, 4}> { a = Exp(w) y = Add(x, a) }",
    "rows": "g (float[3, 4] x) => (float[3, 4] y) { y = Exp(x) }",
    "normed": "g (float[1, 1, 4, 4] x) => (float[1, 1, 4, 4] y) <float[1, 1, 1, 1] k = {2}, float[1] s = {3},"
    " float[1] b = {1}, float[1] m = {0}, float[1] v = {1}> { a = Conv(x, k) y = BatchNormalization(a, s, b, m, v) }",
}


def write_models() -> None:
    """Write the files that the cases read, besides those of others."""
    for name, body in _TEXTS.items():
        onnx.save(onnx.parser.parse_model(_HEADER + body), f"{name}.onnx")
    parts = [("x", "a", "Relu", "/m.0/p"), ("a", "b", "Exp", "/m.0/q")]
    parts += [("b", "c", "Relu", "/m.1/p"), ("c", "d", "Exp", "/m.1/q")]
    nodes = [helper.make_node(operator, [old], [new], name) for old, new, operator, name in parts]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("x", "d")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:])), "scoped.onnx")
