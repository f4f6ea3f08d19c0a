"""What is seen of every option of the commands that change files, for tests/test_obeyed.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

Case = tuple[list[str], Callable[[Any], bool]]

NEEDED: dict[str, list[str]] = {
    "extract": ["--to", "a"],
    "merge": [],
    "rename": ["--value", "a=b"],
    "set-shape": ["--dim", "n=3"],
    "set-opset": [],
    "layout": [],
    "add-outputs": ["--name", "a"],
    "inline": [],
    "edit": [],
    "prune": [],
    "dedupe": [],
    "strip": [],
    "restore": ["--random", "1"],
    "externalize": [],
    "internalize": [],
    "convert": [],
}
"""The commands, and what each needs besides files."""

FIRST = {"set-opset": ["20"], "layout": ["nhwc"], "edit": ["edit.py"]}
"""What stands before the files."""

WITHOUT_PLACE = {"merge", "convert"}
WITHOUT_SCRIPT = {"edit", "strip", "restore", "externalize", "internalize", "convert"}


def model(name: str) -> onnx.ModelProto:
    return onnx.load_model(name, load_external_data=False)


def names(path: str) -> set[str]:
    graph = model(path).graph
    return {each for node in graph.node for each in (*node.input, *node.output)} | {i.name for i in graph.output}


def shared(verb: str) -> dict[str, Case]:
    """The options that all commands have."""
    before, source = FIRST.get(verb, []), ["picture.onnx"] if verb == "layout" else ["relu.onnx"]
    files = [*source, *source] if verb == "merge" else source
    more = [*NEEDED[verb], *(["--prefix", "p_"] if verb == "merge" else [])]
    cases: dict[str, Case] = {
        "--output": ([*before, *files, "-o", "out.onnx", *more], lambda left: Path("out.onnx").exists()),
        "--force": ([*before, *files, "-o", source[0], "--force", *more], lambda left: left.status == 0),
        "--json": (
            [*before, *files, "-o", "out.onnx", "--json", *more],
            lambda left: json.loads(left.out)["output"] == "out.onnx",
        ),
    }
    if verb not in WITHOUT_PLACE:
        cases["--in-place"] = ([*before, *files, "--in-place", *more], lambda left: left.status == 0)
    if verb not in WITHOUT_SCRIPT:
        words = [*before, *files, "-o", "out.onnx", "--script", "log.py", *more]
        cases["--script"] = (words, lambda left: "editor." in Path("log.py").read_text())
    return {f"{verb} {option}": case for option, case in cases.items()}


OWN: dict[str, Case] = {
    "extract --from": (
        ["relu.onnx", "o.onnx", "--from", "a"],
        lambda left: [info.name for info in model("o.onnx").graph.input] == ["a"],
    ),
    "extract --to": (
        ["relu.onnx", "o.onnx", "--to", "a"],
        lambda left: [info.name for info in model("o.onnx").graph.output] == ["a"],
    ),
    "merge --connect": (
        ["relu.onnx", "relu.onnx", "o.onnx", "--prefix", "p_", "--connect", "a=x"],
        lambda left: model("o.onnx").graph.node[2].input[0] == "a",
    ),
    "merge --prefix": (["relu.onnx", "relu.onnx", "o.onnx", "--prefix", "p_"], lambda left: "p_y" in names("o.onnx")),
    "merge --keep-outputs": (
        ["relu.onnx", "relu.onnx", "o.onnx", "--prefix", "p_", "--keep-outputs"],
        lambda left: len(model("o.onnx").graph.output) == 2,
    ),
    "rename --value": (["relu.onnx", "o.onnx", "--value", "a=b"], lambda left: "b" in names("o.onnx")),
    "rename --node": (
        ["demo.onnx", "o.onnx", "--node", "logits=b"],
        lambda left: "b" in [node.name for node in model("o.onnx").graph.node],
    ),
    "rename --dim": (
        ["relu.onnx", "o.onnx", "--dim", "n=b"],
        lambda left: model("o.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_param == "b",
    ),
    "rename --pattern": (["relu.onnx", "o.onnx", "--pattern", "s/a/b/"], lambda left: "b" in names("o.onnx")),
    "set-shape --shape": (
        ["relu.onnx", "o.onnx", "--shape", "x=7"],
        lambda left: model("o.onnx").graph.output[0].type.tensor_type.shape.dim[0].dim_value == 7,
    ),
    "set-shape --dim": (
        ["relu.onnx", "o.onnx", "--dim", "n=7"],
        lambda left: model("o.onnx").graph.output[0].type.tensor_type.shape.dim[0].dim_value == 7,
    ),
    "set-opset --domain": (["3", "relu.onnx", "o.onnx", "--domain", "zz"], lambda left: "zz" in left.err),
    "layout --input": (["nhwc", "demo.onnx", "o.onnx", "--input", "zz"], lambda left: "'zz'" in left.err),
    "layout --output-name": (["nhwc", "demo.onnx", "o.onnx", "--output-name", "zz"], lambda left: "'zz'" in left.err),
    "add-outputs --name": (["relu.onnx", "o.onnx", "--name", "a"], lambda left: "a" in names("o.onnx")),
    "add-outputs --all": (["relu.onnx", "o.onnx", "--all"], lambda left: len(model("o.onnx").graph.output) == 2),
    "inline --function": (["relu.onnx", "o.onnx", "--function", "zz"], lambda left: "'zz'" in left.err),
    "prune --inputs": (["unread.onnx", "o.onnx", "--inputs"], lambda left: len(model("o.onnx").graph.input) == 1),
    "strip --threshold": (
        ["relu.onnx", "o.onnx", "--threshold", "4"],
        lambda left: model("o.onnx").graph.initializer[0].data_location == onnx.TensorProto.EXTERNAL,
    ),
    "restore --from": (["relu.onnx", "o.onnx", "--from", "none.npz"], lambda left: "none.npz" in left.err),
    "restore --random": (["relu.onnx", "o.onnx", "--random", "-1"], lambda left: left.status == 2),
    "externalize --location": (
        ["demo.onnx", "o.onnx", "--location", "zz.bin"],
        lambda left: Path("zz.bin").stat().st_size > 1000,
    ),
    "externalize --threshold": (
        ["relu.onnx", "o.onnx", "--threshold", "4"],
        lambda left: model("o.onnx").graph.initializer[0].data_location == onnx.TensorProto.EXTERNAL,
    ),
    "convert --to": (["relu.onnx", "o.txt", "--to", "json"], lambda left: bool(json.loads(Path("o.txt").read_text()))),
    "convert --as": (["relu.onnx", "o.onnx", "--as", "json"], lambda left: left.status == 1),
    "convert --weights": (
        ["demo.onnx", "o.json", "--weights"],
        lambda left: "base64" in Path("o.json").read_text(),
    ),
}


def verb_cases() -> dict[str, Case]:
    """All options of the commands that change files."""
    return {key: case for verb in NEEDED for key, case in shared(verb).items()} | OWN


def write_models() -> None:
    """Write the files that the cases read, besides those of others."""
    Path("edit.py").write_text("editor.rename_value('a', 'b')\n")
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x, float[n] u) => (float[n] y) { y = Exp(x) }'
    onnx.save(onnx.parser.parse_model(text), "unread.onnx")
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 3, 4, 4] x) => (float[n, 3, 4, 4] y) { y = Exp(x) }'
    onnx.save(onnx.parser.parse_model(text), "picture.onnx")
