"""The page as one file, and in a notebook."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.web.pages import SMALL

import intaglio
from intaglio.cli.demo_model import demo_model
from intaglio.web.standalone import standalone_page

HOSTILE = [
    "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!-- intaglio-data -->", "\u2028\u2029",
    "${1}", "\\u003c/script>", "]]>", "&lt;b&gt;", "'\"`", "\x00\x01\x1b[31m", "javascript:alert(1)",
]  # fmt: skip


def data_of(page: str) -> Any:
    return json.loads(page.partition('id="intaglio-data">')[2].partition("</script>")[0])


def test_the_page_needs_no_network() -> None:
    page = standalone_page(demo_model())
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)
    policy = html.unescape(re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[0])
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "unsafe" not in policy
    scripts = re.findall(r"<script(?![^>]*application/json)[^>]*>(.*?)</script>", page, re.DOTALL)
    for script in scripts:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy


def test_names_of_a_model_cannot_end_the_script() -> None:
    nodes = [helper.make_node("Relu", [text], [f"{text}!"], text, domain=text) for text in HOSTILE]
    model = helper.make_model(helper.make_graph(nodes, HOSTILE[0], [], [], doc_string=HOSTILE[0]))
    model.metadata_props.add(key=HOSTILE[1], value=HOSTILE[0])
    page = standalone_page(model)
    plain = standalone_page(onnx.parser.parse_model(SMALL))
    for sign in ("<script", "</script", "<img", "<!--"):
        assert page.count(sign) == plain.count(sign), sign
    data = data_of(page)["structure"]
    assert set(HOSTILE) <= set(data["strings"])


def test_weights_are_in_the_page_only_on_request() -> None:
    model = onnx.parser.parse_model(SMALL)
    assert "weights" not in data_of(standalone_page(model))
    weight = data_of(standalone_page(model, weights=True))["weights"]["w"]
    array = np.frombuffer(base64.b64decode(weight["data"]), np.float32)
    assert array.tolist() == [1, 2, 3, 4, 0, 1, 0, 0, 0, 0, 1, 0, 5, 0, 0, 1]


def test_a_model_that_cannot_be_run_has_a_page() -> None:
    data = data_of(
        standalone_page(helper.make_model(helper.make_graph([helper.make_node("No", ["a"], ["b"])], "g", [], [])))
    )
    assert data["structure"]["faults"]
    assert "No" in data["stats"]["error"]["message"]


def test_a_notebook_has_a_frame_without_rights() -> None:
    frame = intaglio.view(onnx.parser.parse_model(SMALL))._repr_html_()
    assert frame.startswith('<iframe sandbox="allow-scripts" srcdoc="')
    assert "allow-same-origin" not in frame
    assert frame.count("<") == 2
    assert "<!doctype html>" in html.unescape(frame)


@pytest.mark.parametrize("code", ["import intaglio.web.standalone, intaglio.web.notebook, intaglio.web.session"])
def test_pages_need_no_extra(code: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print(*sorted(sys.modules))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert not {"starlette", "uvicorn", "asyncio"} & set(found.stdout.split())


def test_the_missing_extra_is_named(tmp_path: Path) -> None:
    code = "import sys; sys.modules['starlette'] = None; from intaglio.cli.app import main; main(['view', sys.argv[1]])"
    onnx.save(onnx.parser.parse_model(SMALL), tmp_path / "m.onnx")
    command = [sys.executable, "-c", code, str(tmp_path / "m.onnx")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "pip install 'intaglio[web]'" in found.stderr
