"""Which pass, rule, kernel or fusion makes a model differ: each suspect is left out in turn."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from intaglio.errors import IntaglioError
from intaglio.ir.clone import clone
from intaglio.passes import pipeline
from intaglio.passes.pipeline import Pass
from intaglio.runtime.model.model import Model
from intaglio.tools.comparing.loading import PLAIN, Loading
from intaglio.tools.comparing.measures import compare_values
from intaglio.tools.comparing.results import Bisection, Experiment
from intaglio.tools.comparing.work import Work
from intaglio.tools.cutting import Recorder, cut, plan_cut

NODE_LIMIT = 200
"""So many nodes are run one by one at most."""


@dataclass
class _Log:
    work: Work
    made: list[Experiment] = field(default_factory=list[Experiment])

    def trial(self, title: str, loading: Loading) -> bool:
        """Whether the outputs agree with the model loaded so; one that cannot be loaded or run does not."""
        self.work.tell(f"trying {title}", len(self.made), len(self.made) + 1)
        try:
            is_equal = self.work.judge(self.work.load(loading))
        except IntaglioError as error:
            return self.note(f"{title} (raises {type(error).__name__})", False)
        return self.note(title, is_equal)

    def note(self, title: str, is_equal: bool) -> bool:
        self.made.append(Experiment(title, is_equal))
        return is_equal

    def found(self, kind: str, guilty: Iterable[str], text: str) -> Bisection:
        return Bisection(kind, tuple(guilty), text, tuple(self.made))


def bisect(work: Work, first: str | None, weights: Sequence[str] = ()) -> Bisection:
    """Find what is to blame for outputs that differ; `first` is the first tensor, `weights` are those that do."""
    log = _Log(work)
    if not log.trial("the reference engine without passes", PLAIN):
        if weights:
            return log.found("weight", weights, f"the models have different weights: {', '.join(weights)}")
        return log.found(
            "meaning",
            [] if first is None else [first],
            "the reference engine without passes differs as well: no pass and no kernel is to blame, but the model, "
            "the other side, or what Intaglio takes an operator to mean",
        )
    plainly = replace(work.loading, engine="reference")
    if not log.trial("the reference engine", plainly):
        return _guilty_pass(log, plainly)
    if log.trial("without passes", replace(work.loading, simplify=False)):
        return _guilty_pass(log, work.loading)
    for title, kind, loading in (
        ("on one thread", "threads", replace(work.loading, threads=1)),
        ("exact", "rounding", replace(work.loading, exact=True)),
    ):
        if log.trial(title, loading):
            return log.found(kind, [title], f"the outputs agree {title}, and differ otherwise")
    return _guilty_kernel(log, first)


def _guilty_pass(log: _Log, base: Loading) -> Bisection:
    names = [each.name for each in pipeline.PIPELINE if each.name not in log.work.loading.disable]
    guilty = _fewest(log, base, names)
    if not guilty:
        return log.found("unknown", [], "the outputs agree without passes, and no set of passes to leave out was found")
    rules = _guilty_rules(log, base, guilty)
    title = f"the pass {guilty[0]}" if len(guilty) == 1 else f"the passes {', '.join(guilty)}"
    by = f", by its rule {rules[0]}" if len(rules) == 1 else f", by its rules {', '.join(rules)}" if rules else ""
    return log.found("pass", [*guilty, *rules], f"{title}{by}: without it the outputs agree")


def _fewest(log: _Log, base: Loading, names: list[str]) -> list[str]:
    """The passes that must be left out: one, where one will do, else as few as can be found by leaving others in."""
    for name in names:
        if log.trial(f"without {name}", replace(base, disable=(*base.disable, name))):
            return [name]
    left_out = list(names)
    if not log.trial("without all passes that have names", replace(base, disable=(*base.disable, *left_out))):
        return []
    for name in names:
        fewer = [each for each in left_out if each != name]
        if log.trial(f"with {name} again", replace(base, disable=(*base.disable, *fewer))):
            left_out = fewer
    return left_out


def _guilty_rules(log: _Log, base: Loading, guilty: list[str]) -> list[str]:
    """The rules without which the guilty passes do no harm; none where that cannot be told."""
    work, found = log.work, list[str]()
    applied = {} if work.model.report is None else work.model.report.applied
    for each in pipeline.PIPELINE:
        used = {event.rule for event in applied.get(each.name, ())}
        if each.name not in guilty or len(used) < 2:
            found += used if each.name in guilty else []
            continue
        found += [rule for rule in sorted(used) if _agrees_without(log, base, each, rule)]
    return found


def _agrees_without(log: _Log, loading: Loading, guilty: Pass, rule: str) -> bool:
    kept = tuple(each for each in guilty.rules if each.name != rule)
    changed = [replace(each, rules=kept) if each is guilty else each for each in pipeline.PIPELINE]
    graph = clone(log.work.model.graph)
    try:
        pipeline.simplify(graph, pipeline=changed, disable=loading.disable, exact=loading.exact)
        is_equal = log.work.judge(replace(loading, simplify=False, disable=()).load(graph))
    except IntaglioError:
        return False
    return log.note(f"without the rule {rule}", is_equal)


def _guilty_kernel(log: _Log, first: str | None) -> Bisection:
    """The node whose kernel differs by itself, or the nodes that are computed together."""
    work = log.work
    alone = _first_single(log, first)
    if alone is not None:
        operator, path = alone
        where = _narrowed(log)
        text = f"the kernel of {operator}: the node {path!r} differs when it is run alone on the inputs it should have"
        return log.found("kernel", [operator, path, *where], text + (f"; it agrees with {where[0]}" if where else ""))
    together = _fused_with(work.model, work, first)
    if together:
        return log.found(
            "fusion", together, f"no node differs by itself: the kernel that computes {', '.join(together)} together"
        )
    return log.found(
        "unknown", [] if first is None else [first], "no node differs by itself, so it is what they do together"
    )


def _narrowed(log: _Log) -> list[str]:
    """The plain target, where the outputs agree with it: then the code for vectors is at fault."""
    with _environment("INTAGLIO_TARGET", "c"):
        is_equal = log.trial("INTAGLIO_TARGET=c", log.work.loading)
    return ["INTAGLIO_TARGET=c"] if is_equal else []


@contextmanager
def _environment(name: str, value: str) -> Generator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name)
        else:
            os.environ[name] = before


def _first_single(log: _Log, first: str | None) -> tuple[str, str] | None:
    """The first node, from the first tensor that differs on, which differs when run alone; its operator and name."""
    work, document = log.work, log.work.document
    nodes = document.graph.nodes
    start = next((place for place, node in enumerate(nodes) if first in node.shell.output), 0)
    recorder = Recorder(document, work.samples[0])
    for place in [*range(start, min(len(nodes), start + NODE_LIMIT)), *range(max(0, start - NODE_LIMIT), start)]:
        if not _agrees_alone(work, recorder, place):
            node = nodes[place]
            log.note(f"{node.operator} {node.name or node.outputs[0]!r} alone", False)
            return node.operator, node.name or node.outputs[0]
    return None


def _agrees_alone(work: Work, recorder: Recorder, place: int) -> bool:
    plan = plan_cut(work.document, [place])
    if not plan.outputs:
        return True
    values = recorder.get([*plan.inputs, *plan.outputs])
    single = cut(work.document, plan, values, type_of=recorder.type_of)
    try:
        found = work.loading.load(single).run({name: values[name] for name in plan.inputs})
    except (IntaglioError, KeyError):
        return True
    pairs = [(name, values[name], found[name]) for name in plan.outputs if name in values]
    return all(compare_values(name, right, left, work.tolerances).is_equal for name, right, left in pairs)


def _fused_with(model: Model, work: Work, first: str | None) -> list[str]:
    """The nodes that one kernel computes together with the one that makes a tensor."""
    place, node = next(
        ((place, node) for place, node in enumerate(work.document.graph.nodes) if first in node.shell.output), (0, None)
    )
    if node is None or model.options.engine != "native":
        return []
    path = f"{node.name or f'#{place}'} ({node.shell.op_type})"
    kernels = [call.nodes for call in model.explain().calls if len(call.nodes) > 1]
    return next((list(nodes) for nodes in kernels if any(each.endswith(f" at {path}") for each in nodes)), [])
