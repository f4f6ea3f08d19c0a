"""`reduce`: a failing model, step by step, to the smallest one that fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnx import ModelProto

from intaglio.errors import InputError
from intaglio.onnx.external import ExternalData
from intaglio.onnx.reader import Source
from intaglio.runtime.engine.engine import EngineName
from intaglio.runtime.model.random_inputs import make_feeds
from intaglio.tools.comparing.loading import PLAIN, Loading
from intaglio.tools.comparing.tolerances import Tolerances, make_tolerances
from intaglio.tools.cutting.cut import whole_tensor
from intaglio.tools.document import Document, read_document
from intaglio.tools.reducing.attempts import Attempts, Draft, Progress, TimeUpError
from intaglio.tools.reducing.checks import AgainstCheck, Check, CommandCheck, FunctionCheck, part_between, save_feeds
from intaglio.tools.reducing.details import (
    reduce_attributes,
    reduce_bodies,
    reduce_branches,
    reduce_functions,
    reduce_outputs,
    tidy,
)
from intaglio.tools.reducing.nodes import reduce_nodes
from intaglio.tools.reducing.sizes import reduce_sizes


@dataclass
class Reduction:
    """The smallest model that was found, with its inputs. `is_complete` is False where the time was up before."""

    model: ModelProto
    feeds: dict[str, Any]
    failure: str
    nodes_before: int
    nodes: int
    tries: int
    seconds: float
    is_complete: bool
    other: ModelProto | None = None
    """The same part of the model that it was compared with, where that is another model."""
    operators: list[str] = field(default_factory=list[str])

    def save(self, path: Any) -> list[Path]:
        """Write the model, and its inputs beside it as .npz; returns the files."""
        target = Path(path)
        target.write_bytes(self.model.SerializeToString())
        inputs = target.with_suffix(".npz")
        save_feeds(inputs, self.feeds)
        if self.other is None:
            return [target, inputs]
        other = target.with_name(f"{target.stem}.other{target.suffix}")
        other.write_bytes(self.other.SerializeToString())
        return [target, inputs, other]


def reduce(
    model: Source | Document,
    check: str | Callable[[ModelProto, dict[str, Any]], object] | None = None,
    *,
    against: Any = None,
    feeds: Mapping[str, Any] | None = None,
    samples: int = 1,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    match: str | None = None,
    check_timeout: float | None = None,
    rtol: float | Mapping[str, float] | None = None,
    atol: float | Mapping[str, float] | None = None,
    tolerances: Tolerances | None = None,
    engine: EngineName | None = None,
    threads: int | None = None,
    disable: Collection[str] = (),
    exact: bool = False,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Reduction:
    """Cut a failing model to the smallest one that fails in the same way.

    `check` is a shell command with `{}` for the model and, if wanted, `{inputs}` for an .npz file of its inputs, which
    fails by its exit status; or a function of a model and its inputs that is true where it fails. Or `against` names
    what the model is compared with: ort, reference, openvino, or another model, which is cut in the same way. Inputs
    that are not in `feeds` are made up; of `samples` sets from `seed` on the first one that fails is taken. After
    `time_limit` seconds, and on Ctrl-C, the smallest model so far is returned.
    Raises InputError where the whole model does not fail.
    """
    document = model if isinstance(model, Document) else read_document(model)
    loading = Loading(engine, threads, True, tuple(disable), exact)
    judge = _make_check(check, against, loading, tolerances or make_tolerances(rtol, atol), match, check_timeout)
    start = time.monotonic()
    attempts = Attempts(judge, time_limit, progress)
    draft = _first_failing(document, attempts, feeds or {}, samples, seed, dims or {})
    before = draft.nodes
    is_complete = True
    try:
        draft = _reduced(draft, attempts)
    except (TimeUpError, KeyboardInterrupt):
        is_complete = False
    best = attempts.best or draft
    found = Reduction(
        best.model, best.feeds, attempts.expected, before, best.nodes, len(attempts.tried), 0.0, is_complete
    )
    found.operators = [node.op_type for node in best.model.graph.node]
    if isinstance(judge, AgainstCheck) and judge.other is not None:
        found.other = part_between(judge.other, best.model, best.feeds)
    found.seconds = time.monotonic() - start
    return found


def _make_check(
    check: Any, against: Any, loading: Loading, tolerances: Tolerances, match: str | None, timeout: float | None
) -> Check:
    if (check is None) == (against is None):
        raise InputError("give one of `check`, a command or function that fails, and `against`, to compare with")
    if against is not None:
        return AgainstCheck(against, loading, tolerances)
    return CommandCheck(check, match, timeout) if isinstance(check, str) else FunctionCheck(check)


def _first_failing(
    document: Document, attempts: Attempts, given: Mapping[str, Any], samples: int, seed: int, dims: Mapping[str, int]
) -> Draft:
    message = _whole(document)
    graph = PLAIN.load(message).graph
    for number in range(max(1, samples)):
        feeds = {**given, **make_feeds(graph, given, dims, seed + number)}
        draft = Draft(message, feeds)
        if attempts.begin(draft):
            return draft
    raise InputError(
        "the whole model does not fail, so nothing can be cut; give the inputs on which it does, or more samples"
    )


def _whole(document: Document) -> ModelProto:
    """The model with all of its weights inside."""
    message, external = document.bare_message(), ExternalData(document.folder)
    for place, tensor in enumerate(document.graph.initializers):
        message.graph.initializer[place].CopyFrom(whole_tensor(document, tensor, external))
    return message


def _reduced(draft: Draft, attempts: Attempts) -> Draft:
    is_free = not attempts.check.only_cuts
    draft = reduce_functions(draft, attempts) if is_free else draft
    while True:
        before = draft.nodes
        draft = reduce_nodes(draft, attempts)
        draft = reduce_outputs(draft, attempts)
        draft = reduce_branches(draft, attempts) if is_free else draft
        if draft.nodes >= before:
            break
    if not is_free:
        return draft
    for step in (reduce_bodies, tidy, reduce_attributes, reduce_sizes):
        draft = step(draft, attempts)
    return draft
