"""The table of operators: it says what the registries say, and leaves no version of ONNX out."""

from __future__ import annotations

from pathlib import Path

from onnx import defs

from intaglio.conformance.support import native, operators, page, readable, reference, since_versions

PAGE = Path(__file__).parents[2] / "docs" / "support.md"


def all_operators() -> list[tuple[str, str]]:
    return [(domain, name) for domain, names in operators().items() for name in names]


def test_the_page_is_up_to_date() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert page() == written, "write it anew: intaglio conformance --support docs/support.md"


def test_every_version_of_every_operator_can_be_read() -> None:
    history = {(s.domain, s.name, s.since_version) for s in defs.get_all_schemas_with_history() if not s.deprecated}
    assert history == {(d, n, version) for d, n in all_operators() for version in since_versions(d, n)}
    assert history == {(d, n, version) for d, n in all_operators() for version in readable(d, n)}


def test_both_engines_run_every_operator() -> None:
    assert [key for key in all_operators() if not reference(*key)] == []
    assert [key for key in all_operators() if native(*key) == "no"] == []


def test_kinds() -> None:
    kinds = {
        "compiled": ["Relu", "Conv", "Transpose", "ReduceSum", "RandomNormal", "Softmax"],
        "expanded": ["Hardmax", "Upsample", "Scatter"],
        "folded": ["Constant", "Shape", "Size"],
        "control": ["If", "Loop", "Scan"],
        "host": ["StringConcat", "SequenceAt"],
    }
    assert {name: native("", name) for names in kinds.values() for name in names} == {
        name: kind for kind, names in kinds.items() for name in names
    }
    assert native("com.microsoft", "Gelu") == "expanded"
    assert "intaglio" not in operators()
