"""ONNX files as they are: nothing is adapted, inlined, inferred or lost, also of files that cannot be run."""

from intaglio.tools.document.external import internalized, save_externally
from intaglio.tools.document.json_form import document_from_json, document_to_json
from intaglio.tools.document.parts import Attribute, Document, Function, Graph, Node
from intaglio.tools.document.reading import read_document
from intaglio.tools.document.weights import Weights
from intaglio.tools.document.writing import save_document

__all__ = [
    "Attribute",
    "Document",
    "Function",
    "Graph",
    "Node",
    "Weights",
    "document_from_json",
    "document_to_json",
    "internalized",
    "read_document",
    "save_document",
    "save_externally",
]
