"""Documents as JSON."""

from __future__ import annotations

import json

import onnx.parser
import pytest
from onnx import ModelProto
from tests.tools.test_document import WITH_FUNCTION, official_models

from intaglio.errors import LoadError
from intaglio.tools import document_from_json, document_to_json, edit, read_document


def through_json(message: ModelProto) -> ModelProto:
    text = json.dumps(document_to_json(read_document(message)), allow_nan=False)
    return document_from_json(json.loads(text)).message()


def test_some_official_models_come_back_from_json() -> None:
    for message in list(official_models())[::20]:
        assert through_json(message) == message, message.graph.name


@pytest.mark.slow
def test_all_official_models_come_back_from_json() -> None:
    for message in official_models():
        assert through_json(message) == message, message.graph.name


def test_nodes_keep_their_numbers() -> None:
    editor = edit(onnx.parser.parse_model(WITH_FUNCTION))
    editor.delete_node(editor.document.graph.nodes[2].number)
    new = editor.insert_node("Neg", ["y"], ["n"])
    data = document_to_json(editor.document)
    again = edit(document_from_json(json.loads(json.dumps(data))))
    assert sorted(node.number for node in again.nodes()) == sorted(node.number for node in editor.nodes())
    assert again.node(new).operator == "Neg"
    assert again.insert_node("Abs", ["y"], ["m"]) not in [node.number for node in editor.nodes()]


def test_structure_is_plain_to_read() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 3] x) => (float[N, 3] y) <float[2] w = {1, inf}> {
        [a] y = LeakyRelu <alpha = 0.25> (x) }"""
    data = document_to_json(read_document(onnx.parser.parse_model(text)))
    graph = data["graph"]
    assert graph["inputs"] == [{"name": "x", "type": {"tensor": "float32", "shape": ["N", 3]}}]
    assert graph["nodes"] == [
        {
            "id": 0,
            "name": "a",
            "operator": "LeakyRelu",
            "domain": "",
            "inputs": ["x"],
            "outputs": ["y"],
            "attributes": [{"name": "alpha", "type": "FLOAT", "value": 0.25}],
        }
    ]


@pytest.mark.parametrize("data", [None, [], {}, {"format": "intaglio-graph", "version": 2}, {"format": "other"}])
def test_other_json_is_refused(data: object) -> None:
    with pytest.raises(LoadError):
        document_from_json(data)
