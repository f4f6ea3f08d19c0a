from __future__ import annotations

import random
import shutil
import sys
import xml.etree.ElementTree as xml
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

import intaglio.tools
from intaglio.errors import InputError, UnsupportedError
from intaglio.tools.document import read_document
from intaglio.tools.drawing import picture
from intaglio.tools.drawing.boxes import Box
from intaglio.tools.drawing.layered import back_edges, layered_layout, layers_of
from intaglio.tools.drawing.nested import Place, nested_layout
from intaglio.tools.drawing.picture import Choices

SVG = "{http://www.w3.org/2000/svg}"


def random_graph(seed: int, count: int = 60) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
    dice = random.Random(seed)
    sizes = [(dice.uniform(20, 120), dice.uniform(10, 60)) for _ in range(count)]
    edges = [(max(0, box - dice.randint(1, 6)), box) for box in range(1, count)]
    for _ in range(count // 3):
        first, second = sorted(dice.sample(range(count), 2))
        edges.append((first, second))
    return sizes, edges


@pytest.mark.parametrize("seed", range(12))
def test_boxes_do_not_overlap_and_edges_go_down(seed: int) -> None:
    sizes, edges = random_graph(seed)
    layout = layered_layout(sizes, edges)
    boxes = [
        (x - w / 2, y - h / 2, x + w / 2, y + h / 2) for x, y, (w, h) in zip(layout.x, layout.y, sizes, strict=True)
    ]
    for a in range(len(boxes)):
        for b in range(a):
            assert not overlap(boxes[a], boxes[b]), (a, b)
    for (source, target), points in zip(edges, layout.points, strict=True):
        heights = [boxes[source][3], *(y for _, y in points), boxes[target][1]]
        assert all(above <= below + 1e-6 for above, below in pairwise(heights))
    assert min(left for left, *_ in boxes) >= -1e-6
    assert max(right for _, _, right, _ in boxes) <= layout.width + 1e-6
    assert max(bottom for *_, bottom in boxes) <= layout.height + 1e-6


def overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    slack = 1e-6
    return a[0] + slack < b[2] and b[0] + slack < a[2] and a[1] + slack < b[3] and b[1] + slack < a[3]


def test_edges_that_close_a_cycle_are_turned() -> None:
    assert back_edges(3, [(0, 1), (1, 2), (2, 0), (1, 1)]) == [False, False, True, False]
    layout = layered_layout([(10, 10)] * 3, [(0, 1), (1, 2), (2, 0)])
    assert layout.y[0] < layout.y[1] < layout.y[2]


def test_a_box_lies_near_to_its_readers() -> None:
    chain = [(box, box + 1) for box in range(5)]
    assert layers_of(7, [*chain, (6, 5)]) == [0, 1, 2, 3, 4, 5, 4]


def test_a_chain_is_straight_and_a_diamond_is_even() -> None:
    layout = layered_layout([(40, 20), (80, 20), (20, 20)], [(0, 1), (1, 2)])
    assert layout.x[0] == pytest.approx(layout.x[1]) == pytest.approx(layout.x[2])
    diamond = layered_layout([(40, 20)] * 4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert diamond.x[0] == pytest.approx(diamond.x[3])
    assert diamond.x[0] - diamond.x[1] == pytest.approx(diamond.x[2] - diamond.x[0])


def scoped(blocks: int = 4, named: bool = True) -> onnx.ModelProto:
    """Residual blocks behind each other, with the names that PyTorch's exporter gives."""
    nodes, last = list[onnx.NodeProto](), "x"
    for block in range(blocks):
        names = [f"/net/layer.{block}/{part}" if named else "" for part in ("fc/MatMul", "Relu", "fc/Add", "Add")]
        nodes += [
            helper.make_node("MatMul", [last, f"w{block}"], [f"a{block}"], names[0]),
            helper.make_node("Add", [f"a{block}", "b"], [f"b{block}"], names[2]),
            helper.make_node("Relu", [f"b{block}"], [f"c{block}"], names[1]),
            helper.make_node("Add", [f"c{block}", last], [f"y{block}"], names[3]),
        ]
        last = f"y{block}"
    weights = [helper.make_tensor(f"w{k}", TensorProto.FLOAT, [2, 2], [1.0, 0, 0, 1]) for k in range(blocks)]
    weights.append(helper.make_tensor("b", TensorProto.FLOAT, [2], [0.5, 0.25]))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in ("x", last)]
    return helper.make_model(helper.make_graph(nodes, "net", ends[:1], ends[1:], weights))


def titles(box: Box) -> Any:
    return {inner.title: titles(inner) for inner in box.inside} if box.inside else [box.title, *box.lines]


def test_modules_are_groups_and_repeats_are_folded() -> None:
    root = picture(read_document(scoped())).root
    (net,) = [box for box in root.inside if box.kind == "group"]
    assert [box.title for box in net.inside] == ["layer.0", "layer.1 … layer.3"]
    assert net.inside[1].lines == ["3 × the block above"]
    assert titles(net.inside[0]) == {
        "fc": {"MatMul": ["MatMul", "float[2×2]"], "Add": ["Add", "float[2]"]},
        "Relu": ["Relu"],
        "Add": ["Add"],
    }


def test_blocks_are_found_without_names() -> None:
    drawing = picture(read_document(scoped(named=False)))
    assert [box.title for box in drawing.root.inside] == ["x", "block 1", "block 2 … block 4", "y3"]


def test_all_nodes_are_drawn_without_folding() -> None:
    model = scoped()
    drawing = picture(read_document(model), Choices(fold=False))
    drawn = [box.number for box in drawing.root.leaves() if box.kind == "operator"]
    assert sorted(number for number in drawn if number is not None) == list(range(len(model.graph.node)))
    assert len(drawing.lines) == 4 * 5 + 1


def places(place: Place) -> Iterator[tuple[Place, list[Place]]]:
    yield place, place.inside
    for inner in place.inside:
        yield from places(inner)


@pytest.mark.parametrize("fold", [True, False])
def test_boxes_lie_inside_of_their_groups(fold: bool) -> None:
    place = nested_layout(picture(read_document(scoped(6)), Choices(fold=fold)))
    for outer, inside in places(place):
        rectangles = [(p.x, p.y, p.x + p.width, p.y + p.height) for p in inside]
        for number, rectangle in enumerate(rectangles):
            assert 0 <= rectangle[0] <= rectangle[2] <= outer.width + 1e-6
            assert 0 <= rectangle[1] <= rectangle[3] <= outer.height + 1e-6
            assert not any(overlap(rectangle, other) for other in rectangles[:number])


def test_depth_folds_what_is_deeper() -> None:
    drawing = picture(read_document(scoped()), Choices(depth=1, fold=False))
    (net,) = [box for box in drawing.root.inside if box.kind == "group"]
    assert [box.kind for box in net.inside] == ["fold"] * 4


CONTROL = """
<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
g (float[N] x, bool c) => (float[N] y) {
    r = Relu (x)
    b = If (c) <then_branch = t () => (p) { p = Neg (r) }, else_branch = e () => (q) { q = Abs (x) }>
    y = local.twice (b)
}
<domain: "local", opset_import: ["" : 17]>
twice (v) => (w) { w = Add (v, v) }
"""


def test_bodies_and_functions_are_groups() -> None:
    drawing = picture(read_document(onnx.parser.parse_model(CONTROL)))
    kinds = {box.title for box in drawing.root.inside if box.kind == "group"}
    assert kinds == {"If", "function twice"}
    values = {(line.source.title, line.target.title) for line in drawing.lines}
    assert {("Relu", "Neg"), ("x", "Abs"), ("Neg", "p"), ("If", "local.twice"), ("v", "Add")} <= values


def test_what_cannot_run_is_drawn() -> None:
    nodes = [helper.make_node("Nonsense", ["y", "gone"], ["x"]), helper.make_node("Relu", ["x"], ["y"])]
    model = helper.make_model(helper.make_graph(nodes, "cycle", [], []))
    texts = [element.text for element in xml.fromstring(intaglio.tools.draw(model)).iter(f"{SVG}text")]
    assert texts == ["Nonsense", "Relu"]
    assert b"<svg" in intaglio.tools.draw(helper.make_model(helper.make_graph([], "empty", [], [])))


HOSTILE = [
    "<script>alert(1)</script>",
    "]]>",
    "\"&\\'",
    "\x00\x1b[31m",
    "\u202eabc",
    "/" * 300,
    "a" * 100_000,
    "\ud7ff\ufffe",
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_of_models_are_only_text(name: str) -> None:
    node = helper.make_node("Relu", [name], ["y"], f"/{name}/x/{name}")
    other = helper.make_node("Neg", ["y"], ["z"], f"/{name}/x/other")
    graph = helper.make_graph([node, other], name, [helper.make_tensor_value_info(name, 1, [name])], [])
    data = intaglio.tools.draw(helper.make_model(graph, domain=name))
    tree = xml.fromstring(data)
    allowed = {"svg", "title", "style", "defs", "marker", "path", "rect", "g", "text"}
    assert {element.tag.removeprefix(SVG) for element in tree.iter()} <= allowed
    assert not any("href" in key or key.startswith("on") for element in tree.iter() for key in element.attrib)
    intaglio.tools.draw(helper.make_model(graph), format="dot")


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize("model", [scoped(), onnx.parser.parse_model(CONTROL)], ids=["scoped", "control"])
def test_graphviz_reads_what_is_written_for_it(model: onnx.ModelProto) -> None:
    assert b"<svg" in intaglio.tools.draw(model, layout="dot", fold=False)


def test_formats_and_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="'bmp'; there are svg, dot, png, pdf"):
        intaglio.tools.draw(scoped(), tmp_path / "a.bmp")
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'intaglio\[draw\]'"):
        intaglio.tools.draw(scoped(), tmp_path / "a.png")
    fake = ModuleType("cairosvg")
    seen: list[Callable[..., Any]] = []
    fake.svg2png = lambda **options: seen.append(options["bytestring"]) or b"picture"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cairosvg", fake)
    assert intaglio.tools.draw(scoped(), tmp_path / "a.png") == b"picture" == (tmp_path / "a.png").read_bytes()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnsupportedError, match="apt install graphviz"):
        intaglio.tools.draw(scoped(), layout="dot")


def test_the_same_model_gives_the_same_picture() -> None:
    assert intaglio.tools.draw(scoped(), fold=False) == intaglio.tools.draw(scoped(), fold=False)
