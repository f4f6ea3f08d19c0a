"""What says whether a model fails: a command, or a comparison with somebody else."""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from onnx import ModelProto

from intaglio.errors import InputError, IntaglioError
from intaglio.passes import pipeline
from intaglio.tools.comparing.loading import PLAIN, Loading
from intaglio.tools.comparing.measures import compare_values
from intaglio.tools.comparing.subjects import IntaglioSubject as Ours
from intaglio.tools.comparing.subjects import OpenVinoSubject, PeerError, RuntimeSubject, Subject
from intaglio.tools.comparing.tolerances import Tolerances
from intaglio.tools.cutting.cut import Plan, cut, reads_of, weight_names
from intaglio.tools.document import Document, read_document

Feeds = Mapping[str, Any]


class Check(Protocol):
    """Says how a model fails on its inputs; an empty text where it does not. `only_cuts` where it must stay a part."""

    only_cuts: bool

    def __call__(self, model: ModelProto, feeds: Feeds) -> str:
        """How the model fails."""
        ...


class FunctionCheck:
    """A function of a user, true where the model fails."""

    only_cuts = False

    def __init__(self, function: Callable[[ModelProto, dict[str, Any]], object]) -> None:
        self.function = function

    def __call__(self, model: ModelProto, feeds: Feeds) -> str:
        """How the model fails."""
        return "fails" if self.function(model, dict(feeds)) else ""


class CommandCheck:
    """A shell command with `{}` for the model and `{inputs}` for an .npz file of its inputs; it fails by its status.

    With `match`, what it prints must also hold that pattern. One that takes longer than `timeout` seconds does not
    count as failing.
    """

    only_cuts = False

    def __init__(self, command: str, match: str | None = None, timeout: float | None = None) -> None:
        if "{}" not in command:
            raise InputError(f"the command {command!r} has no {{}} for the model")
        try:
            self.pattern = None if match is None else re.compile(match)
        except re.error as error:
            raise InputError(f"{match!r} is no regular expression: {error}") from None
        self.command, self.timeout = command, timeout

    def __call__(self, model: ModelProto, feeds: Feeds) -> str:
        """How the model fails."""
        with tempfile.TemporaryDirectory(prefix="intaglio-reduce-") as folder:
            path, inputs = Path(folder) / "candidate.onnx", Path(folder) / "candidate.npz"
            path.write_bytes(model.SerializeToString())
            save_feeds(inputs, feeds)
            text = self.command.replace("{inputs}", shlex.quote(str(inputs))).replace("{}", shlex.quote(str(path)))
            try:
                found = subprocess.run(text, shell=True, capture_output=True, timeout=self.timeout, check=False)
            except subprocess.TimeoutExpired:
                return ""
        printed = (found.stdout + found.stderr).decode(errors="replace")
        is_failing = found.returncode != 0 and (self.pattern is None or self.pattern.search(printed) is not None)
        return "fails" if is_failing else ""


def save_feeds(path: Path, feeds: Feeds) -> None:
    """Write inputs to an .npz file; those that are no arrays are left out."""
    arrays = {name: np.asarray(value) for name, value in feeds.items() if isinstance(value, (np.ndarray, np.generic))}
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            stored = array.astype(np.str_) if array.dtype == object else array
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, stored, allow_pickle=False)


class AgainstCheck:
    """A comparison of Intaglio with somebody else: `ort`, `reference`, `openvino`, or another model."""

    def __init__(self, against: Any, loading: Loading, tolerances: Tolerances) -> None:
        self.against, self.loading, self.tolerances = against, loading, tolerances
        unknown = [name for name in loading.disable if name not in [each.name for each in pipeline.PIPELINE]]
        if unknown:
            raise InputError(f"there is no pass {unknown[0]!r}")
        self.is_named = against in ("ort", "onnxruntime", "reference", "openvino")
        self.other = None if self.is_named else read_document(against)
        self.only_cuts = not self.is_named

    def __call__(self, model: ModelProto, feeds: Feeds) -> str:
        """How the model fails: it differs, or it raises and the other side does not."""
        try:
            expected = self._subject(model, feeds).outputs(feeds)
        except IntaglioError:
            return ""
        try:
            found = self.loading.load(model).run(dict(feeds))
        except InputError:
            return ""  # the inputs do not fit, which is no fault of the model
        except IntaglioError as error:
            return f"raises {type(error).__name__}"
        pairs = [(name, value, found.get(name)) for name, value in expected.items() if name in found]
        wrong = [each for each in pairs if not compare_values(*each, self.tolerances).is_equal]
        return "differs" if wrong else ""

    def _subject(self, model: ModelProto, feeds: Feeds) -> Subject:
        if self.other is not None:
            return Ours(self.loading.load(part_between(self.other, model, feeds)))
        if self.against == "reference":
            return Ours(PLAIN.load(model))
        document = read_document(model)
        return OpenVinoSubject(document) if self.against == "openvino" else RuntimeSubject(document)


def part_between(document: Document, part: ModelProto, feeds: Feeds) -> ModelProto:
    """The part of a model with the inputs, constants and outputs of a part of another one, by their names.

    Raises PeerError where it has no such part.
    """
    graph = document.graph
    weights = weight_names(graph)
    fed = [info.name for info in part.graph.input]
    fixed = [tensor for tensor in part.graph.initializer if tensor.name not in weights]
    outputs = [info.name for info in part.graph.output]
    ends = {*fed, *(tensor.name for tensor in fixed), *weights}
    places = _places_between(document, ends, outputs)
    read = dict.fromkeys(name for place in places for name in reads_of(graph.nodes[place]))
    made = {name for place in places for name in graph.nodes[place].shell.output}
    unknown = [name for name in read if name not in ends and name not in made]
    if unknown:
        raise PeerError(f"the other model reads {unknown[0]!r} there, which the part does not have")
    inputs = tuple(name for name in fed if name in read or name in outputs)
    plan = Plan(tuple(places), inputs, tuple(name for name in read if name in weights), tuple(outputs))
    message = cut(document, plan, feeds)
    message.graph.initializer.extend(tensor for tensor in fixed if tensor.name in read)
    return message


def _places_between(document: Document, ends: set[str], outputs: Sequence[str]) -> list[int]:
    nodes = document.graph.nodes
    maker = {name: place for place, node in enumerate(nodes) for name in node.shell.output if name}
    found: set[int] = set()
    waiting = [name for name in outputs if name not in ends]
    while waiting:
        place = maker.get(waiting.pop())
        if place is None:
            raise PeerError("the other model does not make the part's outputs")
        if place not in found:
            found.add(place)
            waiting += [name for name in reads_of(nodes[place]) if name not in ends and name in maker]
    return sorted(found)
