"""What the page draws is what is in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.tools.edited_models import WITH_BODIES, WITH_FUNCTIONS
from tests.web.pages import HEADER, SMALL, write

import intaglio
from intaglio.cli.demo_model import demo_model
from intaglio.errors import InputError, LimitError, LoadError
from intaglio.tools.editing import Editor
from intaglio.web.opening import MOST_NODES, open_model
from intaglio.web.structure import CONSTANT, INITIALIZER, OUTSIDE, structure

Json = dict[str, Any]


def drawn(source: Any) -> Json:
    """The structure of a model, after a way through JSON."""
    opened = open_model(source)
    return json.loads(json.dumps(structure(opened, problems=Editor(opened.document).faults()), allow_nan=False))


def texts(data: Json, column: list[int]) -> list[str]:
    return ["" if place < 0 else data["strings"][place] for place in column]


def wiring(data: Json, graph: Json) -> list[tuple[str, list[str], list[str]]]:
    """The nodes of a graph with the names of what they read and make."""
    names = texts(data, graph["values"]["name"])

    def spelled(places: list[int]) -> list[str]:
        return ["" if place < 0 else names[place] for place in places]

    nodes = graph["nodes"]
    rows = zip(texts(data, nodes["op"]), nodes["inputs"], nodes["outputs"], strict=True)
    return [(op, spelled(inputs), spelled(outputs)) for op, inputs, outputs in rows]


@pytest.mark.parametrize("name", ["light_squeezenet", "light_resnet50", "light_bvlc_alexnet"])
def test_official_models_are_drawn_as_they_are(name: str) -> None:
    path = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"{name}.onnx"
    data, model = drawn(path), onnx.load_model(path)
    expected = [(node.op_type, list(node.input), list(node.output)) for node in model.graph.node]
    constants = {out for op, _, outs in expected if op == "Constant" for out in outs}
    assert wiring(data, data["graphs"][0]) == [row for row in expected if row[0] != "Constant"]
    values = data["graphs"][0]["values"]
    kinds = dict(zip(texts(data, values["name"]), values["kind"], strict=True))
    assert {name for name, kind in kinds.items() if kind == CONSTANT} == constants
    stored = {tensor.name for tensor in model.graph.initializer}
    assert {name for name, kind in kinds.items() if kind == INITIALIZER} == stored
    assert data["faults"] == []


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_have_their_wiring(seed: int) -> None:
    generator = np.random.default_rng(seed)
    names, nodes = ["x", ""], list[onnx.NodeProto]()
    for place in range(60):
        count = int(generator.integers(1, 5))
        inputs = [names[int(generator.integers(len(names)))] for _ in range(count)]
        nodes.append(helper.make_node("Custom", inputs, [f"v{place}"], f"m/{place % 7}/n{place}", domain="own"))
        names.append(f"v{place}")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "v59")]
    data = drawn(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:])))
    expected = [("Custom", list(node.input), list(node.output)) for node in nodes]
    assert wiring(data, data["graphs"][0]) == expected
    scopes = data["scopes"]
    assert all(parent < row for row, parent in enumerate(scopes["parent"]))


def test_bodies_and_functions_are_graphs_of_their_own() -> None:
    data = drawn(onnx.parser.parse_model(WITH_BODIES))
    kinds = [graph["kind"] for graph in data["graphs"]]
    assert kinds == ["main", "body", "body"]
    owner, attribute = data["graphs"][1]["owner"]
    main = data["graphs"][0]
    assert texts(data, main["nodes"]["op"])[main["nodes"]["id"].index(owner)] == "If"
    assert data["strings"][attribute] == "then_branch"
    assert main["nodes"]["bodies"] == {str(owner): [1, 2]}
    body = data["graphs"][1]["values"]
    outside = {n for n, kind in zip(texts(data, body["name"]), body["kind"], strict=True) if kind == OUTSIDE}
    assert outside == {"r"}
    data = drawn(onnx.parser.parse_model(WITH_FUNCTIONS))
    assert [graph["kind"] for graph in data["graphs"]].count("function") == 2


def test_repeated_blocks_are_scopes_with_a_template() -> None:
    nodes, last = list[onnx.NodeProto](), "x"
    for block in range(5):
        for op in ("Relu", "Sigmoid", "Tanh", "Neg", "Exp"):
            nodes.append(helper.make_node(op, [last], [f"{op}{block}"]))
            last = f"{op}{block}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", last)]
    scopes = drawn(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:])))["scopes"]
    assert scopes["kind"] == [0, 1, 1, 1, 1, 1]
    assert scopes["repeats"] == [-1, -1, 1, 1, 1, 1]


def test_faults_name_their_nodes() -> None:
    text = HEADER + "g (float[2] x) => (float[2] y) { [a] m = Relu(nowhere) [b] n = Unknown(x) [c] y = Add(x, x) }"
    data = drawn(onnx.parser.parse_model(text))
    assert {fault["node"] for fault in data["faults"]} == {0, 1}
    assert "nowhere" in next(fault["text"] for fault in data["faults"] if fault["node"] == 0)


def test_external_data_that_is_missing_is_no_hindrance(tmp_path: Path) -> None:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="gone.bin")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weight])
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    data = drawn(path)
    assert wiring(data, data["graphs"][0]) == [("Add", ["x", "w"], ["y"])]
    assert any("gone.bin" in fault["text"] for fault in data["faults"])


def test_cycles_and_names_that_are_there_twice_are_drawn() -> None:
    nodes = [helper.make_node("Relu", ["b"], ["a"]), helper.make_node("Neg", ["a"], ["b"]),
             helper.make_node("Exp", ["a"], ["b"])]  # fmt: skip
    data = drawn(helper.make_model(helper.make_graph(nodes, "g", [], [])))
    assert [row[1:] for row in wiring(data, data["graphs"][0])] == [(["b"], ["a"]), (["a"], ["b"]), (["a"], ["b"])]
    assert data["faults"]


def test_a_long_graph_without_names_takes_linear_work() -> None:
    """Blocks of four operators with other wiring each were compared again and again."""
    generator, nodes, names = np.random.default_rng(0), list[onnx.NodeProto](), ["x"]
    for place in range(4000):
        other = names[int(generator.integers(max(0, len(names) - 20), len(names)))]
        op = ("Add", "Relu", "Mul", "Sigmoid")[place % 4]
        inputs = [names[-1], other] if op in ("Add", "Mul") else [names[-1]]
        nodes.append(helper.make_node(op, inputs, [f"v{place}"]))
        names.append(f"v{place}")
    data = drawn(helper.make_model(helper.make_graph(nodes, "g", [], [])))
    assert len(data["graphs"][0]["nodes"]["id"]) == 4000


def test_too_many_nodes_are_refused() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    model = helper.make_model(helper.make_graph([node] * (MOST_NODES + 1), "g", [], []))
    with pytest.raises(LimitError, match="200,001 nodes"):
        open_model(model)


def test_long_names_are_cut() -> None:
    name = "n" * 1_000_000
    data = drawn(helper.make_model(helper.make_graph([helper.make_node("Relu", [name], ["y"], name)], name, [], [])))
    assert max(map(len, data["strings"])) < 20_000


def test_compiled_models_and_folders_are_opened(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    source = write(tmp_path / "one" / "any.onnx")
    intaglio.load(source, simplify=False).save_compiled(tmp_path / "m.intaglio")
    compiled = drawn(tmp_path / "m.intaglio")
    assert [row[0] for row in wiring(compiled, compiled["graphs"][0])] == ["MatMul", "Relu", "Add"]
    assert ["kind", "compiled model"] in compiled["about"]
    assert drawn(tmp_path / "one")["file"] == "any.onnx"
    write(tmp_path / "one" / "other.onnx")
    with pytest.raises(InputError, match="2 models"):
        open_model(tmp_path / "one")
    (tmp_path / "none").mkdir()
    with pytest.raises(LoadError, match="holds no model"):
        open_model(tmp_path / "none")


def test_programs_of_torch_export_are_opened(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    program = torch.export.export(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()), (torch.zeros(2, 3),))
    torch.export.save(program, tmp_path / "m.pt2")
    data = drawn(tmp_path / "m.pt2")
    assert "Relu" in [row[0] for row in wiring(data, data["graphs"][0])]
    (tmp_path / "bad.pt2").write_bytes(b"no program")
    with pytest.raises(LoadError, match=r"bad\.pt2"):
        open_model(tmp_path / "bad.pt2")


def test_loaded_models_and_messages_are_opened() -> None:
    assert drawn(demo_model())["graphs"][0]["nodes"]["id"]
    model = intaglio.load(onnx.parser.parse_model(SMALL))
    assert [row[0] for row in wiring(drawn(model), drawn(model)["graphs"][0])] == ["MatMul", "Relu", "Add"]
