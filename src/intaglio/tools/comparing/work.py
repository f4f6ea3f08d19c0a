"""The two sides of a comparison, and the steps of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from intaglio.errors import InputError
from intaglio.ir.dtype import from_numpy
from intaglio.onnx.external import ExternalData
from intaglio.onnx.reader import Source
from intaglio.runtime.model.model import Model
from intaglio.runtime.model.random_inputs import make_feeds
from intaglio.tools.comparing.loading import PLAIN, Loading
from intaglio.tools.comparing.measures import Difference, compare_values, worse
from intaglio.tools.comparing.results import Comparison, NodeReport, Operand
from intaglio.tools.comparing.subjects import IntaglioSubject, StoredSubject, Subject, open_subject
from intaglio.tools.comparing.tolerances import Tolerances
from intaglio.tools.cutting.chunks import chunked
from intaglio.tools.cutting.cut import reads_of, weight_array
from intaglio.tools.document import Document, read_document

Progress = Callable[[str, int, int], None]
"""Is told what is done, and how many of how many."""
Feeds = dict[str, Any]


class Work:
    """A model, the one that it is compared with, and the inputs of both."""

    tolerances: Tolerances
    other: Subject
    samples: list[Feeds]

    def __init__(self, model: Source | Document, loading: Loading, progress: Progress | None) -> None:
        self.document = model if isinstance(model, Document) else read_document(model)
        self._source: Any = self.document.message() if isinstance(model, Document) else model
        self.loading = loading
        self.model = self.load(loading)
        self.names = [item.name for item in self.model.outputs]
        self.tell: Progress = progress or (lambda what, done, total: None)
        self.expected: list[Feeds] = []
        self.order = [(node, name) for node in self.document.graph.nodes for name in node.shell.output if name]
        """Every tensor that the model's own nodes make, in the order of the file."""

    def load(self, loading: Loading) -> Model:
        """The model with other options."""
        return loading.load(
            self._source, None if isinstance(self._source, (str, os.PathLike)) else self.document.folder
        )

    def open(self, against: Any) -> None:
        """Open the other side."""

        def other(source: Any) -> Model:
            return self.load(PLAIN) if source is None else self.loading.load(source)

        self.other = open_subject(against, self.document, self.names, other)

    def make_samples(self, feeds: Any, samples: int, seed: int, dims: Mapping[str, int]) -> list[Feeds]:
        """The sets of inputs: those given, filled up with made-up ones; what is stored with results wins."""
        given = [feeds] if isinstance(feeds, Mapping) else list(feeds or [{}])
        if samples < 1:
            raise InputError(f"samples is {samples}, expected at least 1")
        known = {item.name for item in self.model.inputs}
        stored = self.other.arrays if isinstance(self.other, StoredSubject) else {}
        own = {name: array for name, array in stored.items() if name in known}
        sets: list[Feeds] = []
        for number in range(max(samples, len(given))):
            base = {**own, **cast("Mapping[str, Any]", given[number % len(given)])}
            sets.append(base | make_feeds(self.model.graph, base, dims, seed + number))
        is_fixed = all(item.name in given[0] or item.name in own or item.is_optional for item in self.model.inputs)
        return sets[: max(1, len(given))] if is_fixed else sets

    def compare_outputs(self) -> Comparison:
        """The outputs of the model as everybody runs it."""
        subject = IntaglioSubject(self.model)
        found = Comparison(subject.title, self.other.title, len(self.samples))
        worst: dict[str, Difference] = {}
        for number, feeds in enumerate(self.samples):
            self.tell("outputs", number, len(self.samples))
            self.expected.append(self._named(self.other.outputs(feeds)))
            self._merge(worst, self.expected[number], subject.outputs(feeds), number)
        found.outputs = list(worst.values())
        left_out = [name for name in self.names if name not in worst]
        if left_out:
            found.notes.append(f"not compared, since {self.other.title} does not give them: {', '.join(left_out)}")
        return found

    def _named(self, outputs: Mapping[str, Any]) -> Feeds:
        """Outputs under the names of our model: by name, else by position where their number is the same."""
        if not set(outputs) & set(self.names) and len(outputs) == len(self.names):
            return dict(zip(self.names, outputs.values(), strict=True))
        return {name: outputs[name] for name in self.names if name in outputs}

    def _merge(self, worst: dict[str, Difference], expected: Feeds, found: Feeds, sample: int) -> None:
        for name, value in expected.items():
            difference = compare_values(name, value, found.get(name), self.tolerances, sample)
            worst[name] = worse(worst.get(name), difference)

    def judge(self, model: Model) -> bool:
        """Whether the outputs of a model agree with the other side, for all samples."""
        subject, worst = IntaglioSubject(model), dict[str, Difference]()
        for number, feeds in enumerate(self.samples):
            self._merge(worst, self.expected[number], subject.outputs(feeds), number)
        return all(each.is_equal for each in worst.values())

    def compare_tensors(self, found: Comparison, memory: int, stops: bool) -> None:
        """Compare tensors in the order of the file; with `stops` up to the part in which the first one differs."""
        subject = IntaglioSubject(self.model)
        chunks = list(chunked(self.model.graph, (name for _, name in self.order), self.samples[0], memory))
        for number, names in enumerate(chunks):
            self.tell("tensors", number, len(chunks))
            worst: dict[str, Difference] = {}
            for sample, feeds in enumerate(self.samples):
                expected = self.other.tensors(feeds, names)
                self._merge(worst, expected, subject.tensors(feeds, list(expected)), sample)
            found.tensors += [worst[name] for name in names if name in worst]
            if stops and any(not each.is_equal for each in worst.values()):
                break
        wrong = next((each for each in found.tensors if not each.is_equal), None)
        if wrong is None and any(not each.is_equal for each in found.outputs):
            wrong = self._first_alone(found)
        elif wrong is not None:
            found.first = self.report(wrong, {each.name: each for each in found.tensors})
        if wrong is None and not found.tensors:
            found.notes.append(f"{self.other.title} gives no tensors in between, so no node can be named")

    def _first_alone(self, found: Comparison) -> Difference | None:
        """The first tensor that differs where nothing else is asked for: what is fused stays fused so."""
        output = next(each for each in found.outputs if not each.is_equal)
        if not self.other.tensors(self.samples[output.sample], [self.order[0][1]] if self.order else []):
            return None
        suspects = self._ancestors(output.name)
        low, high = 0, len(suspects) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._alone(suspects[middle], output.sample) else (middle + 1, high)
        wrong = self._alone(suspects[low], output.sample) if suspects else None
        if wrong is not None:
            found.first = replace(self.report(wrong, {}), is_seen_alone=True)
            found.notes.append(
                "every tensor agrees where all of them are asked for: the fault is in what is computed together"
            )
        return wrong

    def _alone(self, name: str, sample: int) -> Difference | None:
        feeds = self.samples[sample]
        expected = self.other.tensors(feeds, [name])
        if name not in expected:
            return None
        ours = IntaglioSubject(self.model).tensors(feeds, [name])
        difference = compare_values(name, expected[name], ours.get(name), self.tolerances, sample)
        return None if difference.is_equal else difference

    def _ancestors(self, output: str) -> list[str]:
        """The tensors that an output depends on and itself, in the order of the file."""
        maker = {name: node for node, name in self.order}
        seen, waiting = {output}, [output]
        while waiting:
            node = maker.get(waiting.pop())
            fresh = [name for name in (reads_of(node) if node else ()) if name not in seen and name in maker]
            seen.update(fresh)
            waiting += fresh
        return [name for _, name in self.order if name in seen]

    def report(self, wrong: Difference, known: Mapping[str, Difference]) -> NodeReport:
        """The node that makes a tensor, with what it reads."""
        node = next(node for node, name in self.order if name == wrong.name)
        names = reads_of(node)
        feeds = self.samples[wrong.sample]
        values = {**self._weights(names), **{name: feeds[name] for name in names if name in feeds}}
        missing = [name for name in names if name not in values]
        values |= self.other.tensors(feeds, missing) if missing else {}
        operands = tuple(_operand(name, values.get(name), known.get(name)) for name in names)
        opset = self.document.opset(node.shell.domain)
        path = node.name or f"%{wrong.name}"
        return NodeReport(path, node.operator, opset, node.number, wrong.name, operands)

    def _weights(self, names: Sequence[str]) -> dict[str, Any]:
        external = ExternalData(self.document.folder)
        tensors = [each for each in self.document.graph.initializers if each.name in names]
        return {each.name: weight_array(self.document, each, external) for each in tensors}

    def compare_weights(self, against: Any) -> list[Difference]:
        """The weights that differ, where the other side is another model of which the file is known."""
        is_file = isinstance(against, (str, os.PathLike)) and os.fspath(against).endswith(".onnx")
        if not is_file and not hasattr(against, "SerializeToString"):
            return []
        other = read_document(against)
        theirs, external = {each.name: each for each in other.graph.initializers}, ExternalData(other.folder)
        found: list[Difference] = []
        for tensor in self.document.graph.initializers:
            if tensor.name in theirs:
                ours = weight_array(self.document, tensor, ExternalData(self.document.folder))
                right = weight_array(other, theirs[tensor.name], external)
                found.append(compare_values(tensor.name, right, ours, Tolerances(0.0, 0.0)))
        return [each for each in found if not each.is_equal]


def _operand(name: str, value: Any, known: Difference | None) -> Operand:
    is_equal = None if known is None else known.is_equal
    if not isinstance(value, np.ndarray):
        return Operand(name, type(value).__name__ if value is not None else "", is_equal=is_equal)
    array = cast("np.ndarray[Any, Any]", value)
    dtype = from_numpy(array.dtype)
    if dtype.kind in ("string", "complex") or not array.size:
        return Operand(name, dtype.name, array.shape, is_equal=is_equal)
    numbers = array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    least, largest = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    return Operand(name, dtype.name, array.shape, least, largest, array.size - finite.size, is_equal)
