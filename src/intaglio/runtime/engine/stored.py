"""Plans that were stored, so that a later process need not lower the model again, and the engines that run them.

A stored plan runs what nearly every run is. Where sizes break an assumption, compiled code refuses data, or somebody
asks for anything but the outputs, the model is built from its graph after all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from intaglio.record import Record
from intaglio.runtime.engine.deadline import Deadline
from intaglio.runtime.engine.hosted_runs import Hosted, HostedRun
from intaglio.runtime.engine.outline import Outline, Port
from intaglio.runtime.engine.plan_engine import PlanEngine, spoiled
from intaglio.targets.step import Into, Step

if TYPE_CHECKING:
    from intaglio.kernels.plan_form import PlanForm

SPECIAL_LIMIT = 16
"""How many plans for values or sizes are held."""

OPERATORS_IN = "intaglio.ops."
"""Where the operators of host nodes are."""


def name_of_shapes(inputs: Sequence[Any]) -> str:
    """A name for the sizes of inputs."""
    return f"sizes {[getattr(array, 'shape', None) for array in inputs]}"


def name_of_values(places: Sequence[int], inputs: Sequence[Any]) -> str:
    """A name for the values of the inputs at some places."""
    return f"values {[(place, inputs[place].shape, inputs[place].tobytes().hex()) for place in places]}"


class StoredHosts(Record):
    """The host nodes of a plan, as the text of a graph, and the modules that their operators are from."""

    steps: Hosted
    graph: str
    modules: tuple[str, ...]


class StoredPlan(Record):
    """What is stored of a model beside its plan, code and constants: it is read at once, the plan when it is needed."""

    name: str
    """The name of the graph."""
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    outline: Outline
    keys: tuple[str, ...]
    """What addresses the code of each function: the kernels, then the drivers."""
    weight_bytes: int
    """The size of the weights in the graph."""
    hosts: StoredHosts | None = None


def hosted_run_of(hosts: StoredHosts) -> HostedRun:
    """The host nodes of a stored plan, made ready; only the operators that they need are imported."""
    for module in ("intaglio.ops.evaluate", *hosts.modules):
        if module.startswith(OPERATORS_IN):
            import_module(module)
    from intaglio.ir.text import parse_graph

    return HostedRun(hosts.steps, list(parse_graph(hosts.graph).nodes))


class UnfitError(Exception):
    """A stored plan cannot do a run."""


class StoredRest:
    """What runs that a stored plan cannot do itself: plans for particular runs, which were stored too, or the whole.

    `find` gives the engine of a plan that was stored for values or sizes of a name, and `whole` that of the graph;
    the engine of a plan for particular runs has no `whole`, and raises UnfitError.
    """

    is_special = False

    def __init__(self, find: Callable[[str], PlanEngine | None], whole: Callable[[], Any] | None) -> None:
        self._find, self._whole = find, whole
        self._special: dict[str, PlanEngine | None] = {}
        self.host_runs = 0
        self.places: tuple[int, ...] = ()
        """The inputs whose values decide what is run."""

    def for_values(self, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """By the plan that was stored for these values."""
        kept = [array for place, array in enumerate(inputs) if place not in self.places]
        results = self._attempt(name_of_values(self.places, inputs), kept, deadline)
        return self.whole(inputs, deadline, None) if results is None else results

    def for_ranks(self, inputs: Sequence[Any], bindings: dict[str, int], deadline: Deadline | None) -> list[Any]:
        """By the plan that was stored for these sizes."""
        return self.for_sizes(inputs, deadline)

    def for_sizes(self, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """By the plan that was stored for these sizes."""
        results = self._attempt(name_of_shapes(inputs), inputs, deadline)
        return self.whole(inputs, deadline, None) if results is None else results

    def overflowing(self, inputs: Sequence[Any], deadline: Deadline | None, *, is_late: bool) -> list[Any]:
        """By the whole model, where no plan was stored for these sizes."""
        return self.whole(inputs, deadline, None) if is_late else self.for_sizes(inputs, deadline)

    def misfit(self, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """By the whole model."""
        return self.whole(inputs, deadline, None)

    def refused(self, names: str, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """By the whole model."""
        return self.whole(inputs, deadline, None)

    def spoiled(self, names: str, inputs: Sequence[Any]) -> list[Any]:
        """Nobody can run it again."""
        raise spoiled(names)

    def faulty(self, error: Exception, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """By the whole model."""
        return self.whole(inputs, deadline, None)

    def whole(self, inputs: Sequence[Any], deadline: Deadline | None, into: Into | None) -> list[Any]:
        """By the engine of the model's graph."""
        if self._whole is None:
            raise UnfitError
        return self._whole().run(inputs, deadline, into)

    def _attempt(self, name: str, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any] | None:
        """What a plan for these values or sizes gives, where one was stored and can do it."""
        if name not in self._special:
            if len(self._special) >= SPECIAL_LIMIT:
                self._special.clear()
            self._special[name] = self._find(name)
        engine = self._special[name]
        if engine is None:
            return None
        before = engine.host_runs
        try:
            return engine.run(inputs, deadline)
        except UnfitError:
            return None
        finally:
            self.host_runs += engine.host_runs - before

    def forget_sizes(self) -> None:
        """Keep no plan of memory in any of the engines."""
        for engine in list(self._special.values()):
            if engine is not None:
                engine.forget_sizes()


def stored_engine(
    stored: StoredPlan,
    steps: Sequence[Step],
    read: Callable[[], PlanForm],
    find: Callable[[str], PlanEngine | None],
    hosted: HostedRun | None,
    whole: Callable[[], Any] | None,
) -> PlanEngine:
    """The engine of a stored plan; see `StoredRest` for `find` and `whole`. `hosted` runs its host nodes."""
    rest = StoredRest(find, whole)
    rest.places = stored.outline.parameters
    return PlanEngine(stored.outline, steps, rest, read, hosted)
