"""A model as one HTML file that needs no server and no network."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from intaglio import garbage
from intaglio.errors import InputError, IntaglioError
from intaglio.onnx.writer import temporary_file
from intaglio.runtime.model.loading import load
from intaglio.tools.document import Document
from intaglio.tools.editing import Editor
from intaglio.tools.editing.types import value_types
from intaglio.tools.profiling import profile
from intaglio.web.costs import cost_rows, profile_json
from intaglio.web.details import node_details, tensor_array
from intaglio.web.opening import Opened, open_model
from intaglio.web.structure import structure
from intaglio.web.tensors import tensor_facts

MOST_DETAILED = 20_000
"""Panels of nodes are in the file for models of at most so many nodes."""
MOST_WEIGHT_BYTES = 64 << 20
PLACE = "<!-- intaglio-data -->"
"""Where the built page takes its data."""

Json = dict[str, Any]


def page_file(name: str) -> bytes:
    """A file of the built page; raises KeyError where there is none of that name."""
    if name not in page_names():
        raise KeyError(name)
    return resources.files("intaglio.web").joinpath("assets", name).read_bytes()


def page_names() -> list[str]:
    """The files of the built page."""
    folder = resources.files("intaglio.web").joinpath("assets")
    return sorted(each.name for each in folder.iterdir() if each.is_file())


def standalone_page(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    weights: bool = False,
    profiled: bool = False,
    dims: Mapping[str, int] | None = None,
) -> str:
    """A model as one page: its structure, what its nodes say and cost; with `profiled` where the time of runs goes.

    Statistics and elements of weights are in it only with `weights`. The page is written to `path` where one is given.
    Files that cannot be run are shown too, but have no profile: that raises the error of `intaglio.load`.
    """
    with garbage.paused():
        return _page(model if isinstance(model, Opened) else open_model(model), path, weights, profiled, dims or {})


def _page(
    opened: Opened, path: str | os.PathLike[str] | None, weights: bool, profiled: bool, dims: Mapping[str, int]
) -> str:
    document = opened.document
    data: Json = {"structure": structure(opened, problems=Editor(document).faults()), "details": _details(document)}
    data["stats"] = _costs(document, dims)
    if profiled:
        loaded = load(document.message(), base_folder=document.folder)
        data["profile"] = profile_json(document, loaded, profile(loaded, dims=dims))
    if weights:
        data["weights"] = _weights(document)
    page = embedded(data)
    if path is not None:
        with temporary_file(Path(path)) as (file, keep):
            file.write(page.encode())
            keep()
    return page


def _details(document: Document) -> Json:
    nodes = list(document.all_nodes())
    if len(nodes) > MOST_DETAILED:
        return {}
    types, found = value_types(document), dict[str, Json]()
    for node in nodes:
        details = node_details(document, node.number, types)
        del details["description"]
        found[str(node.number)] = details
    return found


def _costs(document: Document, dims: Mapping[str, int]) -> Json:
    try:
        return cost_rows(document, dims)
    except IntaglioError as error:
        return {"error": {"message": str(error)[:4000], "where": "", "remedy": ""}}


def _weights(document: Document) -> Json:
    """All constants with their statistics, and their elements in base64."""
    found: Json = {}
    total = 0
    for tensor in document.graph.initializers:
        try:
            array = tensor_array(document, tensor.name)
        except IntaglioError as error:
            found[tensor.name] = {"error": {"message": str(error), "where": tensor.name, "remedy": ""}}
            continue
        total += array.nbytes
        if total > MOST_WEIGHT_BYTES:
            raise InputError(
                f"the weights take more than {MOST_WEIGHT_BYTES:,} bytes, too much for a page: leave out --weights"
            )
        found[tensor.name] = tensor_facts(tensor.name, array) | _elements(array)
    return found


def _elements(array: np.ndarray[Any, Any]) -> Json:
    if array.dtype.kind in "OUS":
        return {}
    return {"data": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()}


def script_safe(data: Any) -> str:
    """JSON that may stand in an HTML script element: no character in it ends the element or a line.

    >>> script_safe("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def embedded(data: Json) -> str:
    """The built page with data in it, and with a policy that allows nothing but what is in it."""
    page = page_file("index.html").decode()
    if PLACE not in page:
        raise InputError("the page was built without a place for data; rebuild it with `make ui`")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{standalone_policy(page)}">'
    page = page.replace("<head>", f"<head>{policy}", 1)
    script = f'<script type="application/json" id="intaglio-data">{script_safe(data)}</script>'
    before, _, after = page.partition(PLACE)
    return before + script + after


_SCRIPT = re.compile(r"<script(?![^>]*application/json)[^>]*>(.*?)</script>", re.DOTALL)
_STYLE = re.compile(r"<style[^>]*>(.*?)</style>", re.DOTALL)


def hashes(page: str, pattern: re.Pattern[str]) -> str:
    """The hashes of the elements of a page as a policy lists them."""
    found = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in pattern.findall(page)]
    return " ".join(f"'sha256-{each}'" for each in found)


def standalone_policy(page: str) -> str:
    """The content security policy of a page that stands alone."""
    return policy(page, "'none'")


def policy(page: str, connect: str) -> str:
    """A policy that allows the scripts and styles which are in the page, pictures that it makes, and nothing else."""
    parts = {
        "default-src": "'none'",
        "script-src": hashes(page, _SCRIPT) or "'none'",
        "style-src": hashes(page, _STYLE) or "'none'",
        "img-src": "data: blob:",
        "worker-src": "blob:",
        "connect-src": connect,
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in parts.items())
