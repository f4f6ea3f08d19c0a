"""What a notebook shows: a notebook executed by IPython, and tables that models cannot break out of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import intaglio
from intaglio.cli.demo_model import demo_model
from intaglio.ir.html import ROWS

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


class Tables(HTMLParser):
    """The tables of a page as lists of rows, and every tag that it has; tags must be closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self._open: list[str] = []
        self.feed(html)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self._open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data


@pytest.fixture(scope="module")
def model() -> intaglio.Model:
    return intaglio.load(demo_model())


def test_a_model(model: intaglio.Model) -> None:
    (table,) = Tables(model._repr_html_()).tables
    assert table[1][:3] == ["input", "image", "float32[batch, 3, 32, 32]"]
    assert table[2][:3] == ["output", "probabilities", "float32[batch, 10]"]


def test_a_graph_shows_weights_as_shapes(model: intaglio.Model) -> None:
    ends, nodes = Tables(model.graph._repr_html_()).tables
    assert len(ends) == 3
    assert len(nodes) == 1 + len(model.graph)
    assert nodes[1][1:4] == [
        "Conv",
        "stem: float32[batch, 16, 32, 32]",
        "image, stem.weight: float32[16, 3, 3, 3], stem.bias: float32[16]",
    ]
    assert "pads=[1, 1, 1, 1]" in nodes[1][4]
    for text in (str(model.graph), repr(model.graph), model.graph._repr_html_()):
        assert len(text) < 30_000
        assert "base64" not in text
    assert "%stem.weight: float32[16, 3, 3, 3] = <432 elements>" in str(model.graph)
    assert repr(model.graph).startswith('<Graph "resnet-tiny" (image: float32[batch, 3, 32, 32]) -> (probabilities')


def test_an_explanation(model: intaglio.Model) -> None:
    (table,) = Tables(model.explain(dims={"batch": 4})._repr_html_()).tables
    assert table[0] == ["", "kind", "what", "operations", "bytes", "remarks"]
    assert len(table) == 1 + len(model.explain().calls)
    assert any("Conv + Relu" in row[2] and row[3] == "3,538,944" for row in table)


def test_a_memory_plan(model: intaglio.Model) -> None:
    plan = model.memory_plan(batch=4)
    (table,) = Tables(plan._repr_html_()).tables
    assert table[-1][:2] == ["total of a run", f"{plan.total:,}"]


def test_a_plan_of_sizes_that_data_tells(make: Any) -> None:
    late = intaglio.load(make("g (float[n] x) => (int64[1, m] y) { y = NonZero(x) }"))
    plan, tensors = Tables(late.memory_plan()._repr_html_()).tables
    assert plan[-1][0] == "total of a run"
    assert tensors[1][0] == "output"


HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>&\x1b[31m\u202e'


def test_models_cannot_put_markup_into_a_page() -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["<b>n"]) for name in (HOSTILE, HOSTILE + "y")]
    node = helper.make_node("Relu", [HOSTILE], [HOSTILE + "y"], name=HOSTILE)
    graph = helper.make_graph([node], HOSTILE, ends[:1], ends[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10, producer_name=HOSTILE)
    for engine in ("native", "reference"):
        hostile = intaglio.load(proto, engine=engine)
        for shown in (hostile, hostile.graph, hostile.explain(), hostile.memory_plan()):
            html = shown._repr_html_()
            page = Tables(html)
            assert page.tags <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
            assert page.attributes <= {"style", "colspan"}
            assert not set(html) & set("\x1b\u202e")


def test_long_tables_are_cut(make: Any) -> None:
    count = ROWS + 50
    nodes = " ".join(f"x{i + 1} = Relu(x{i})" for i in range(count))
    graph = intaglio.load(make(f"g (float[n] x0) => (float[n] x{count}) {{ {nodes} }}"), engine="reference").graph
    table = Tables(graph._repr_html_()).tables[1]
    assert len(table) == ROWS + 2
    assert table[-1] == ["and 50 more"]


def test_large_weights_print_in_a_line() -> None:
    weight = numpy_helper.from_array(np.ones((1000, 1000), np.float32), "w")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1000]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weight])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    large = intaglio.load(proto, engine="reference")
    for text in (str(large.graph), repr(large.graph), large.graph._repr_html_(), repr(large), large._repr_html_()):
        assert len(text) < 4000
    assert "%w: float32[1000, 1000] = <1000000 elements>" in str(large.graph)


def code_cells() -> Iterator[str]:
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def test_the_example_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell is run by IPython, and what its last line is worth is shown as a notebook shows it."""
    pytest.importorskip("IPython", reason="the notebook is executed by IPython")
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    onnx.save(demo_model(), "model.onnx")
    shell: Any = InteractiveShell()
    shell.history_manager.enabled = False
    shown: dict[str, str] = {}
    for code in code_cells():
        result = shell.run_cell(code, silent=False, store_history=False)
        result.raise_error()
        if result.result is not None:
            formats, _ = shell.display_formatter.format(result.result)
            shown[type(result.result).__name__] = formats.get("text/html", "")
    for name in ("Model", "Graph", "Explanation", "MemoryPlan"):
        assert Tables(shown[name]).tables, name
